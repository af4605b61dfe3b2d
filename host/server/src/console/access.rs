//! The access page, and the facts that the server gives to the console: sessions, keys, installed
//! components and prices.

use super::failure::Failure;
use super::layout::{self, Nav, Section};
use super::text;
use super::viewer::Viewer;
use crate::pricing::Price;
use crate::{Principal, Problem, Scope};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Redirect;
use maud::{Markup, html};
use tollgate::async_trait;
use tollgate::config::LimitSource;
use tollgate::tools::RefusedFile;
use tollgate_agent::gate::permissions::RuleSpec;

/// The path of the page to sign in on.
pub const SIGN_IN_PATH: &str = "/sign-in";
/// The path to which the console sends the request to sign out, as a POST.
pub const SIGN_OUT_PATH: &str = "/sign-out";

/// Facts that only the server knows. It puts an `Arc<dyn ConsoleData>` into the extensions of each
/// request. Every function has a default, so that the console works without it.
#[async_trait]
pub trait ConsoleData: Send + Sync {
    /// Returns the sessions of this principal, or all sessions if it has the scope `operate`,
    /// newest first.
    async fn sessions(&self, viewer: &Principal) -> Result<Vec<SessionRow>, Problem> {
        let _ = viewer;
        Ok(Vec::new())
    }

    /// Ends a session of this principal, or any session if it has the scope `operate`.
    ///
    /// # Errors
    /// There is no such session for this principal.
    async fn end_session(&self, viewer: &Principal, id: &str) -> Result<(), Problem> {
        let _ = (viewer, id);
        Err(Problem::not_found("session"))
    }

    /// Returns the keys, for principals with the scope `operate`; newest first.
    async fn keys(&self) -> Result<Vec<KeyRow>, Problem> {
        Ok(Vec::new())
    }

    /// Returns the installed component with this id.
    fn component(&self, id: &str) -> Option<ComponentFacts> {
        let _ = id;
        None
    }

    /// Returns the commands that get a refused file served; `None` if the reason says all.
    fn commands_for(&self, refused: &RefusedFile) -> Option<String> {
        let _ = refused;
        None
    }

    /// Returns the hosts that share the store; none if one process has it for itself.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn hosts(&self) -> Result<Vec<HostFacts>, Problem> {
        Ok(Vec::new())
    }

    /// Returns the price of a model's tokens, if it is configured.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// Returns whether permanent answers to the permission rules can be kept. If not, the console
    /// does not offer them.
    fn keeps_rules(&self) -> bool {
        false
    }

    /// Keeps a permanent answer to the permission rules in the configuration.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), Problem> {
        let _ = rule;
        Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "not_kept", "permanent answers are not kept here"))
    }
}

/// A server that knows none of these facts.
pub(super) struct NoData;

impl ConsoleData for NoData {}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The id, which is not a secret.
    pub id: String,
    /// The principal.
    pub principal: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When it was last used, in milliseconds since the Unix epoch.
    pub used_at_ms: u64,
    /// When it ends at the latest, in milliseconds since the Unix epoch.
    pub ends_at_ms: u64,
    /// The browser's own description of itself; `None` if unknown.
    pub browser: Option<String>,
    /// Whether it is the session of the request.
    pub is_current: bool,
}

/// A key in a list, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The id.
    pub id: String,
    /// The name of its principal.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// When it was last used, in milliseconds since the Unix epoch; `None` if never.
    pub used_at_ms: Option<u64>,
    /// When it expires, in milliseconds since the Unix epoch; `None` if never.
    pub expires_at_ms: Option<u64>,
    /// Whether it was revoked.
    pub is_revoked: bool,
}

/// Facts about an installed component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// The version that it declares.
    pub version: String,
    /// The name of its file, without directories.
    pub file: String,
    /// Its origin in a registry, such as `oci://ghcr.io/acme/weather`; `None` if unknown.
    pub origin: Option<String>,
    /// Its signer; `None` if it is unsigned or unknown.
    pub signer: Option<String>,
    /// Its licence, by the publisher's own statement.
    pub licence: Option<String>,
    /// Whether each load checks its file against the lock file, in words; `None` if unknown.
    pub lock: Option<String>,
    /// The powers that it asks for, in words; `None` if it has no manifest.
    pub asks: Option<Vec<String>>,
    /// The powers that it was granted, in words.
    pub granted: Vec<String>,
    /// The powers that it asks for and was not granted, each with the arguments of
    /// `tollgate grant ID` that grant it.
    pub missing: Vec<(String, String)>,
    /// The limits of one call of each tool, by tool.
    pub limits: Vec<(String, CallLimits)>,
}

/// Facts about a host that shares the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Its id, which is new at every start.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Whether its lease is valid.
    pub is_up: bool,
    /// The agents whose queued runs it claims.
    pub agents: Vec<String>,
    /// The number of runs that it drives.
    pub runs: u64,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The time until its lease ends, in milliseconds; 0 if it has ended.
    pub lease_left_ms: u64,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// The maximum fuel.
    pub fuel: u64,
    /// The place where it is set.
    pub fuel_source: LimitSource,
    /// The maximum memory in bytes.
    pub memory_bytes: u64,
    /// The place where it is set.
    pub memory_source: LimitSource,
    /// Whether the configuration sets the timeout of this tool.
    pub has_own_timeout: bool,
}

/// Every scope, with what it allows.
const SCOPES: [(Scope, &str); 6] = [
    (Scope::Use, "call tools, start runs, see and cancel own runs"),
    (Scope::Decide, "answer questions of own runs"),
    (Scope::DecideAny, "see and answer every question"),
    (Scope::Read, "see the runs, audit and usage of everyone"),
    (Scope::Operate, "cancel and recover runs of others, enable tools, end sessions"),
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
