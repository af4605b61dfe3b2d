//! Protects the host's own files, which no grant may contain or be within, and those that no grant
//! may change: the programs that it starts, and the keys and certificates that it trusts.

mod places;
mod programs;
mod protected_path;

use super::Approvals;
use crate::blocking::block_in_place;
use crate::config::{ComponentGrants, Config, FileGrantConfig, SecretSource};
use places::Places;
use protected_path::ProtectedPath;
use std::path::PathBuf;
use tollgate_sandbox::FileAccess;

/// Checks that none of a component's directories contains a file of the host, and that none that the
/// component may change contains a program that the host starts or a key that it trusts.
///
/// # Errors
/// A directory does.
pub fn check_files(
    granted: &ComponentGrants,
    component_id: &str,
    config: &Config,
) -> Result<(), HostFileGrant> {
    if granted.files().next().is_none() {
        return Ok(());
    }
    let places = Places::now();
    let (files, mut decisive) = (files(config), decisive_files(config));
    decisive.extend(programs::of(config));
    for file in granted.files() {
        let held = first_held(&files, file, &places).map(|own| (own, "see"));
        let held = held.or_else(|| {
            let changed = file.access == FileAccess::ReadWrite;
            Some((first_held(&decisive, file, &places).filter(|_| changed)?, "change"))
        });
        if let Some((own, does)) = held {
            return Err(HostFileGrant {
                directory: file.host.clone(),
                what: own.what.clone(),
                file: own.path.clone(),
                does,
                component_id: component_id.into(),
                config: config.name().into(),
            });
        }
    }
    Ok(())
}

/// A directory cannot be granted, because it holds a file of the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the grant of {} holds {what}, which no tool may {does} ({}); correct `files` in [grants.{component_id}] of {config}",
    directory.display(),
    file.display()
)]
pub struct HostFileGrant {
    /// The granted directory.
    pub directory: PathBuf,
    /// The kind of the file.
    pub what: String,
    /// The file of the host.
    pub file: PathBuf,
    /// The use of the file that the grant would allow.
    does: &'static str,
    /// The component that has the grant.
    pub component_id: Box<str>,
    /// The name of the configuration.
    config: Box<str>,
}

/// A source is not compiled, because a component may change it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not compiled: the component {component_id} may change it, and with it what the compiler does; revoke \
     the directory {}",
    file.display(),
    directory.display()
)]
pub struct ChangeableSource {
    /// The source.
    pub file: PathBuf,
    /// The component that may change it.
    pub component_id: String,
    /// The granted directory of the host that contains it.
    pub directory: PathBuf,
    /// The path under which the component sees that directory.
    pub guest: String,
}

/// Checks that no component can change these files and directories, which are about to be
/// compiled.
///
/// # Errors
/// A component can change one of them.
pub fn check_sources(sources: &[PathBuf], config: &Config) -> Result<(), ChangeableSource> {
    let places = Places::now();
    let sources: Vec<_> = sources.iter().map(|path| ProtectedPath::new(path, "a source")).collect();
    for (id, granted) in &config.grants {
        for file in granted.files().filter(|file| file.access == FileAccess::ReadWrite) {
            if let Some(source) = first_held(&sources, file, &places) {
                return Err(ChangeableSource {
                    file: source.path.clone(),
                    component_id: id.clone(),
                    directory: file.host.clone(),
                    guest: file.guest.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Returns the first of the host's files that a granted directory contains or is within.
fn first_held<'a>(
    own: &'a [ProtectedPath],
    file: &FileGrantConfig,
    places: &Places,
) -> Option<&'a ProtectedPath> {
    // Hard links to a file are searched for in the whole directory.
    block_in_place(|| {
        let granted = places.of(&file.host);
        own.iter().find(|own| places.of(&own.path).is_held_by(&granted))
    })
}

/// Returns the host's files and directories.
fn files(config: &Config) -> Vec<ProtectedPath> {
    let directories = [
        (Some(config.tools_dir.clone()), "the tools directory"),
        (Some(config.gates_dir.path.clone()), "the gates directory"),
        (config.limits.sandbox.cache_dir.clone(), "the cache of compiled tools"),
        (config.data_dir.clone(), "the data directory"),
        (config.file.clone().or_else(|| config.absent_file.clone()), "the configuration"),
        (Some(Approvals::path(config)), "the record of approvals"),
        (id_file(config), "the project's id"),
        (Some(crate::registry::files(config).lock), "the lock file"),
        (Some(crate::registry::files(config).bundles), "the kept signatures"),
        (crate::registry::docker_config(), "the credentials of registries"),
        // `--store` can name a database that is not in the configuration.
        (std::env::var_os("PGPASSFILE").map(PathBuf::from), "the passwords of databases"),
        // `/proc` exposes the variables and the memory of every process.
        (Some(PathBuf::from("/proc")), "the processes of this machine, including the host"),
    ];
    let directories =
        directories.into_iter().filter_map(|(path, what)| Some(ProtectedPath::new(path?, what)));
    let of_store = config.store.database.as_ref().and_then(|database| database.password.as_ref());
    let sources = config.secrets.values().map(|secret| &secret.source).chain(of_store);
    let secrets = sources.filter_map(|source| match source {
        SecretSource::File(file) => Some(ProtectedPath::new(file, "a secret")),
        SecretSource::Environment(_) => None,
    });
    directories.chain(secrets).collect()
}

/// Returns the files that decide whom the host trusts, and what a recorded model says.
fn decisive_files(config: &Config) -> Vec<ProtectedPath> {
    let of_trust = config.trust.files().iter().map(|file| (file, "a file of [trust]"));
    let of_registries = config.registries.values().filter_map(|settings| settings.ca.as_ref());
    let of_store = config.store.database.iter().filter_map(|database| database.ca.as_ref());
    let authorities = of_registries.chain(of_store).map(|file| (file, "a certificate authority"));
    let models = config.agents.values().filter_map(|agent| agent.model.as_ref()).chain(&config.model);
    let recorded = models.filter_map(|model| model.file.as_ref()).map(|file| config.base_dir.join(file));
    let recorded = recorded.map(|file| ProtectedPath::new(file, "the replies of a recorded model"));
    of_trust.chain(authorities).map(|(file, what)| ProtectedPath::new(file, what)).chain(recorded).collect()
}

/// Returns the file with which a project that was moved finds its data directory again. A
/// configuration made in code has none.
fn id_file(config: &Config) -> Option<PathBuf> {
    Some(config.file.as_ref().or(config.absent_file.as_ref())?.with_extension("id"))
}
