//! The elements of a page that are sent again when they change.

use super::text;
use axum::response::sse::Event;
use maud::{Markup, html};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The id of the element that shows the text of a reply in progress.
pub(super) const LIVE_TEXT: &str = "live-text";

/// An element of a page that is sent again when it changes.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    /// The id of the element.
    pub(super) id: String,
    pub(super) html: String,
    /// The list that a new element joins, and whether at its start.
    list: Option<(&'static str, bool)>,
    pub(super) digest: u64,
}

impl Fragment {
    /// Creates an element. The markup has the same id.
    pub(super) fn new(id: impl Into<String>, markup: Markup) -> Self {
        let html = markup.into_string();
        Self { id: id.into(), digest: digest(&html), html, list: None }
    }

    /// Makes a new element the first of a list.
    pub(super) fn at_start(mut self, list: &'static str) -> Self {
        self.list = Some((list, true));
        self
    }

    /// Makes a new element the last of a list.
    pub(super) fn at_end(mut self, list: &'static str) -> Self {
        self.list = Some((list, false));
        self
    }

    pub(super) fn event(&self) -> Event {
        let (list, is_first) = self.list.unwrap_or(("", false));
        let data = serde_json::json!({"id": self.id, "html": self.html, "list": list, "first": is_first});
        Event::default().event("element").data(data.to_string())
    }
}

/// Returns the address of the stream for a page that shows these elements.
pub(super) fn url(view: &str, query: &[(&str, &str)], shown: &[Fragment]) -> String {
    let seen = format!("{:016x}", digest_of_all(shown));
    text::href("/console/live", &[query, &[("view", view), ("seen", seen.as_str())]].concat())
}

/// Returns a digest of an element without its times, whose words depend on when they are read.
fn digest(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut rest = html;
    while let Some(start) = rest.find("<time") {
        rest[..start].hash(&mut hasher);
        rest = rest[start..].find("</time>").map_or("", |end| &rest[start + end..]);
    }
    rest.hash(&mut hasher);
    hasher.finish()
}

/// Returns a digest of these elements.
pub(super) fn digest_of_all(fragments: &[Fragment]) -> u64 {
    let mut hasher = DefaultHasher::new();
    fragments.iter().for_each(|fragment| (&fragment.id, fragment.digest).hash(&mut hasher));
    hasher.finish()
}

/// Returns the empty element for the text of a reply in progress.
pub(super) fn live_text() -> Markup {
    html! { p.live-text id=(LIVE_TEXT) aria-live="off" {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_time_do_not_change_an_element() {
        let one = Fragment::new("a", html! { p #a { "x " time datetime="1" { "1 min ago" } " y" } });
        let two = Fragment::new("a", html! { p #a { "x " time datetime="1" { "2 min ago" } " y" } });
        let other = Fragment::new("a", html! { p #a { "x " time datetime="1" { "2 min ago" } " z" } });
        assert_eq!(one.digest, two.digest);
        assert_ne!(one.digest, other.digest);
    }
}
