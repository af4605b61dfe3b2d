//! The access page: sessions and keys.

use super::data::{KeyRow, SessionRow};
use super::failure::Failure;
use super::layout;
use super::nav::{Nav, Section};
use super::text;
use super::viewer::Viewer;
use crate::Scope;
use axum::extract::Path;
use axum::response::Redirect;
use maud::{Markup, html};

/// Every scope, with what it allows.
const SCOPES: [(Scope, &str); 6] = [
    (Scope::Use, "call tools, start runs, see and cancel own runs"),
    (Scope::Decide, "answer questions of own runs"),
    (Scope::DecideAny, "see and answer every question"),
    (Scope::Read, "see the runs, audit and usage of everyone"),
    (
        Scope::Operate,
        "cancel and recover runs of others, enable tools, make answers permanent, list keys, end sessions",
    ),
    (Scope::Metrics, "read the metrics"),
];

pub(super) async fn page(viewer: Viewer) -> Result<Markup, Failure> {
    let nav = Nav::of(&viewer, Section::Access).await?;
    let sessions = viewer.data.sessions(&viewer.principal).await?;
    let keys = if viewer.has(Scope::Operate) { viewer.data.keys().await? } else { Vec::new() };
    let bounds = |label: &str, patterns: &[String]| {
        html! {
            dt { (label) }
            dd {
                @if patterns.is_empty() { "all" }
                @for pattern in patterns { code { (text::line(pattern, 64)) } " " }
            }
        }
    };
    let content = html! {
        section.card aria-labelledby="you" {
            h2 #you { "You are " (text::line(&viewer.principal.name, 64)) }
            div.scroll tabindex="0" role="group" aria-label="Your scopes" { table.scopes {
                caption.hidden { "Your scopes" }
                thead { tr { th scope="col" { "Scope" } th scope="col" { "Yours" } th scope="col" { "Allows to" } } }
                tbody {
                    @for (scope, allows) in SCOPES {
                        tr.off[!viewer.has(scope)] {
                            th scope="row" { code { (scope.as_str()) } }
                            td { @if viewer.has(scope) { span.yes { "yes" } } @else { "no" } }
                            td { (allows) }
                        }
                    }
                }
            }
            }
            dl.facts { (bounds("Agents", &viewer.principal.agents)) (bounds("Tools", &viewer.principal.tools)) }
        }
        (session_list(&sessions, &viewer))
        @if viewer.has(Scope::Operate) { (key_list(&keys, viewer.now_ms)) }
    };
    Ok(layout::page(&nav, "Access", content))
}

fn session_list(sessions: &[SessionRow], viewer: &Viewer) -> Markup {
    html! {
        section.card aria-labelledby="sessions" {
            h2 #sessions { "Sessions" }
            @if sessions.is_empty() {
                p.empty { "No sessions. A link from " code { "tollgate sign-in" } " begins one." }
            } @else {
                div.scroll tabindex="0" role="group" aria-labelledby="sessions" { table.list {
                    thead { tr {
                        th scope="col" { "Person" } th scope="col" { "Browser" } th scope="col" { "Began" }
                        th scope="col" { "Last used" } th scope="col" { "Ends" }
                        th scope="col" { span.hidden { "Actions" } }
                    } }
                    tbody { @for session in sessions { tr {
                        th scope="row" { (text::line(&session.principal, 64)) }
                        td.about data-label="Browser" { (text::line(&session.browser.as_deref().map_or("unknown".to_owned(), browser_name), 80)) }
                        td data-label="Began" { (text::moment(session.started_at_ms, viewer.now_ms)) }
                        td.about data-label="Last used" { (text::ago(session.used_at_ms, viewer.now_ms)) }
                        td data-label="Ends" { (text::moment(session.ends_at_ms, viewer.now_ms)) }
                        td {
                            @if session.is_current { span.muted { "this session" } } @else {
                                form method="post" action={ "/console/access/sessions/" (layout::segment(&session.id)) "/end" } {
                                    button.small type="submit" { "End" span.hidden { " the session of " (text::line(&session.principal, 64)) } }
                                }
                            }
                        }
                    } } }
                } }
            }
        }
    }
}

/// The words of a browser's description of itself that name it. Many browsers also name others, so the
/// first that is found counts.
const BROWSERS: [(&str, &str); 6] = [
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Version/", "Safari"),
    ("curl/", "curl"),
];
/// The same for the system.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// Returns a short name of a browser, such as `Firefox 145 on Linux`; its own words if it is unknown.
fn browser_name(user_agent: &str) -> String {
    let named = |(word, name): &(&str, &str)| {
        let version = user_agent.split_once(word)?.1;
        Some(format!("{name} {}", version.split(['.', ' ']).next().unwrap_or_default()))
    };
    let Some(browser) = BROWSERS.iter().find_map(named) else { return user_agent.to_owned() };
    match SYSTEMS.iter().find(|(word, _)| user_agent.contains(word)) {
        Some((_, system)) => format!("{browser} on {system}"),
        None => browser,
    }
}

fn key_list(keys: &[KeyRow], now_ms: u64) -> Markup {
    html! {
        section.card aria-labelledby="keys" {
            h2 #keys { "Keys" }
            @if keys.is_empty() { p.empty { "No keys. " code { "tollgate keys add NAME" } " makes one." } } @else {
                div.scroll tabindex="0" role="group" aria-labelledby="keys" { table.list {
                    thead { tr {
                        th scope="col" { "Name" } th scope="col" { "Id" } th scope="col" { "Scopes" }
                        th scope="col" { "Last used" } th scope="col" { "Expires" }
                    } }
                    tbody { @for key in keys { tr.off[key.is_revoked] {
                        th scope="row" { (text::line(&key.name, 64)) }
                        td data-label="Id" { code { (text::line(&key.id, 32)) } }
                        td.detail { @for scope in &key.scopes { span.tag { (scope.as_str()) } " " } }
                        td.about data-label="Last used" { @match key.used_at_ms { Some(at) => (text::ago(at, now_ms)), None => "never" } }
                        td data-label="Expires" {
                            @if key.is_revoked { "revoked" }
                            @else { @match key.expires_at_ms { Some(at) => (text::moment(at, now_ms)), None => "never" } }
                        }
                    } } }
                } }
                p.muted { "Keys are made and revoked on the command line: " code { "tollgate keys" } "." }
            }
        }
    }
}

pub(super) async fn end_session(viewer: Viewer, Path(id): Path<String>) -> Result<Redirect, Failure> {
    viewer.data.end_session(&viewer.principal, &id).await?;
    Ok(Redirect::to("/console/access"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_has_a_short_name() {
        for (user_agent, name) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
                "Firefox 145 on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
                 Safari/537.36 Edg/142.0.0.0",
                "Edge 142 on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/19.0 Mobile/15E148 Safari/604.1",
                "Safari 19 on iPhone",
            ),
            ("<b>Browser</b>", "<b>Browser</b>"),
        ] {
            assert_eq!(browser_name(user_agent), name);
        }
    }
}
