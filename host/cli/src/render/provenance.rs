//! Origins of components, and their statements about themselves, as a person sees them.

use crate::terminal::Output;
use crate::terminal::output::DIM;
use crate::terminal::remedy::of_registry;
use crate::terminal::text::{shown_line, shown_marked};
use serde_json::{Value, json};
use tollgate::config::Config;
use tollgate::registry::{LockState, Origin};
use tollgate_registry::{Error, Evidence, Lock, Metadata, Package};

/// The maximum number of packages that are named beside their total number.
const MAX_NAMED: usize = 6;

/// Returns a line for the source that a component states, if it does, and one for its packages.
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

/// Returns why signatures do not count, as JSON.
pub(crate) fn faults(evidence: &Evidence) -> Vec<Value> {
    let to_json = |fault: &Error| json!({ "code": fault.code.as_str(), "message": of_registry(fault) });
    evidence.faults.iter().map(to_json).collect()
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

/// Returns the origin of a component that is served.
pub(crate) fn origin(lock: &Lock, config: &Config, id: &str) -> Origin {
    Origin::of(lock.of(id), config.locked)
}

/// Shows the origin of a component that is served, on one line. Shows nothing if no component is
/// recorded, or records are not checked.
pub(crate) fn show(recorded: &Lock, config: &Config, id: &str, output: &Output) {
    let Origin { from, tag, signer, licence, lock } = origin(recorded, config, id);
    let words = match from {
        Some(from) => {
            let tag = tag.map(|tag| format!(":{}", shown_line(&tag, 128))).unwrap_or_default();
            let signer = match signer {
                Some(signer) => format!("signed by {}", shown_line(&signer, 200)),
                None => "not signed, accepted by a person".to_owned(),
            };
            let licence = licence.map(|licence| format!(", licence {}", shown_line(&licence, 100)));
            format!("from {}{tag}, {signer}{}", shown_line(&from, 300), licence.unwrap_or_default())
        }
        None if lock == LockState::Unrecorded && recorded.entries().next().is_some() => {
            "not recorded: its file is in the tools directory and not in the lock file".to_owned()
        }
        None => return,
    };
    output.line(&format!("{DIM}origin of {id}{DIM:#} {words}"));
}

/// Returns the lock state of an [`Origin`] in words.
pub(crate) fn lock_in_words(lock: LockState) -> &'static str {
    match lock {
        LockState::Off => "not checked: [tools] locked is \"off\"",
        LockState::Recorded => "recorded: each load checks its file against tollgate.lock",
        LockState::Unrecorded => "not recorded in tollgate.lock",
    }
}

/// Returns the source of a component with its tag; `None` if it is not recorded.
pub(crate) fn source_in_words(origin: &Origin) -> Option<String> {
    let tag = origin.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
    origin.from.as_ref().map(|from| format!("{from}{tag}"))
}

/// Returns the signer of a component in words; `None` if it is not recorded.
pub(crate) fn signer_in_words(origin: &Origin) -> Option<String> {
    let unsigned = || origin.from.is_some().then(|| "none: a person accepted it unsigned".to_owned());
    origin.signer.clone().or_else(unsigned)
}

/// Shows the origin of a component that is served, one line for each part.
pub(crate) fn show_in_full(recorded: &Lock, config: &Config, id: &str, output: &Output) {
    let origin = origin(recorded, config, id);
    let from = source_in_words(&origin)
        .unwrap_or_else(|| "not known: its file was put into the tools directory".to_owned());
    for (name, value) in [
        ("origin", Some(from)),
        ("signer", signer_in_words(&origin)),
        ("licence", origin.licence),
        ("lock", Some(lock_in_words(origin.lock).to_owned())),
    ] {
        if let Some(value) = value {
            output.line(&format!("  {name:<10} {}", shown_line(&value, 300)));
        }
    }
}

/// Returns why signatures were ignored, one line for each reason.
pub(crate) fn ignored(evidence: &Evidence) -> Vec<String> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for fault in &evidence.faults {
        let why = of_registry(fault);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    let line = |(why, count): (String, usize)| {
        let why = why.strip_prefix("the signature ").map_or(why.clone(), |rest| format!("it {rest}"));
        let why = shown_marked(&why);
        match count {
            1 => format!("its signature was ignored: {why}"),
            count => format!("{count} signatures were ignored, each because {why}"),
        }
    };
    reasons.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_registry::Code;

    #[test]
    fn a_recorded_component_without_a_signature_is_said_to_have_none() {
        let from = Some("oci://ghcr.io/acme/echo".to_owned());
        let origin = Origin {
            from,
            tag: Some("1".to_owned()),
            signer: None,
            licence: None,
            lock: LockState::Recorded,
        };
        assert_eq!(source_in_words(&origin).as_deref(), Some("oci://ghcr.io/acme/echo:1"));
        assert_eq!(signer_in_words(&origin).as_deref(), Some("none: a person accepted it unsigned"));
        let origin = Origin { from: None, ..origin };
        assert_eq!((source_in_words(&origin), signer_in_words(&origin)), (None, None));
    }

    #[test]
    fn signatures_that_are_ignored_for_the_same_reason_are_counted() {
        let fault = |code, what: &str| Error::new(code, what);
        let unknown = || fault(Code::UnknownKey, "the signature was made with an unknown key");
        let other = fault(Code::InvalidBundle, "the bundle cannot be read: it is not text");
        let evidence = Evidence { proofs: Vec::new(), faults: vec![unknown(), other, unknown()] };
        assert_eq!(
            ignored(&evidence),
            [
                "2 signatures were ignored, each because it was made with an unknown key; add the key to [trust], or name \
                 it: --key FILE",
                "its signature was ignored: the bundle cannot be read: it is not text; ask the publisher to sign it again",
            ]
        );
    }
}
