//! Installs a component into the tools or gates directory: loads it once to check it, and moves it
//! into place atomically.

use super::Artifact;
use super::error::BuildError;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tollgate::grants::{ManifestError, manifest_of, read_manifest};
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_sandbox::{Guest, Sandbox};

/// The directories that components are installed into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dirs<'a> {
    /// The tools directory.
    pub(crate) tools: &'a Path,
    /// The gates directory.
    pub(crate) gates: &'a Path,
}

/// A component in the tools or gates directory.
#[derive(Debug)]
pub(crate) struct InstalledComponent {
    /// The component's id.
    pub(crate) id: String,
    /// Its installed file.
    pub(crate) file: PathBuf,
    /// The size of the file in bytes.
    pub(crate) bytes: u64,
    /// Whether the same bytes were installed already.
    pub(crate) unchanged: bool,
    /// Its tools, checked and cleaned; empty for a gate.
    pub(crate) tools: Vec<ToolDescriptor>,
}

/// The prefix of the names of files that are being written.
const PART: &str = ".part-";
/// The age from which such a file is stale: no build takes this long to write one.
const PART_IS_STALE_AFTER: Duration = Duration::from_secs(3_600);

/// The time after which a slow load is explained.
const LONG: Duration = Duration::from_millis(400);

/// Loads a component, lets it describe itself, and installs it in the directory of its kind under
/// its own id.
///
/// # Errors
/// The component would not be served, or the directory cannot be written.
pub(crate) async fn install(
    sandbox: &Sandbox,
    artifact: &Artifact,
    dirs: Dirs<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<InstalledComponent, BuildError> {
    let mut bytes = fs::read(&artifact.file).map_err(BuildError::file(&artifact.file, "read"))?;
    bytes.extend_from_slice(&artifact.statements);
    let name = artifact.file.display().to_string();
    let refused =
        |why: &dyn std::fmt::Display| BuildError::Failed(format!("{name} would not be served: {why}"));
    let mut load = pin!(sandbox.load_either(&name, bytes.clone().into()));
    let loaded = match timeout(LONG, &mut load).await {
        Ok(loaded) => loaded,
        Err(_) => {
            say("checking the component, which compiles it to machine code once");
            load.await
        }
    };
    let component = match loaded.map_err(|e| refused(&e))? {
        Guest::Tools(component) => component,
        Guest::Gate(gate) => return put_in(dirs.gates, gate.descriptor().id.clone(), &bytes, Vec::new()),
    };
    let descriptor = component.descriptor().clone();
    let owner = Owner {
        id: descriptor.id.as_str().into(),
        kind: OwnerKind::Component,
        origin: name.clone(),
        version: component.digest().into(),
    };
    let mut alone = Catalog::default();
    alone.add(owner, descriptor.clone(), &CatalogGrants::default()).map_err(|e| refused(&e))?;
    let tools = alone.tools().map(|tool| tool.descriptor.clone()).collect();
    if let Some(asks) = asks_of(artifact, &descriptor.id)? {
        // Write the manifest first: the component must not be visible without it.
        let file = dirs.tools.join(&descriptor.id).with_extension("wasm");
        put(&asks, &manifest_of(&file), dirs.tools)?;
    }
    put_in(dirs.tools, descriptor.id, &bytes, tools)
}

fn put_in(
    dir: &Path,
    id: String,
    bytes: &[u8],
    tools: Vec<ToolDescriptor>,
) -> Result<InstalledComponent, BuildError> {
    let file = dir.join(format!("{id}.wasm"));
    let unchanged = fs::read(&file).is_ok_and(|there| there == bytes);
    if !unchanged {
        put(bytes, &file, dir)?;
    }
    Ok(InstalledComponent { id, file, bytes: bytes.len() as u64, unchanged, tools })
}

/// Returns the project's manifest, `ID.toml`, which states what the component requests.
fn asks_of(artifact: &Artifact, id: &str) -> Result<Option<Vec<u8>>, BuildError> {
    let Some(project) = &artifact.project else { return Ok(None) };
    let file = project.join(format!("{id}.toml"));
    if !file.is_file() {
        return Ok(None);
    }
    let refused = |why: ManifestError| BuildError::Failed(format!("{id} would not be served: {why}"));
    read_manifest(&file.with_extension("wasm")).map_err(refused)?;
    fs::read(&file).map(Some).map_err(BuildError::file(&file, "read"))
}

/// Writes a file of this directory atomically. Creates the directory if it is missing.
///
/// # Errors
/// The directory cannot be created, or the file cannot be written.
pub(super) fn put(bytes: &[u8], file: &Path, dir: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(dir).map_err(BuildError::file(dir, "created"))?;
    remove_stale_parts(dir);
    let mut part = tempfile::Builder::new()
        .prefix(PART)
        .permissions(readable_by_all())
        .tempfile_in(dir)
        .map_err(BuildError::file(dir, "written to"))?;
    part.write_all(bytes)
        .and_then(|()| part.as_file().sync_all())
        .map_err(BuildError::file(file, "written"))?;
    part.persist(file).map_err(|e| BuildError::file(file, "written")(e.error))?;
    Ok(())
}

/// Removes partial files of builds that were killed while writing.
fn remove_stale_parts(dir: &Path) {
    let is_stale = |entry: &fs::DirEntry| {
        let is_part = entry.file_name().to_string_lossy().starts_with(PART);
        let age = || entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?.elapsed().ok();
        is_part && age().is_some_and(|age| age > PART_IS_STALE_AFTER)
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for stale in entries.filter(is_stale) {
        // The next build tries again to remove it.
        let _ = fs::remove_file(stale.path());
    }
}

#[cfg(unix)]
fn readable_by_all() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_build_left_is_removed_by_a_later_one() {
        let dir = tempfile::tempdir().unwrap();
        let [stale, current] = [".part-stale", ".part-current"].map(|name| dir.path().join(name));
        for file in [&stale, &current] {
            fs::write(file, "half").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * PART_IS_STALE_AFTER;
        fs::File::options().write(true).open(&stale).unwrap().set_modified(long_ago).unwrap();
        put(b"whole", &dir.path().join("tool.wasm"), dir.path()).unwrap();
        assert!(!stale.exists() && current.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
