//! Checks of a component that was fetched, before a person is asked about it.

use super::installed::Version;
use crate::terminal::output::shown_line;
use crate::terminal::{Failure, program};
use std::path::PathBuf;
use tollgate::config::Config;
use tollgate::tools::directory;
use tollgate_agent::catalog::{Catalog, Owner, OwnerKind};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::name;
use tollgate_agent::surface::Surface;
use tollgate_registry::{Digest, Entry, Fetched, Verdict};
use tollgate_sandbox::{Component, Guest, Sandbox};

pub(super) async fn load(sandbox: &Sandbox, fetched: &Fetched) -> Result<Component, Failure> {
    match sandbox.load_either(&shown_line(&fetched.origin, 200), fetched.wasm.clone()).await? {
        Guest::Tools(component) => Ok(component),
        Guest::Gate(_) => Err(Failure::usage(format!(
            "{} is a gate, and `add` supports only tools; put its file into the gates directory",
            shown_line(&fetched.origin, 200)
        ))),
    }
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
    let added = Catalog::default().add(owner, descriptor.clone(), &grants.catalog);
    added.map(drop).map_err(|e| Failure::usage(format!("it would not be served: {e}")))
}

/// Refuses a component whose id is installed from another origin.
pub(super) fn check_origin(before: Option<&Entry>, origin: &str) -> Result<(), Failure> {
    let Some(before) = before.filter(|before| before.from != origin) else { return Ok(()) };
    let (id, from) = (&before.id, shown_line(&before.from, 300));
    Err(Failure::usage(format!(
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
    let others = loaded.held.iter().chain(&loaded.unopened).chain(&loaded.contested);
    let mut there = served.chain(others.map(|found| (&found.id, &found.file)));
    let is_rival = |(id, file): &(&String, &PathBuf)| {
        name::fold(id) == name::fold(&entry.id)
            && file.file_name().is_none_or(|name| name != entry.file.as_str())
    };
    let Some((id, file)) = there.find(is_rival) else { return Ok(()) };
    let file = shown_line(&file.display().to_string(), 200);
    Err(Failure::usage(format!("the component {id} is in {file} already; remove that file first")))
}

pub(super) fn entry(
    fetched: &Fetched,
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
