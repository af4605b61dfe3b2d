//! `fetch`: reads a URL, if the host allows it.

use serde::Serialize;
use tollgate_sdk::http::{self, Request};
use tollgate_sdk::{component, tool};

/// The most characters of a body that are returned to the model.
const MAX_CHARS: u32 = 200_000;

/// The response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fetched {
    /// The status, such as 200 or 404.
    pub status: u16,
    /// The type of the body, as stated by the server.
    pub content_type: Option<String>,
    /// The target of a redirect. It is not followed.
    pub location: Option<String>,
    /// The body as text.
    pub body: String,
    /// Whether the body is longer.
    pub truncated: bool,
}

/// Sends an HTTP request and returns the response's status and body. Only
/// addresses that an operator granted can be reached. Redirects are not followed:
/// fetch the URL in `location` instead. The host adds API keys; never send one.
///
/// Args:
///     url: The URL, such as `https://api.example.com/v1/items?limit=5`.
///     method: GET, POST or another; GET by default.
///     body: The body of the request.
///     content_type: The media type of the body, such as `application/json`.
///     max_chars: Return this many characters of the response's body.
#[tool(category = "web", timeout = "30s")]
pub fn fetch(
    url: &str,
    #[default = "GET"] method: String,
    body: Option<String>,
    content_type: Option<String>,
    #[default = 20_000] max_chars: u32,
) -> Result<Fetched, http::Error> {
    let max_chars = max_chars.min(MAX_CHARS);
    // No character has more than four bytes.
    let mut request =
        Request::new(&method, url).header("user-agent", "tollgate-fetch/0.1").max_body_bytes(max_chars * 4);
    if let Some(content_type) = &content_type {
        request = request.header("content-type", content_type);
    }
    let response = request.body(body.unwrap_or_default()).send()?;
    let text = response.text();
    let cut = text.char_indices().nth(max_chars as usize).map(|(at, _)| at);
    Ok(Fetched {
        status: response.status,
        content_type: response.header("content-type").map(str::to_owned),
        location: response.header("location").map(str::to_owned),
        truncated: response.truncated || cut.is_some(),
        body: text[..cut.unwrap_or(text.len())].to_owned(),
    })
}

component! { id: "fetch", tools: [fetch] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_response_is_cut_at_a_character() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4096]).unwrap();
            assert!(read > 0);
            stream.write_all("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\näöü".as_bytes()).unwrap();
        });
        let fetched = fetch(&url, "GET".to_owned(), None, None, 2).unwrap();
        served.join().unwrap();
        assert_eq!((fetched.body.as_str(), fetched.truncated, fetched.status), ("äö", true, 200));
        assert_eq!(fetched.content_type.as_deref(), Some("text/plain"));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        let error = fetch("example.com", "GET".to_owned(), None, None, 1).unwrap_err();
        assert_eq!(error.code(), "bad_request");
    }
}
