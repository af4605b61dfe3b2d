//! The tools directory: every `.wasm` file in it, loaded at start and again when it changes.
//!
//! A file that cannot be served is reported with its reason and left out; the rest is served.
//! If two files collide at start, the version that a person decided about is served, and
//! otherwise the first by file name. If two files claim one id without such a decision, neither
//! is served.

mod approval;
mod change;
mod claims;
mod decisions;
mod files;
mod loaded;
mod notices;
mod refusal;
mod reload;
mod watch;

pub use approval::{Approval, NoNewPowers};
pub use change::Change;
pub(crate) use files::wasm_files;
pub use reload::DirectoryState;
pub use watch::{ServedComponents, Watch, WatchError};

use super::component::ComponentRunner;
pub use super::toolbox::FileRemedy;
use super::{RefusedFile, Runner, Toolbox};
use crate::config::{Config, ToolLimits};
use crate::grants::{self, Approvals, ApprovalsError, ManifestError};
use crate::store::AuditRecord;
use files::{component_files, digest_of, file_name};
use futures::StreamExt;
pub use loaded::{LoadedComponent, LoadedTools, Notice, PendingComponent, UnknownTool};
pub use notices::without_effect;
use notices::{unanswered, unknown_tools, unused_settings};
pub use refusal::FileRefusal;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::{CatalogGrants, Owner, OwnerKind, PreparedComponent};
use tollgate_agent::descriptor::{ComponentDescriptor, DescriptorError};
use tollgate_agent::surface::Surface;
use tollgate_registry::Lock;
use tollgate_sandbox::{Component, Power, Sandbox};
use tracing::Instrument as _;

/// The maximum number of files that are processed at once. New files are compiled at a lower
/// rate: see [`COMPILED_AT_ONCE`](tollgate_sandbox::COMPILED_AT_ONCE).
const LOADED_AT_ONCE: usize = 8;

/// The reason why the tools directory cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory exists and cannot be read.
    #[error("the tools directory {} cannot be read: {source}; name another in [tools] of {config}, or make this one readable", dir.display())]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// The name of the configuration for messages.
        config: String,
        /// The cause.
        source: io::Error,
    },
    /// The record of approvals cannot be read.
    #[error(transparent)]
    Approvals(#[from] ApprovalsError),
    /// The record of the components' origins cannot be read.
    #[error("{0}")]
    Lock(#[from] tollgate_registry::Error),
}

/// Called after each file has been examined, with the number of files done and in total.
pub type LoadProgress<'a> = dyn Fn(usize, usize, &Path) + Send + Sync + 'a;

/// Loads everything in the tools directory of the configuration. A directory that does not
/// exist counts as empty.
///
/// A direct call waits for every file, too: each may claim the id or the name of the called
/// tool, which is known only once it is loaded. Each file is compiled once: later loads take it
/// from the cache, which also remembers the digests of files that failed to compile.
///
/// # Errors
/// The directory exists and cannot be read, or the record of approvals or `tollgate.lock` cannot be
/// read.
pub async fn load(
    sandbox: &Sandbox,
    config: &Config,
    progress: &LoadProgress<'_>,
) -> Result<LoadedTools, DirectoryError> {
    let files = component_files(&config.tools_dir).map_err(|source| DirectoryError::Unreadable {
        dir: config.tools_dir.clone(),
        config: config.name(),
        source,
    })?;
    let total = files.len();
    let mut loaded = LoadedTools { stamps: files.iter().cloned().collect(), ..LoadedTools::default() };
    loaded.toolbox.set_limit_places(config.limits.sandbox.limit_places);
    loaded.toolbox.reserve_servers(config.servers.keys().map(String::as_str));
    let mut loading = futures::stream::iter(files.into_iter().map(|(file, _)| file))
        .map(|file| async move { (load_one(sandbox, &file).await, file) })
        .buffered(LOADED_AT_ONCE);
    loaded.approvals = Approvals::load(config)?;
    loaded.lock = crate::registry::lock_of(config)?;
    let mut done = 0;
    // Load all files before serving one: the owner of an id must not depend on file names.
    let mut found = Vec::with_capacity(total);
    while let Some((component, file)) = loading.next().await {
        done += 1;
        progress(done, total, &file);
        match component {
            Ok(checked) => {
                let component = &checked.component;
                loaded.claims.set(&file, Some((&component.descriptor().id, component.digest())));
                found.push((checked, file));
            }
            Err(mut refusal) => {
                let digest = digest_of(&file).await;
                if is_changed(&loaded.lock, &file, digest.as_deref()) {
                    refusal.reason.push_str("; it is not the file that was installed; restore it");
                    refusal.remedy = Some(FileRemedy::Restore);
                }
                if let Some(digest) = digest {
                    loaded.claims.set_unloaded(&file, digest);
                }
                loaded.refuse(&file, refusal);
            }
        }
    }
    let is_known = |(CheckedComponent { component, .. }, _): &(CheckedComponent, PathBuf)| {
        loaded.approvals.knows(&component.descriptor().id, component.digest())
    };
    let (known, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_known);
    for (component, file) in known.into_iter().chain(others) {
        if let Err(refusal) = loaded.serve(component, &file, config) {
            loaded.refuse(&file, refusal);
        }
    }
    loaded.components.sort_by(|a, b| a.file.cmp(&b.file));
    let unanswered = unanswered(config, &loaded);
    loaded.notices.extend(unanswered);
    loaded.unused_settings = unused_settings(config, &loaded);
    loaded.unknown_tools = unknown_tools(config, &loaded);
    Ok(loaded)
}

/// Returns whether the lock file records another content of this file, which has no digest if it
/// cannot be a component.
fn is_changed(lock: &Lock, file: &Path, digest: Option<&str>) -> bool {
    let mut entries = lock.entries();
    entries.any(|entry| {
        file.file_name().is_some_and(|name| name == entry.file.as_str())
            && digest.is_none_or(|digest| !entry.wasm.to_string().ends_with(digest))
    })
}

/// Loads one file in a span of its own. Checks the text, schemas and initial values of its
/// component on a separate thread.
async fn load_one(sandbox: &Sandbox, file: &Path) -> Result<CheckedComponent, FileRefusal> {
    let span = tracing::info_span!("load", file = %file.display(), otel.status_code = tracing::field::Empty);
    let loaded = sandbox.load(file).instrument(span.clone()).await;
    if loaded.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    Ok(CheckedComponent::of(loaded.map_err(|refusal| refusal.to_string())?).await?)
}

/// A loaded component with the result of checking its descriptor.
pub(super) struct CheckedComponent {
    component: Component,
    prepared: Result<PreparedComponent, DescriptorError>,
}

impl CheckedComponent {
    /// Checks the text, schemas and initial values of a component on a thread of its own, and reserves the memory of
    /// its compiled patterns.
    pub(super) async fn of(component: Component) -> Result<Self, String> {
        let descriptor = component.descriptor().clone();
        let prepared = tokio::task::spawn_blocking(move || PreparedComponent::new(descriptor)).await;
        let prepared =
            prepared.map_err(|e| format!("the host failed while it checked the component: {e}"))?;
        let pattern_bytes = prepared.as_ref().map_or(0, PreparedComponent::pattern_bytes);
        let component =
            component.with_patterns(pattern_bytes).await.map_err(|refusal| refusal.to_string())?;
        Ok(Self { component, prepared })
    }
}

impl LoadedTools {
    /// Returns the audit records of this load.
    #[must_use]
    pub fn to_audit(&self) -> Vec<AuditRecord> {
        let loads = self
            .components
            .iter()
            .map(|entry| approval::served(&entry.file, &entry.id, &entry.digest, &entry.reworded));
        loads.chain(self.toolbox.refused().iter().map(RefusedFile::to_audit)).collect()
    }

    fn refuse(&mut self, file: &Path, refusal: FileRefusal) {
        self.toolbox.refuse(refusal.into_refused_file(file, None));
    }

    /// Adds a component to the tools that can be called.
    pub(super) fn serve(
        &mut self,
        component: CheckedComponent,
        file: &Path,
        config: &Config,
    ) -> Result<(), FileRefusal> {
        if let Err(contested) = self.claims.judge(file, &self.approvals, None) {
            if contested.is_open {
                self.contested.push(PendingComponent::of(&component.component, file, &self.approvals)?);
            }
            return Err(contested.refusal);
        }
        let ready =
            ReadyComponent::new(component, file, config, &self.approvals, &self.lock).map_err(|unready| {
                self.pending.extend(unready.pending.map(|pending| *pending));
                self.unopened.extend(unready.unopened.map(|unopened| *unopened));
                unready.refusal
            })?;
        ready.join(&mut self.toolbox)?;
        self.notices.extend(approval::notice_of(&ready.entry));
        self.components.push(ready.entry);
        Ok(())
    }

    /// Returns the component that provides the tool of this name.
    #[must_use]
    pub fn component_of(&self, tool_name: &str) -> Option<&LoadedComponent> {
        let owner = &self.toolbox.catalog().tool(tool_name)?.owner.id;
        self.components.iter().find(|component| &component.id == owner)
    }
}

/// A component that is ready to be added to a toolbox.
struct ReadyComponent {
    entry: LoadedComponent,
    prepared: PreparedComponent,
    catalog: CatalogGrants,
    runner: Arc<dyn Runner>,
}

/// The reason why a component is not served, and its description if it could be read.
struct UnservedComponent {
    refusal: FileRefusal,
    /// The component, if a person has to approve it first.
    pending: Option<Box<PendingComponent>>,
    /// The component, if something that it was granted is unavailable.
    unopened: Option<Box<PendingComponent>>,
}

impl ReadyComponent {
    fn new(
        CheckedComponent { component, prepared }: CheckedComponent,
        file: &Path,
        config: &Config,
        approvals: &Approvals,
        lock: &Lock,
    ) -> Result<Self, UnservedComponent> {
        let refused = |refusal: FileRefusal| UnservedComponent { refusal, pending: None, unopened: None };
        let found = PendingComponent::of(&component, file, approvals).map_err(|why| refused(why.into()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lock.check(config.locked, &name, &found.id, &found.digest, found.manifest.as_deref())
            .map_err(|why| refused(why.into()))?;
        if let Err(refusal) = approval::judge(&found, approvals) {
            return Err(UnservedComponent { refusal, pending: Some(Box::new(found)), unopened: None });
        }
        let mut prepared = prepared.map_err(|why| refused(why.to_string().into()))?;
        let descriptor = component.descriptor();
        let granted = config.grants_of(&descriptor.id);
        let limits = limits_of(descriptor, config);
        // The operator's timeout overrides the one that the tool asks for.
        prepared.set_timeouts(|tool| limits.get(tool)?.timeout_ms);
        let given = found.asks.as_ref().map_or_else(|| granted.clone(), |asks| asks.narrow(&granted));
        let grants = match grants::open(&given, found.asks.as_ref(), &descriptor.id, config) {
            Ok(grants) => grants,
            Err(reason) => {
                return Err(UnservedComponent {
                    refusal: reason.into(),
                    pending: None,
                    unopened: Some(Box::new(found)),
                });
            }
        };
        let catalog = given.catalog();
        let entry = LoadedComponent {
            reworded: approvals.reworded(&found.surface),
            file: found.file,
            id: found.id,
            version: tollgate_agent::text::clean(&descriptor.version, 64),
            digest: found.digest,
            imports: component.imports().to_vec(),
            left_out: component.left_out().unwrap_or_default().to_vec(),
            grants: granted,
            asks: found.asks,
            limits,
            surface: found.surface,
        };
        let runner = Arc::new(ComponentRunner::new(
            component,
            file,
            grants,
            &entry.limits,
            config.limits.sandbox.waiting_calls,
        ));
        Ok(Self { entry, prepared, catalog, runner })
    }

    /// Adds the component to the toolbox; the error names the owner that it collides with.
    fn join(&self, toolbox: &mut Toolbox) -> Result<(), String> {
        let owner = Owner {
            id: SmolStr::new(&self.entry.id),
            kind: OwnerKind::Component,
            origin: file_name(&self.entry.file),
            version: SmolStr::new(&self.entry.digest),
        };
        toolbox
            .add_prepared(owner, self.prepared.clone(), &self.catalog, Arc::clone(&self.runner))
            .map_err(|e| e.to_string())
    }
}

impl PendingComponent {
    /// Describes a file's component and its requested grants.
    ///
    /// # Errors
    /// Its manifest is refused.
    fn of(component: &Component, file: &Path, approvals: &Approvals) -> Result<Self, ManifestError> {
        let descriptor = component.descriptor();
        let powers = component.imports().iter().filter_map(|import| import.power).map(Power::as_str);
        let (asks, manifest) = grants::read_manifest_with_digest(file)?.unzip();
        Ok(Self {
            file: file.to_owned(),
            id: descriptor.id.clone(),
            digest: component.digest().to_owned(),
            asks: approvals.asks_of(&descriptor.id, asks),
            surface: Surface::new(descriptor, powers),
            manifest,
        })
    }
}

/// Returns the limits of each tool.
fn limits_of(descriptor: &ComponentDescriptor, config: &Config) -> BTreeMap<String, ToolLimits> {
    let limits = descriptor.tools.iter().map(|tool| (tool.name.clone(), config.limits.of_tool(&tool.name)));
    limits.collect()
}
