//! The tools that can be called, their runners, and the files that were refused.

use super::Runner;
use crate::store::{AuditKind, AuditRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_agent::catalog::{Catalog, CatalogGrants, HOST_ID, Natives, Owner, PreparedComponent};
use tollgate_agent::descriptor::{ComponentDescriptor, DescriptorError};
use tollgate_agent::hook::HookPoints;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::outcome::ActionGrants;
use tollgate_agent::run::KnownAgent;
use tollgate_registry::Remedy;

/// All tools that can be called. It is a plain value: later changes are made to a copy, and calls
/// in flight keep theirs.
///
/// [`load`](Self::load) fills one from a directory. An owner that collides with an
/// existing one is rejected immediately; the rest stays:
///
/// ```
/// use serde_json::Value;
/// use tollgate::tools::NativePlugin;
/// use tollgate::{FnTool, Toolbox};
///
/// let tool = |name: &str| FnTool::new("reader", name, "Reads.", |_: Value, _| async { "read" });
/// let mut toolbox = Toolbox::default();
/// NativePlugin::new("mine").with_tool(tool("read_file")).install(&mut toolbox)?;
///
/// let refused = NativePlugin::new("yours").with_tool(tool("Read-File")).install(&mut toolbox);
/// let why = refused.unwrap_err().to_string();
/// assert!(why.contains("the native plugin mine") && why.contains("the native plugin yours"), "{why}");
/// assert_eq!(toolbox.catalog().tools().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolbox {
    catalog: Arc<Catalog>,
    runners: BTreeMap<String, Arc<dyn Runner>>,
    refused: Vec<RefusedFile>,
}

/// A file in the tools directory that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedFile {
    /// The file.
    pub file: PathBuf,
    /// The problem, its cause, and what to do.
    pub reason: String,
    /// The step that resolves the problem; `None` if the reason says all.
    #[serde(skip)]
    pub remedy: Option<FileRemedy>,
    /// The digest of an earlier version of the file, which stays in service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub still_serves: Option<String>,
}

impl RefusedFile {
    /// Returns the audit record of the refusal.
    #[must_use]
    pub fn to_audit(&self) -> AuditRecord {
        AuditRecord::new(AuditKind::Refusal, "host", "refused").of_file(&self.file).because(&self.reason)
    }
}

impl Toolbox {
    /// Returns the catalog by which calls are checked and judged.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the runner of the tool of this name.
    #[must_use]
    pub fn runner(&self, tool_name: &str) -> Option<&Arc<dyn Runner>> {
        let owner = &self.catalog.tool(tool_name)?.owner;
        self.runners.get(owner.id.as_str())
    }

    /// Returns the files that were found and are not served, sorted by file.
    #[must_use]
    pub fn refused(&self) -> &[RefusedFile] {
        &self.refused
    }

    /// Adds an owner with all its tools, or nothing of it.
    ///
    /// # Errors
    /// Same as [`Catalog::add`]: a text that does not fit, a rejected schema, or a collision; the
    /// message names both sides.
    pub fn add(
        &mut self,
        owner: Owner,
        descriptor: ComponentDescriptor,
        grants: &CatalogGrants,
        runner: Arc<dyn Runner>,
    ) -> Result<(), DescriptorError> {
        self.add_prepared(owner, PreparedComponent::new(descriptor)?, grants, runner)
    }

    /// Adds an owner that has been checked, or nothing of it. This is fast.
    ///
    /// # Errors
    /// Same as [`Catalog::add_prepared`].
    pub fn add_prepared(
        &mut self,
        owner: Owner,
        prepared: PreparedComponent,
        grants: &CatalogGrants,
        runner: Arc<dyn Runner>,
    ) -> Result<(), DescriptorError> {
        let id = owner.id.clone();
        Arc::make_mut(&mut self.catalog).add_prepared(owner, prepared, grants)?;
        self.runners.insert(id.into(), runner);
        Ok(())
    }

    /// Sets the maximum size of one component's state in one thread, in bytes.
    pub(crate) fn set_thread_state_bytes(&mut self, bytes: usize) {
        Arc::make_mut(&mut self.catalog).set_thread_state_bytes(bytes);
    }

    /// Sets the places where an operator changes limits, which messages about limits name.
    pub(crate) fn set_limit_places(&mut self, places: &'static LimitPlaces) {
        Arc::make_mut(&mut self.catalog).set_limit_places(places);
    }

    /// Adds a plugin with all its tools, possibly none, or nothing of it.
    ///
    /// # Errors
    /// Same as [`Toolbox::add`].
    pub(crate) fn add_plugin(
        &mut self,
        owner: Owner,
        descriptor: ComponentDescriptor,
        grants: &CatalogGrants,
        natives: &Natives,
        points: HookPoints,
        runner: Arc<dyn Runner>,
    ) -> Result<(), DescriptorError> {
        let id = owner.id.clone();
        Arc::make_mut(&mut self.catalog).add_plugin(owner, descriptor, grants, natives, points)?;
        self.runners.insert(id.into(), runner);
        Ok(())
    }

    /// Reserves the names of configured servers: see [`Catalog::reserve_servers`].
    pub fn reserve_servers<'a>(&mut self, servers: impl IntoIterator<Item = &'a str>) {
        Arc::make_mut(&mut self.catalog).reserve_servers(servers);
    }

    /// Removes an owner with all its tools; calls in flight continue.
    pub fn remove(&mut self, owner_id: &str) {
        if self.runners.remove(owner_id).is_some() {
            Arc::make_mut(&mut self.catalog).remove(owner_id);
        }
    }

    /// Disables a tool for a reason that people read. Its calls are answered with `disabled`.
    pub(crate) fn disable(&mut self, tool_name: &str, reason: impl Into<String>) {
        Arc::make_mut(&mut self.catalog).disable(tool_name, reason);
    }

    /// Enables a tool again.
    pub(crate) fn enable(&mut self, tool_name: &str) {
        Arc::make_mut(&mut self.catalog).enable(tool_name);
    }

    /// Removes the refusal of a file.
    pub fn accept(&mut self, file: &Path) {
        self.refused.retain(|refused| refused.file != file);
    }

    /// Adds the host's own tools, and the agents that runs may be handed to and composed of.
    /// Replaces earlier ones.
    ///
    /// # Errors
    /// Same as [`Catalog::add_own`].
    pub(crate) fn equip(
        &mut self,
        agents: BTreeMap<String, KnownAgent>,
        own: ComponentDescriptor,
        runner: Arc<dyn Runner>,
    ) -> Result<(), DescriptorError> {
        let catalog = Arc::make_mut(&mut self.catalog);
        catalog.set_agents(agents);
        if catalog.owners().all(|owner| owner.id != HOST_ID) {
            let actions = ActionGrants { transfer: true, escalate: true, ..ActionGrants::default() };
            catalog.add_own(own, actions)?;
        }
        self.runners.insert(HOST_ID.to_owned(), runner);
        Ok(())
    }

    /// Records a file that is not served.
    pub fn refuse(&mut self, file: RefusedFile) {
        let place = self.refused.partition_point(|other| other.file <= file.file);
        self.refused.insert(place, file);
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox")
            .field("catalog", &self.catalog)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// A step by which an operator can get a file served. A program with an interface for operators
/// says how that step is taken there, such as by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRemedy {
    /// Look at the component in the file, and approve it.
    Approve {
        /// The component's id.
        id: String,
        /// Its file.
        file: PathBuf,
    },
    /// Look at two files that claim the same id, and approve the first.
    ApproveOne {
        /// The claimed id.
        id: String,
        /// The file that is not served.
        file: PathBuf,
        /// The other file.
        rival: PathBuf,
    },
    /// Restore the file that was installed.
    Restore,
    /// Change the lock file or the files that it records.
    Lock(Remedy),
}
