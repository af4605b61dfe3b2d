//! From cargo's directory into that of tools, or of gates: checked by loading it once,
//! and moved into place so that nobody ever sees half a file.

use super::{Artifact, BuildError};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tollgate::grants::{manifest_of, read_manifest};
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_sandbox::{Guest, Sandbox};

/// Where components go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dirs<'a> {
    /// Those with tools.
    pub(crate) tools: &'a Path,
    /// Gates.
    pub(crate) gates: &'a Path,
}

/// A component in the tools directory, or in that of the gates.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The component's id.
    pub(crate) id: String,
    /// Its file there.
    pub(crate) file: PathBuf,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Whether the very same bytes were there already.
    pub(crate) unchanged: bool,
    /// Its tools, checked and cleaned; a gate has none.
    pub(crate) tools: Vec<ToolDescriptor>,
}

/// How the names of files begin that are being written.
const PART: &str = ".part-";
/// No build takes this long to write a file.
const PART_IS_STALE_AFTER: Duration = Duration::from_secs(3_600);

/// How long a component may take to load before that is explained.
const LONG: Duration = Duration::from_millis(400);

/// Loads a component, lets it describe itself, and puts it where its kind belongs,
/// under its own id.
///
/// # Errors
/// It is no component that would be served, or the directory cannot be written.
pub(crate) async fn install(
    sandbox: &Sandbox,
    artifact: &Artifact,
    dirs: Dirs<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Installed, BuildError> {
    let bytes = fs::read(&artifact.file).map_err(BuildError::file(&artifact.file, "read"))?;
    let name = artifact.file.display().to_string();
    let refused =
        |why: &dyn std::fmt::Display| BuildError::Failed(format!("{name} would not be served: {why}"));
    let mut load = pin!(sandbox.load_either(&name, bytes.clone()));
    let loaded = match timeout(LONG, &mut load).await {
        Ok(loaded) => loaded,
        Err(_) => {
            say("loading it once; the first time, that compiles it to machine code");
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
        // Before the component, which must not be seen without it.
        let file = dirs.tools.join(&descriptor.id).with_extension("wasm");
        put(&asks, &manifest_of(&file), dirs.tools)?;
    }
    put_in(dirs.tools, descriptor.id, &bytes, tools)
}

fn put_in(dir: &Path, id: String, bytes: &[u8], tools: Vec<ToolDescriptor>) -> Result<Installed, BuildError> {
    let file = dir.join(format!("{id}.wasm"));
    let unchanged = fs::read(&file).is_ok_and(|there| there == bytes);
    if !unchanged {
        put(bytes, &file, dir)?;
    }
    Ok(Installed { id, file, bytes: bytes.len() as u64, unchanged, tools })
}

/// The manifest of the project, `ID.toml`, which says what the component asks for.
fn asks_of(artifact: &Artifact, id: &str) -> Result<Option<Vec<u8>>, BuildError> {
    let Some(project) = &artifact.project else { return Ok(None) };
    let file = project.join(format!("{id}.toml"));
    if !file.is_file() {
        return Ok(None);
    }
    let refused = |why: String| BuildError::Failed(format!("{id} would not be served: {why}"));
    read_manifest(&file.with_extension("wasm")).map_err(refused)?;
    fs::read(&file).map(Some).map_err(BuildError::file(&file, "read"))
}

/// Writes a file of this directory, which is made where it is missing, so that nobody
/// sees half of it.
///
/// # Errors
/// The directory cannot be made, or the file not be written.
pub(super) fn put(bytes: &[u8], file: &Path, dir: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(dir).map_err(BuildError::file(dir, "made"))?;
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

/// Removes what builds left that were killed while they wrote.
fn remove_stale_parts(dir: &Path) {
    let is_stale = |entry: &fs::DirEntry| {
        let is_part = entry.file_name().to_string_lossy().starts_with(PART);
        let age = || entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?.elapsed().ok();
        is_part && age().is_some_and(|age| age > PART_IS_STALE_AFTER)
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for stale in entries.filter(is_stale) {
        // What cannot be removed is tried again by the next build.
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
