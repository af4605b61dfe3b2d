//! Checks of a component that was fetched, before a person is asked about it.

use super::installed::Version;
use crate::terminal::text::{shown_line, shown_marked};
use crate::terminal::{Failure, program};
use std::path::PathBuf;
use tollgate::config::Config;
use tollgate::tools::directory;
use tollgate_agent::catalog::{Catalog, Owner, OwnerKind};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::name;
use tollgate_agent::surface::Surface;
use tollgate_registry::{Code, Digest, Entry, FetchedComponent, Verdict};
use tollgate_sandbox::{Component, Guest, Sandbox};

/// Returns the name of the file under which a component is loaded, without `.wasm`: the last part of its
/// origin. A plain component takes its id from it.
fn stem_of(origin: &str) -> &str {
    let last = origin.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    last.strip_prefix("file:").unwrap_or(last).trim_end_matches(".wasm")
}

/// Loads a component that was fetched under the name of its future file. `stem` is that name, if it is
/// known already.
pub(crate) async fn load(
    sandbox: &Sandbox,
    fetched: &FetchedComponent,
    stem: Option<&str>,
) -> Result<Component, Failure> {
    let file = format!("{}.wasm", stem.unwrap_or_else(|| stem_of(&fetched.origin)));
    match sandbox.load_either(&file, fetched.wasm.clone()).await {
        Ok(Guest::Tools(component)) => Ok(component),
        Ok(Guest::Gate(_)) => Err(refused(
            &fetched.origin,
            "it is a gate, and `add` supports only tools; put its file into the gates directory",
        )),
        Err(why) => Err(refused(&fetched.origin, &shown_marked(&why.to_string()))),
    }
}

/// A component of this origin that does not load, or would not be served.
pub(super) fn refused(origin: &str, why: &str) -> Failure {
    let code = Code::ComponentRefused.as_str();
    Failure::usage(format!("{} is refused: {why}", shown_line(origin, 200))).with_code(code)
}

/// Refuses a component that would not be served even alone.
pub(super) fn check_descriptor(component: &Component, origin: &str, config: &Config) -> Result<(), Failure> {
    let descriptor = component.descriptor();
    let owner = Owner {
        id: descriptor.id.clone().into(),
        kind: OwnerKind::Component,
        origin: shown_line(origin, 200),
        version: component.digest().into(),
    };
    let grants = config.grants_of(&descriptor.id);
    let added = Catalog::default().add(owner, descriptor.clone(), &grants.catalog());
    added.map(drop).map_err(|e| refused(origin, &format!("it would not be served: {e}")))
}

/// Refuses a component whose id is installed from another origin.
pub(super) fn check_origin(before: Option<&Entry>, origin: &str) -> Result<(), Failure> {
    let Some(before) = before.filter(|before| before.from != origin) else { return Ok(()) };
    let (id, from) = (&before.id, shown_line(&before.from, 300));
    Err(name_taken(format!(
        "the component {id} is installed from {from}; to take it from {}, remove that one first: {} remove {id}",
        shown_line(origin, 300),
        program()
    )))
}

/// Refuses the id, or a look-alike, of a component in the tools directory that has no entry.
pub(super) async fn check_installed(
    sandbox: &Sandbox,
    entry: &Entry,
    config: &Config,
) -> Result<(), Failure> {
    let loaded = directory::load(sandbox, config, &|_, _, _| {}).await?;
    let served = loaded.components.iter().map(|found| (&found.id, &found.file));
    let others = loaded.pending.iter().chain(&loaded.unopened).chain(&loaded.contested);
    let mut there = served.chain(others.map(|found| (&found.id, &found.file)));
    let is_rival = |(id, file): &(&String, &PathBuf)| {
        name::fold(id) == name::fold(&entry.id)
            && file.file_name().is_none_or(|name| name != entry.file.as_str())
    };
    let Some((id, file)) = there.find(is_rival) else { return Ok(()) };
    let file = shown_line(&file.display().to_string(), 200);
    Err(name_taken(format!("the component {id} is in {file} already; remove that file first")))
}

fn name_taken(words: String) -> Failure {
    Failure::usage(words).with_code(Code::NameTaken.as_str())
}

pub(super) fn entry(
    fetched: &FetchedComponent,
    id: &str,
    file: String,
    surface: &Surface,
    verdict: &Verdict,
) -> Result<Entry, Failure> {
    let (Verdict::Accepted { proof, .. } | Verdict::Ask { proof, .. }) = verdict;
    Ok(Entry {
        id: id.to_owned(),
        file,
        from: fetched.origin.clone(),
        tag: fetched.tag.clone(),
        manifest: fetched.artifact.as_ref().map(|artifact| artifact.digest.clone()),
        wasm: fetched.digest.clone(),
        asks: fetched.asks.as_ref().map(|asks| Digest::of(asks.as_bytes())),
        surface: Digest::of(surface.text().as_bytes()),
        licence: fetched.licence(),
        signed: proof.as_ref().map(|proof| proof.signed.clone()),
    })
}

/// Returns the reason why a version may be older than the installed one: the proven times of the
/// signatures, or else the versions that the components state.
pub(super) fn older(
    before: Option<&Entry>,
    there: Option<&Version>,
    now: &Entry,
    descriptor: &ComponentDescriptor,
) -> Option<String> {
    let before = before.filter(|before| before.wasm != now.wasm)?;
    let time = |entry: &Entry| entry.signed.as_ref()?.at()?.parse::<jiff::Timestamp>().ok();
    if let (Some(then), Some(now)) = (time(before), time(now)) {
        return (now < then)
            .then(|| format!("it was signed at {now}, before the installed version ({then})"));
    }
    let (then, now) =
        (semver::Version::parse(&there?.version).ok()?, semver::Version::parse(&descriptor.version).ok()?);
    (now < then).then(|| format!("its version {now} is lower than the installed one ({then})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_registry::SignerEvidence;

    #[test]
    fn a_version_that_was_signed_before_the_installed_one_is_older() {
        let entry = |wasm: &[u8], at: Option<&str>| Entry {
            id: "weather".to_owned(),
            file: "weather.wasm".to_owned(),
            from: "oci://ghcr.io/acme/weather".to_owned(),
            tag: None,
            manifest: None,
            wasm: Digest::of(wasm),
            asks: None,
            surface: Digest::of(b"surface"),
            licence: None,
            signed: at.map(|at| SignerEvidence::Identity {
                identity: "ada@example.com".to_owned(),
                issuer: "https://accounts.example.com".to_owned(),
                at: at.to_owned(),
                bundle: Digest::of(b"bundle"),
            }),
        };
        let (id, version) = ("weather".to_owned(), "1.0.0".to_owned());
        let descriptor = ComponentDescriptor { id, version, tools: Vec::new(), state: Vec::new() };
        let older = |before: &Entry, now: &Entry| older(Some(before), None, now, &descriptor);
        let (first, second) = ("2026-11-02T09:00:00Z", "2026-11-02T10:00:00+00:00");
        let (old, new) = (entry(b"1", Some(first)), entry(b"2", Some(second)));
        assert_eq!(older(&old, &new), None);
        let why = older(&new, &old).unwrap_or_default();
        assert!(
            why.starts_with("it was signed at 2026-11-02T09:00:00Z, before the installed version"),
            "{why}"
        );
        // The same bytes with an earlier signature are no older version, and without a time nothing is known.
        assert_eq!(older(&new, &entry(b"2", Some(first))), None);
        assert_eq!(older(&new, &entry(b"1", None)), None);
    }

    #[test]
    fn a_component_is_loaded_under_the_last_part_of_its_origin() {
        for (origin, stem) in [
            ("oci://ghcr.io/acme/my.tool", "my.tool"),
            ("https://tools.example.com/a/weather.wasm?version=1", "weather"),
            ("file:weather.wasm", "weather"),
        ] {
            assert_eq!(stem_of(origin), stem);
        }
    }
}
