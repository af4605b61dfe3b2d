//! The frame of every page, and the parts that several pages share.

use super::document::{document, logo};
use super::nav::{Nav, SECTIONS, Section};
use super::text;
use maud::{Markup, html};
use tollgate_agent::code::Code;

/// Returns the link to the waiting questions, with their number. It is also sent as a fragment.
pub(super) fn waiting_link(count: usize, is_current: bool) -> Markup {
    html! {
        a #nav-waiting href="/console/waiting" aria-current=[is_current.then_some("page")] {
            "Waiting"
            @if count > 0 { " " span.count { (count) span.hidden { @if count == 1 { " open question" } @else { " open questions" } } } }
        }
    }
}

/// Returns a whole page.
pub(super) fn page(nav: &Nav, title: &str, content: Markup) -> Markup {
    page_with(nav, title, html! { h1 { (title) } }, content)
}

/// Returns a whole page with its own heading.
pub(super) fn page_with(nav: &Nav, title: &str, heading: Markup, content: Markup) -> Markup {
    document(
        title,
        html! {
            a.skip href="#main" { "Skip to the content" }
            header.top {
                a.brand href="/console" { (logo()) span { "Tollgate" } }
                nav aria-label="Pages" { ul {
                    @for (section, label, path) in SECTIONS.iter().filter(|(section, ..)| nav.shows(*section)) {
                        li {
                            @if *section == Section::Waiting {
                                (waiting_link(nav.waiting, nav.section == Section::Waiting))
                            } @else {
                                a href=(path) aria-current=[(nav.section == *section).then_some("page")] { (label) }
                            }
                        }
                    }
                } }
                div.who {
                    span { "Signed in as " strong { (text::line(&nav.name, 40)) } }
                    form method="post" action=(super::SIGN_OUT_PATH) { button.small type="submit" { "Sign out" } }
                }
            }
            main #main tabindex="-1" { div.heading { (heading) } (content) }
            footer { p { "Times are in " (text::zone()) ". Text of models and tools is shown as text only." } }
            p.hidden #announce role="status" {}
        },
    )
}

/// Returns a run's status as a badge, which differs by shape and word, not by color alone.
pub(super) fn badge(status: &str) -> Markup {
    let (kind, sign) = match status {
        "completed" | "success" | "served" | "granted" | "enabled" => ("good", "✓"),
        // Records of what people decided and did.
        "resumed" | "approved" | "made" | "link_made" | "signed_in" => ("good", "✓"),
        "removed" | "revoked" | "session_ended" => ("quiet", "–"),
        "running" => ("busy", "▶"),
        "queued" => ("waits", "…"),
        "waiting" => ("waits", "?"),
        "interrupted" => ("waits", "!"),
        "cancelled" | "superseded" | "not_run" => ("quiet", "–"),
        _ => ("bad", "✕"),
    };
    html! { span.badge.(kind) { span.sign aria-hidden="true" { (sign) } (text::line(status, 40)) } }
}

/// Returns a code with a link to its explanation.
pub(super) fn code(name: &str) -> Markup {
    let is_known = Code::ALL.iter().any(|code| code.as_str() == name);
    html! {
        @if is_known { a.code href={ "/console/codes/" (name) } { (name) } } @else { code { (text::line(name, 64)) } }
    }
}

/// Returns a link to a run.
pub(super) fn run_link(run_id: &str, content: Markup) -> Markup {
    html! { a href={ "/console/runs/" (segment(run_id)) } { (content) } }
}

/// Returns a link to a thread, with its owner.
pub(super) fn thread_link(thread_id: &str) -> Markup {
    let (owner, id) = super::viewer::owner_and_id(thread_id);
    let href = text::href("/console/thread", &[("id", thread_id)]);
    html! {
        a.thread href=(href) {
            @if let Some(owner) = owner { span.owner { (text::line(owner, 40)) "/" } }
            (thread_name(owner, id))
        }
    }
}

/// Returns the name of a thread; that of a direct call is the id of its run, which is shortened.
fn thread_name(owner: Option<&str>, id: &str) -> Markup {
    if owner.is_none() && id.len() == 36 {
        return text::body(&text::short_id(id));
    }
    text::line(id, 48)
}

/// Encodes text as a segment of a path.
pub(super) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Returns a note above the content, such as the result of a form.
pub(super) fn notice(kind: &str, words: Markup) -> Markup {
    html! { p.notice.(kind) role="status" { (words) } }
}

/// Returns links to newer and older pages of a list.
pub(super) fn pager(path: &str, query: &[(&str, &str)], page: usize, has_more: bool) -> Markup {
    let at = |page: usize| {
        let page = if page == 1 { String::new() } else { page.to_string() };
        text::href(path, &[query, &[("page", page.as_str())]].concat())
    };
    html! {
        @if page > 1 || has_more {
            nav.pager aria-label="Pages of the list" {
                @if page > 1 { a rel="prev" href=(at(page - 1)) { "← Newer" } }
                span { "Page " (page) }
                @if has_more { a rel="next" href=(at(page + 1)) { "Older →" } }
            }
        }
    }
}

/// Returns a labelled select for a filter.
pub(super) fn filter_select(name: &str, label: &str, options: &[&str], chosen: &str) -> Markup {
    html! {
        label { span { (label) } select name=(name) {
            option value="" { "all" }
            @for option in options {
                option value=(option) selected[*option == chosen] { (text::line(option, 64)) }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::badge;

    #[test]
    fn what_went_well_is_not_shown_as_a_failure() {
        for (word, kind) in [
            ("resumed", "good"),
            ("approved", "good"),
            ("signed_in", "good"),
            ("session_ended", "quiet"),
            ("cancelled", "quiet"),
            ("refused", "bad"),
        ] {
            assert!(badge(word).into_string().contains(&format!("badge {kind}")), "{word}");
        }
    }
}
