//! The HTML document around the content of a page.

use super::{assets, text};
use maud::{DOCTYPE, Markup, html};

/// Returns a page without navigation.
pub(super) fn bare(title: &str, content: Markup) -> Markup {
    document(
        title,
        html! {
            main.bare #main { div.card { p.brand { (logo()) span { "Tollgate" } } (content) } }
        },
    )
}

/// Returns a document with this title and body.
pub(super) fn document(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (text::line(title, 100)) " · Tollgate" }
                link rel="icon" type="image/svg+xml" href=(assets::url("icon.svg"));
                link rel="stylesheet" href=(assets::url("console.css"));
                script type="module" src=(assets::url("console.js")) {}
            }
            body { (body) }
        }
    }
}

/// Returns the logo.
pub(super) fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 24 24" aria-hidden="true" {
            rect.post x="3" y="6" width="4" height="15" rx="1.2" {}
            path.bar d="M6 9.2 21 3.6l1 2.6L7 11.8z" {}
            circle.lamp cx="5" cy="4" r="2" {}
        }
    }
}
