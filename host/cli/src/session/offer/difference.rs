//! Differences between the version of a component that is in place and the one that is offered.

use super::arguments;
use super::installed::Version;
use crate::terminal::quantity;
use crate::terminal::text::{shown, shown_line};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tollgate::grants::RequestedGrants;
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_registry::{Entry, Package, SignerEvidence};

/// The longest that comparing the words of one tool may take; a coarser comparison follows.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);
/// The most changed lines of one tool's words that are shown.
const MAX_LINES: usize = 60;
/// The most packages and imports that are shown one by one.
const MAX_SHOWN: usize = 40;

/// A value that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Change<T> {
    before: T,
    after: T,
}

/// Members of a set that came and went, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Changes {
    gained: Vec<String>,
    lost: Vec<String>,
}

/// Differences of a tool that both versions have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ToolChange {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Change<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<String>,
    /// The rest of its description, such as its time limit and whether it may be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Change<String>>,
}

/// All differences between two versions. Absent means equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Differences {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Change<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Change<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Change<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<Change<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    licence: Option<Change<String>>,
    /// Requests of the manifest, and powers and state that the imports need.
    powers: Changes,
    imports: Changes,
    tools: Changes,
    changed_tools: Vec<ToolChange>,
    /// Packages that it was built from. A new version of a package is a package that changed.
    packages: Changes,
    changed_packages: Vec<String>,
    /// Why the list is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
}

impl Differences {
    /// Compares two versions by their entries and, if the files of the old one are in place, by
    /// their content.
    pub(super) fn between(before: &Entry, after: &Entry, old: Option<&Version>, new: &Version) -> Self {
        let digest = |entry: &Entry| entry.manifest.as_ref().unwrap_or(&entry.wasm).to_string();
        let licence = |entry: &Entry| entry.licence.clone().unwrap_or_else(|| "not stated".to_owned());
        let found = Self {
            digest: change(digest(before), digest(after)),
            signer: signer(before.signed.as_ref(), after.signed.as_ref()),
            licence: change(licence(before), licence(after)),
            ..Self::default()
        };
        let Some(old) = old else {
            let why = "the installed files are not those that tollgate.lock records, so that tools, powers and \
                       packages cannot be compared; restore them: tollgate sync";
            return Self { incomplete: (before != after).then(|| why.to_owned()), ..found };
        };
        let tools = |version: &Version| version.surface.tools.iter().map(|tool| tool.name.clone()).collect();
        let (packages, changed_packages) =
            packages(old.metadata.packages.as_deref(), new.metadata.packages.as_deref());
        Self {
            version: change(old.version.clone(), new.version.clone()),
            bytes: change(old.bytes, new.bytes),
            powers: powers(old, new),
            imports: changes(old.imports.iter().cloned().collect(), new.imports.iter().cloned().collect()),
            tools: changes(tools(old), tools(new)),
            changed_tools: changed_tools(&old.surface.tools, &new.surface.tools),
            packages,
            changed_packages,
            ..found
        }
    }

    /// The differences, one line each. Words of strangers are cleaned and cut.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let labelled = |label: &str, text: &str| format!("  {label:<9} {text}");
        let mut changed = |label: &str, change: Option<(String, String)>| {
            if let Some((before, after)) = change {
                lines.push(labelled(
                    label,
                    &format!("{} is now {}", shown_line(&before, 300), shown_line(&after, 300)),
                ));
            }
        };
        let texts = |change: &Option<Change<String>>| {
            change.as_ref().map(|change| (change.before.clone(), change.after.clone()))
        };
        changed("version", texts(&self.version));
        changed("digest", texts(&self.digest));
        let size = |change: &Change<u64>| (quantity::bytes(change.before), quantity::bytes(change.after));
        changed("size", self.bytes.as_ref().map(size));
        changed("signer", texts(&self.signer));
        changed("licence", texts(&self.licence));
        lines.extend(self.powers.lines("can newly", "no longer"));
        lines.extend(self.tools.lines("new tool", "lost tool"));
        for tool in &self.changed_tools {
            let name = shown_line(&tool.name, 64);
            if let Some(Change { before, after }) = &tool.words {
                lines.push(labelled("tool", &format!("{name} has new words:")));
                lines.extend(line_diff(before, after));
            }
            lines.extend(tool.arguments.iter().map(|what| labelled("tool", &format!("{name}: {what}"))));
            if let Some(Change { before, after }) = &tool.execution {
                let (before, after) = (shown_line(before, 200), shown_line(after, 200));
                lines.push(labelled("tool", &format!("{name} runs as {after}, and ran as {before}")));
            }
        }
        lines.extend(self.imports.lines("imports", "dropped"));
        lines.extend(self.packages.lines("built of", "not of"));
        lines.extend(shortened("package", &self.changed_packages));
        lines.extend(self.incomplete.iter().map(|why| labelled("note", why)));
        lines
    }
}

impl Changes {
    fn lines(&self, gained: &str, lost: &str) -> impl Iterator<Item = String> {
        shortened(gained, &self.gained).into_iter().chain(shortened(lost, &self.lost))
    }
}

/// Lines with this label, of which the last counts those that are left out.
fn shortened(label: &str, all: &[String]) -> Vec<String> {
    let mut lines: Vec<_> =
        all.iter().take(MAX_SHOWN).map(|one| format!("  {label:<9} {}", shown_line(one, 300))).collect();
    if all.len() > MAX_SHOWN {
        lines.push(format!("  {label:<9} and {} more; see them with --json", all.len() - MAX_SHOWN));
    }
    lines
}

/// The lines of two texts that differ, marked with `-` and `+`.
fn line_diff(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (shown(before), shown(after));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before.as_str(), after.as_str());
    let differing = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let mut lines: Vec<_> = differing
        .map(|change| format!("            {} {}", change.tag(), change.value().trim_end_matches('\n')))
        .collect();
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("            and {more} more lines; see them with --json"));
    }
    lines
}

fn change<T: PartialEq>(before: T, after: T) -> Option<Change<T>> {
    (before != after).then_some(Change { before, after })
}

fn changes(before: BTreeSet<String>, after: BTreeSet<String>) -> Changes {
    Changes {
        gained: after.difference(&before).cloned().collect(),
        lost: before.difference(&after).cloned().collect(),
    }
}

/// The signer changed, or the branch, tag or workflow that signed.
fn signer(before: Option<&SignerEvidence>, after: Option<&SignerEvidence>) -> Option<Change<String>> {
    let words =
        |signed: Option<&SignerEvidence>| signed.map_or_else(|| "no one".to_owned(), ToString::to_string);
    change(words(before), words(after))
}

/// Requests of the manifest and needs of the imports, in words.
fn powers(old: &Version, new: &Version) -> Changes {
    let unlimited = || vec!["do whatever it is granted: it has no manifest".to_owned()];
    let asked = |asks: Option<&RequestedGrants>, other: Option<&RequestedGrants>| match (asks, other) {
        (Some(asks), Some(other)) => asks.excess_over(other),
        (Some(asks), None) => asks.each(),
        (None, Some(_)) => unlimited(),
        (None, None) => Vec::new(),
    };
    let (needs, known) = (new.surface.needs(), old.surface.needs());
    let used = |what: Vec<String>| what.into_iter().map(|what| format!("use {what}, if granted"));
    let (old, new) = (old.asks.as_ref(), new.asks.as_ref());
    Changes {
        gained: asked(new, old).into_iter().chain(used(needs.excess_over(&known))).collect(),
        lost: asked(old, new).into_iter().chain(used(known.excess_over(&needs))).collect(),
    }
}

fn changed_tools(old: &[ToolDescriptor], new: &[ToolDescriptor]) -> Vec<ToolChange> {
    let changed = new.iter().filter_map(|tool| {
        let known = old.iter().find(|known| known.name == tool.name)?;
        let execution = |tool: &ToolDescriptor| {
            let category = tool.category.as_deref().unwrap_or_default();
            let how = serde_json::to_string(&tool.execution).unwrap_or_default();
            if category.is_empty() { how } else { format!("{how} in the category {category}") }
        };
        let change = ToolChange {
            name: tool.name.clone(),
            words: change(known.description.clone(), tool.description.clone()),
            arguments: arguments::differences(&known.parameters, &tool.parameters),
            execution: change(execution(known), execution(tool)),
        };
        let differs = change.words.is_some() || !change.arguments.is_empty() || change.execution.is_some();
        differs.then_some(change)
    });
    changed.collect()
}

/// Packages that came and went, and those of which the version or the source changed.
fn packages(old: Option<&[Package]>, new: Option<&[Package]>) -> (Changes, Vec<String>) {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (None, None) => return (Changes::default(), Vec::new()),
        (None, Some(new)) => {
            let gained = vec![format!(
                "{}, which were not listed before",
                quantity::count(new.len() as u64, "package")
            )];
            return (Changes { gained, lost: Vec::new() }, Vec::new());
        }
        (Some(old), None) => {
            let lost =
                vec![format!("{}: it no longer lists any", quantity::count(old.len() as u64, "package"))];
            return (Changes { gained: Vec::new(), lost }, Vec::new());
        }
    };
    let by_name = |packages: &[Package]| {
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in packages {
            let place =
                if package.source == "crates.io" { String::new() } else { format!(" ({})", package.source) };
            named.entry(package.name.clone()).or_default().insert(format!("{}{place}", package.version));
        }
        named
    };
    let (old, new) = (by_name(old), by_name(new));
    let joined = |versions: &BTreeSet<String>| versions.iter().cloned().collect::<Vec<_>>().join(", ");
    let only = |one: &BTreeMap<String, BTreeSet<String>>, other: &BTreeMap<String, BTreeSet<String>>| {
        let only = one.iter().filter(|(name, _)| !other.contains_key(*name));
        only.map(|(name, versions)| format!("{name} {}", joined(versions))).collect::<Vec<_>>()
    };
    let changed = new.iter().filter_map(|(name, versions)| {
        let known = old.get(name).filter(|known| *known != versions)?;
        Some(format!("{name} {} is now {}", joined(known), joined(versions)))
    });
    (Changes { gained: only(&new, &old), lost: only(&old, &new) }, changed.collect())
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
