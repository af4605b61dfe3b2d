//! The stylesheet, the script and the icon, each under an address that contains its digest.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

/// A file that the console serves.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    /// The beginning of the SHA-256 of the bytes, in hexadecimal.
    digest: String,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        ("console.css", "text/css; charset=utf-8", include_bytes!("assets/console.css").as_slice()),
        ("console.js", "text/javascript; charset=utf-8", include_bytes!("assets/console.js").as_slice()),
        ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg").as_slice()),
    ]
    .map(|(name, media_type, bytes)| {
        let digest = Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Asset { name, media_type, bytes, digest }
    })
});

/// Returns the address of a file, which changes with its bytes.
pub(super) fn url(name: &str) -> String {
    let digest = ASSETS.iter().find(|asset| asset.name == name).map_or("", |asset| &asset.digest);
    format!("/console/assets/{digest}/{name}")
}

/// Answers with a file. These files are public: they contain nothing of a principal, and the page to
/// sign in on needs them.
pub(super) async fn serve(Path((digest, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", asset.digest);
    // Under an old digest, the current file must not be cached forever.
    let cache = if digest == asset.digest { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, asset.media_type)], asset.bytes).into_response()
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    #[test]
    fn z22_a_tools_marks_do_not_leave_its_box() {
        let style = include_str!("assets/console.css");
        let rule = style.lines().find(|line| line.contains("{ overflow: clip;")).unwrap_or_default();
        for box_of_words in ["blockquote,", "pre,", ".values dd,", ".text,"] {
            assert!(rule.contains(box_of_words), "{box_of_words} {rule}");
        }
        let shown = crate::console::text::lines(&format!("a{}", "\u{30d}".repeat(50)), 1_000);
        assert_eq!(shown.into_string(), format!("a{}", "\u{30d}".repeat(4)));
    }
}
