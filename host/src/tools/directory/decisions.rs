//! The current decisions about components on disk: grants and secrets in the configuration, and
//! the record of approvals. Both may change while tools are served. Other changes to the
//! configuration take effect at the next start.

use super::files::Stamp;
use crate::config::{ComponentGrants, Config, GrantKind, SecretConfig};
use crate::grants::{Approvals, ComponentApproval};
use crate::registry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_registry::{Entry, Lock};

/// The decisions in force, and the files that they were read from.
pub(super) struct Decisions {
    pub(super) config: Arc<Config>,
    pub(super) approvals: Approvals,
    pub(super) lock: Lock,
    /// The stamps of the configuration, the approvals and the lock file when they were read. `None`
    /// before the first [`renew`](Self::renew), which reads all of them again: they may have changed
    /// while the tools were loaded.
    seen: Option<[Option<Stamp>; 3]>,
}

/// The decisions about one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ComponentDecisions {
    pub(super) grants: ComponentGrants,
    approved: Option<ComponentApproval>,
    recorded: Option<Entry>,
    /// The locations and destinations of the secrets that it was granted.
    secrets: Vec<Option<SecretConfig>>,
}

impl Decisions {
    /// Creates the state from the decisions with which the tools were loaded.
    pub(super) fn new(config: Arc<Config>, approvals: Approvals, lock: Lock) -> Self {
        Self { config, approvals, lock, seen: None }
    }

    pub(super) fn of(&self, component_id: &str) -> ComponentDecisions {
        let grants = self.config.grants_of(component_id);
        let secrets = grants.names(GrantKind::Secrets);
        let secrets = secrets.map(|name| self.config.secrets.get(name).cloned()).collect();
        let approved = self.approvals.of(component_id).cloned();
        ComponentDecisions { grants, approved, recorded: self.lock.of(component_id).cloned(), secrets }
    }

    /// Reads the files again if any of them changed since the last time. Returns whether any decision changed,
    /// and the files that cannot be read, whose previous content stays in force.
    pub(super) fn renew(&mut self) -> (bool, Vec<UnreadableDecisions>) {
        let record = Approvals::path(&self.config);
        let lock = registry::files(&self.config).lock;
        let now = [self.file().as_deref().and_then(Stamp::of), Stamp::of(&record), Stamp::of(&lock)];
        if self.seen == Some(now) {
            return (false, Vec::new());
        }
        self.seen = Some(now);
        let config = self.renew_config(now[0].is_some());
        let renewed = [config, self.renew_approvals(&record), self.renew_lock(&lock)];
        let changed = renewed.iter().any(|renewed| matches!(renewed, Ok(true)));
        (changed, renewed.into_iter().filter_map(Result::err).collect())
    }

    fn renew_config(&mut self, exists: bool) -> Result<bool, UnreadableDecisions> {
        let Some(file) = self.file().filter(|_| exists || self.config.file.is_some()) else {
            return Ok(false);
        };
        let read = Config::load(Some(&file)).map_err(|e| UnreadableDecisions::new(&file, &e.to_string()))?;
        let changed = (&read.grants, &read.secrets) != (&self.config.grants, &self.config.secrets);
        let config = Arc::make_mut(&mut self.config);
        (config.grants, config.secrets) = (read.grants, read.secrets);
        // From now on its absence is an error.
        config.file = Some(file);
        Ok(changed)
    }

    fn renew_approvals(&mut self, record: &Path) -> Result<bool, UnreadableDecisions> {
        let approvals =
            Approvals::load(&self.config).map_err(|e| UnreadableDecisions::new(record, &e.to_string()))?;
        let changed = approvals != self.approvals;
        self.approvals = approvals;
        Ok(changed)
    }

    fn renew_lock(&mut self, file: &Path) -> Result<bool, UnreadableDecisions> {
        let lock =
            registry::lock_of(&self.config).map_err(|e| UnreadableDecisions::new(file, &e.to_string()))?;
        let changed = lock != self.lock;
        self.lock = lock;
        Ok(changed)
    }

    /// Returns the directory and the files in it to watch.
    pub(super) fn files(&self) -> (PathBuf, Vec<PathBuf>) {
        let lock = registry::files(&self.config).lock;
        let files = self.file().into_iter().chain([Approvals::path(&self.config), lock]);
        (self.config.base_dir.clone(), files.collect())
    }

    /// Returns the file of the configuration, whether it exists or not. A configuration that a
    /// program built has none.
    fn file(&self) -> Option<PathBuf> {
        self.config.file.clone().or_else(|| self.config.absent_file.clone())
    }
}

impl ComponentDecisions {
    /// Returns whether a person approved the version of this digest.
    pub(super) fn approves(&self, digest: &str) -> bool {
        self.approved.as_ref().is_some_and(|approved| {
            approved.digest == digest && approved.decision == crate::grants::Decision::Approved
        })
    }
}

/// A file of decisions that cannot be read.
pub(super) struct UnreadableDecisions {
    pub(super) file: PathBuf,
    pub(super) reason: String,
}

impl UnreadableDecisions {
    fn new(file: &Path, why: &str) -> Self {
        let reason = format!("{why}; until it can be read, the earlier decisions stay in force");
        Self { file: file.to_owned(), reason }
    }
}
