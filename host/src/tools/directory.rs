//! The tools directory: every `.wasm` file in it, loaded at start, and again when it
//! changes.
//!
//! A file that cannot be served is reported with its reason and left out; the
//! rest is served. Of two that collide at start, the later by file name is left out.

mod live;
mod stamp;
mod watch;

pub use live::{Approval, Change, Live, NoMoreThanServed};
pub use watch::{Watch, WatchError};

use super::component::ComponentRunner;
use super::{RefusedFile, Runner, Toolbox};
use crate::config::{ComponentGrants, Config, ToolLimits};
use crate::store::{AuditKind, AuditRecord};
use futures::StreamExt;
use sha2::{Digest as _, Sha256};
use stamp::Stamp;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::catalog::{Owner, OwnerKind};
use tollgate_agent::child::Delegates;
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::surface::Surface;
use tollgate_sandbox::{Component, FileGrant, Grants, Power, Sandbox};

/// How many files are looked at at once. Of those that are new, fewer are compiled at
/// once: see [`COMPILED_AT_ONCE`](tollgate_sandbox::COMPILED_AT_ONCE).
const LOADED_AT_ONCE: usize = 8;

/// What the tools directory came to.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// What can be called, and the files that were refused.
    pub toolbox: Toolbox,
    /// The components that are served, sorted by file.
    pub components: Vec<LoadedComponent>,
    /// What the operator should know: words of the configuration that nothing
    /// answers to.
    pub notices: Vec<String>,
    /// Every file as it was when it was looked at, served or not.
    stamps: BTreeMap<PathBuf, Stamp>,
}

/// A component that is served.
#[derive(Debug, Clone)]
pub struct LoadedComponent {
    /// Its file.
    pub file: PathBuf,
    /// The component's id.
    pub id: String,
    /// What it says of its version.
    pub version: String,
    /// The SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// What it imports.
    pub imports: Vec<tollgate_sandbox::Import>,
    /// What it was granted.
    pub grants: ComponentGrants,
    /// The limits of each of its tools, by the tool's name.
    pub limits: BTreeMap<String, ToolLimits>,
    /// What it shows and asks for; an approval is of this.
    pub surface: Surface,
}

impl LoadedComponent {
    /// The SHA-256 of its surface, in hexadecimal.
    #[must_use]
    pub fn surface_hash(&self) -> String {
        Sha256::digest(self.surface.text()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Why the tools directory cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("the tools directory {} cannot be read: {source}; name another in [tools] of {config}, or make this one readable", dir.display())]
pub struct DirectoryError {
    dir: PathBuf,
    config: String,
    source: io::Error,
}

/// Who is told that one more of so many files has been looked at.
pub type LoadProgress<'a> = dyn Fn(usize, usize, &Path) + Send + Sync + 'a;

/// Loads everything in the tools directory of the configuration. A directory
/// that does not exist holds nothing.
///
/// # Errors
/// The directory is there and cannot be read.
pub async fn load(
    sandbox: &Sandbox,
    config: &Config,
    progress: &LoadProgress<'_>,
) -> Result<Loaded, DirectoryError> {
    let files = component_files(&config.tools_dir).map_err(|source| DirectoryError {
        dir: config.tools_dir.clone(),
        config: config.name(),
        source,
    })?;
    let total = files.len();
    let mut loaded = Loaded { stamps: files.iter().cloned().collect(), ..Loaded::default() };
    let mut loading = futures::stream::iter(files.into_iter().map(|(file, _)| file))
        .map(|file| async move { (sandbox.load(&file).await, file) })
        .buffered(LOADED_AT_ONCE);
    let mut done = 0;
    while let Some((component, file)) = loading.next().await {
        done += 1;
        progress(done, total, &file);
        let served = match component {
            Ok(component) => loaded.serve(component, &file, config),
            Err(refusal) => Err(refusal.to_string()),
        };
        if let Err(reason) = served {
            loaded.toolbox.refuse(RefusedFile { file, reason, still_serves: None });
        }
    }
    loaded.notices = unanswered(config, &loaded);
    Ok(loaded)
}

impl Loaded {
    /// What the audit says of it.
    #[must_use]
    pub fn to_audit(&self) -> Vec<AuditRecord> {
        let loads = self.components.iter().map(|entry| {
            AuditRecord::new(AuditKind::Load, "host", "served")
                .of_file(&entry.file)
                .of_component(entry.id.clone(), Some(entry.digest.clone()))
        });
        loads.chain(self.toolbox.refused().iter().map(RefusedFile::to_audit)).collect()
    }

    /// Adds a component to what can be called.
    pub(super) fn serve(&mut self, component: Component, file: &Path, config: &Config) -> Result<(), String> {
        let ready = Ready::new(component, file, config)?;
        ready.join(&mut self.toolbox)?;
        self.components.push(ready.entry);
        Ok(())
    }

    /// The component that brings the tool of this name.
    #[must_use]
    pub fn component_of(&self, tool_name: &str) -> Option<&LoadedComponent> {
        let owner = &self.toolbox.catalog().tool(tool_name)?.owner.id;
        self.components.iter().find(|component| &component.id == owner)
    }
}

/// A component that lacks nothing but a place in a toolbox.
struct Ready {
    entry: LoadedComponent,
    descriptor: ComponentDescriptor,
    runner: Arc<dyn Runner>,
}

impl Ready {
    fn new(component: Component, file: &Path, config: &Config) -> Result<Self, String> {
        let mut descriptor = component.descriptor().clone();
        let powers = component.imports().iter().filter_map(|import| import.power).map(Power::as_str);
        let surface = Surface::new(&descriptor, powers);
        let granted = config.grants_of(&descriptor.id);
        let limits = limits_of(&mut descriptor, config);
        let delegates = granted.catalog.delegates != Delegates::None;
        let grants = open_grants(&granted, &descriptor.id, config)?.with_delegates(delegates);
        let entry = LoadedComponent {
            file: file.to_owned(),
            id: descriptor.id.clone(),
            version: tollgate_agent::text::clean(&descriptor.version, 64),
            digest: component.digest().to_owned(),
            imports: component.imports().to_vec(),
            grants: granted,
            limits,
            surface,
        };
        let runner = Arc::new(ComponentRunner::new(
            component,
            file,
            grants,
            &entry.limits,
            config.limits.sandbox.waiting_calls,
        ));
        Ok(Self { entry, descriptor, runner })
    }

    /// Takes its place, or none: then the sentence says who has it.
    fn join(&self, toolbox: &mut Toolbox) -> Result<(), String> {
        let owner = Owner {
            id: self.entry.id.clone(),
            kind: OwnerKind::Component,
            origin: file_name(&self.entry.file),
            version: self.entry.digest.clone(),
        };
        toolbox
            .add(owner, self.descriptor.clone(), &self.entry.grants.catalog, Arc::clone(&self.runner))
            .map_err(|e| e.to_string())
    }
}

/// The limits of each tool. A timeout that the operator set takes the place of
/// the one that the tool asks for.
fn limits_of(descriptor: &mut ComponentDescriptor, config: &Config) -> BTreeMap<String, ToolLimits> {
    let mut limits = BTreeMap::new();
    for tool in &mut descriptor.tools {
        let of_tool = config.limits.of_tool(&tool.name);
        if of_tool.timeout_ms.is_some() {
            tool.execution.timeout_ms = of_tool.timeout_ms;
        }
        limits.insert(tool.name.clone(), of_tool);
    }
    limits
}

/// Opens the directories that the component was granted.
///
/// # Errors
/// One cannot be opened: the component is then not served, for it would run
/// without what its operator believes it has.
pub fn open_grants(granted: &ComponentGrants, component_id: &str, config: &Config) -> Result<Grants, String> {
    let correct = format!("correct `files` in [grants.{component_id}] of {}", config.name());
    let mut grants = Grants::default();
    for file in &granted.files {
        if let Some(own) = holds_the_hosts_own(&file.host, config) {
            let host = file.host.display();
            return Err(format!("the grant of {host} holds {own}, which no tool may see; {correct}"));
        }
        let open = FileGrant::open(&file.host, file.guest.as_str(), file.access)
            .map_err(|e| format!("{e}; {correct}"))?;
        grants = grants.with_files(open);
    }
    Ok(grants)
}

/// What of the host's own lies in the directory, or holds it.
fn holds_the_hosts_own(dir: &Path, config: &Config) -> Option<&'static str> {
    let dir = real(dir);
    let own = [
        (Some(config.tools_dir.as_path()), "the tools directory"),
        (Some(config.gates_dir.path.as_path()), "the gates directory"),
        (config.limits.sandbox.cache_dir.as_deref(), "the cache of compiled tools"),
        (config.data_dir.as_deref(), "the data directory"),
        (config.file.as_deref(), "the configuration"),
    ];
    let overlaps = |path: &Path| {
        let path = real(path);
        path.starts_with(&dir) || dir.starts_with(&path)
    };
    own.into_iter().find(|(path, _)| path.is_some_and(overlaps)).map(|(_, what)| what)
}

/// Where a path leads, links followed, as far as it is there already: what is yet
/// to be made is found where it will be.
fn real(path: &Path) -> PathBuf {
    let up = || match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => real(Path::new(".")).join(name),
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    };
    path.canonicalize().unwrap_or_else(|_| up())
}

/// The files of a directory whose names end in `.wasm`, sorted by name. A directory
/// that does not exist holds nothing.
pub(crate) fn wasm_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(component_files(dir)?.into_iter().map(|(file, _)| file).collect())
}

/// The files whose names end in `.wasm`, sorted by name, whatever they are, each as it
/// is now.
fn component_files(dir: &Path) -> io::Result<Vec<(PathBuf, Stamp)>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = file_name(&path).starts_with('.');
        if !hidden && path.extension().is_some_and(|end| end == "wasm") {
            // One that is gone already is as good as never seen.
            if let Some(stamp) = Stamp::of(&path) {
                files.push((path, stamp));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Grants and limits for what is not there.
fn unanswered(config: &Config, loaded: &Loaded) -> Vec<String> {
    let name = config.name();
    let grants = config
        .grants
        .keys()
        .filter(|id| !loaded.components.iter().any(|component| &component.id == *id))
        .map(|id| format!("{name} has [grants.{id}], and no component of that id is served"));
    let limits = config
        .limits
        .tools
        .keys()
        .filter(|tool| loaded.toolbox.catalog().tool(tool).is_none())
        .map(|tool| format!("{name} has [tools.{tool}.limits], and no tool of that name is served"));
    grants.chain(limits).collect()
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    tollgate_agent::text::clean(&name.to_string_lossy(), 200)
}
