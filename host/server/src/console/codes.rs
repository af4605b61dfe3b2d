//! Explanations of the codes with which calls end, from the documentation.

use super::failure::Failure;
use super::layout;
use super::nav::{Nav, Section};
use super::viewer::Viewer;
use axum::extract::Path;
use maud::{Markup, html};

/// The documentation of every code.
const CODES: &str = include_str!("../../../../docs/codes.md");

pub(super) async fn page(viewer: Viewer, Path(code): Path<String>) -> Result<Markup, Failure> {
    let section = section_of(&code).ok_or(Failure::missing("code"))?;
    let nav = Nav::of(&viewer, Section::Runs).await?;
    let heading = html! { p.crumbs { "Codes" } h1 { code { (code) } } };
    let content = html! {
        section.card.prose { @for paragraph in section.split("\n\n") { (paragraph_of(paragraph.trim())) } }
    };
    Ok(layout::page_with(&nav, &code, heading, content))
}

/// Returns the text of a code's section.
fn section_of(code: &str) -> Option<&'static str> {
    let start = CODES.find(&format!("\n### `{code}`\n"))? + 1;
    let section = &CODES[start..];
    let body = section.find('\n').map_or("", |end| &section[end..]);
    let end = body.find("\n## ").into_iter().chain(body.find("\n### ")).min();
    Some(body[..end.unwrap_or(body.len())].trim())
}

/// Renders a paragraph: a bold word at its beginning becomes a heading, and backticks become code.
fn paragraph_of(paragraph: &str) -> Markup {
    let (heading, rest) = match paragraph.strip_prefix("**").and_then(|rest| rest.split_once(".**")) {
        Some((heading, rest)) => (Some(heading), rest.trim()),
        None => (None, paragraph),
    };
    html! {
        @if let Some(heading) = heading { h2 { (heading) } }
        p { @for (at, part) in rest.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::code::Code;

    #[test]
    fn every_code_is_explained() {
        for code in Code::ALL {
            let section = section_of(code.as_str()).unwrap_or_default();
            assert!(section.starts_with("**Meaning.**") && !section.contains("###"), "{code}: {section}");
        }
        assert_eq!(section_of("nothing"), None);
    }
}
