//! Origins of components, and their statements about themselves, as a person sees them.

use crate::session::Opened;
use crate::terminal::Output;
use crate::terminal::output::{DIM, shown_line};
use tollgate_registry::{Entry, LockMode, Metadata, Package};

/// The most packages that are named on a line of their number.
const MAX_NAMED: usize = 6;

/// Returns the source and the packages that a component states, one line each.
pub(crate) fn lines(metadata: &Metadata) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(source) = &metadata.source {
        lines.push(format!("source    {}", shown_line(source, 200)));
    }
    match (&metadata.packages, &metadata.fault) {
        (Some(packages), _) => lines.push(format!("packages  {}", packages_in_words(packages))),
        (None, Some(fault)) => lines.push(format!("packages  not known: {}", shown_line(fault, 300))),
        (None, None) => lines.push("packages  not listed".to_owned()),
    }
    lines
}

/// Returns the number of packages, and the names of the first.
fn packages_in_words(packages: &[Package]) -> String {
    let named = |package: &Package| format!("{} {}", package.name, package.version);
    let first: Vec<_> = packages.iter().take(MAX_NAMED).map(named).collect();
    let more = packages.len().saturating_sub(first.len());
    let more = if more > 0 { format!(", and {more} more: see --json") } else { String::new() };
    match first.is_empty() {
        true => "none".to_owned(),
        false => format!("{} ({}{more})", packages.len(), shown_line(&first.join(", "), 300)),
    }
}

/// Shows where a component that is served came from, who signed it, its licence, and whether its file
/// is checked against the lock file. Without a lock file there is nothing to show.
pub(crate) fn show(opened: &Opened, id: &str, output: &Output) {
    let words = match (opened.loaded.lock.of(id), lock_state(opened, id)) {
        (Some(entry), _) => recorded(entry),
        (None, "unrecorded") if opened.loaded.lock.entries().next().is_some() => {
            "not recorded: its file is in the tools directory and not in the lock file".to_owned()
        }
        _ => return,
    };
    output.line(&format!("{DIM}origin of {id}{DIM:#} {words}"));
}

/// Returns whether the file of a component that is served is checked against the lock file.
pub(crate) fn lock_state(opened: &Opened, id: &str) -> &'static str {
    match (opened.config.locked, opened.loaded.lock.of(id)) {
        (LockMode::Off, _) => "off",
        (_, Some(_)) => "recorded",
        (_, None) => "unrecorded",
    }
}

/// Returns origin, signer and licence of a recorded component, on one line.
fn recorded(entry: &Entry) -> String {
    let tag = entry.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
    let signer = match &entry.signed {
        Some(signed) => format!("signed by {}", shown_line(&signed.to_string(), 200)),
        None => "not signed, accepted by a person".to_owned(),
    };
    let licence = entry.licence.as_ref().map(|licence| format!(", licence {}", shown_line(licence, 100)));
    format!("from {}{tag}, {signer}{}", shown_line(&entry.from, 300), licence.unwrap_or_default())
}
