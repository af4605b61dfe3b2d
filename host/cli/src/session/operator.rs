//! The facts that `tollgate serve` shows in its console: components with their grants, and the
//! permission rules that a person keeps for always.

use crate::render::powers;
use crate::render::provenance::{lock_in_words, signer_in_words, source_in_words};
#[cfg(feature = "postgres")]
use crate::session::database::SharedStore;
use crate::terminal::remedy::commands_for;
use std::path::{Path, PathBuf};
use tollgate::async_trait;
use tollgate::config::{ComponentGrants, Details, Grant, LimitSource, remember_always};
use tollgate::gates::LivePermissions;
use tollgate::registry::Origin;
use tollgate::tools::RefusedFile;
use tollgate::tools::directory::{LoadedComponent, ServedComponents};
use tollgate_agent::gate::permissions::RuleSpec;
#[cfg(feature = "postgres")]
use tollgate_postgres::PostgresStore;
use tollgate_registry::LockMode;
use tollgate_sandbox::FileAccess;
use tollgate_server::OperatorData;
#[cfg(feature = "postgres")]
use tollgate_server::console::HostFacts;
use tollgate_server::console::{CallLimits, ComponentFacts};

/// The served components, and the configuration file.
pub(crate) struct Operator {
    /// The components as they are now.
    pub(crate) served: ServedComponents,
    /// The checks of components against the lock file.
    pub(crate) locked: LockMode,
    /// The configuration that keeps permanent answers.
    pub(crate) config_file: PathBuf,
    /// The place that sets the timeout of direct calls of tools without one of their own.
    pub(crate) direct_timeout: LimitSource,
    /// The rules in force, which follow a permanent answer at once.
    pub(crate) permissions: Option<LivePermissions>,
    /// The store that several hosts may share.
    #[cfg(feature = "postgres")]
    pub(crate) shared: SharedStore,
}

/// Returns the hosts of a database as the console shows them.
#[cfg(feature = "postgres")]
async fn hosts_of(store: &PostgresStore) -> Result<Vec<HostFacts>, String> {
    let rows = store.hosts().await.map_err(|e| e.to_string())?;
    let facts = rows.into_iter().map(|row| HostFacts {
        id: row.id,
        name: row.name,
        version: row.version,
        is_up: row.state == "up",
        agents: row.agents,
        runs: row.runs,
        started_at_ms: row.started_at_ms,
        lease_left_ms: u64::try_from(row.lease_left_ms).unwrap_or_default(),
    });
    Ok(facts.collect())
}

#[async_trait]
impl OperatorData for Operator {
    #[cfg(feature = "postgres")]
    async fn hosts(&self) -> Result<Vec<HostFacts>, String> {
        match &self.shared {
            Some(shared) => hosts_of(shared).await,
            None => Ok(Vec::new()),
        }
    }

    fn component(&self, id: &str) -> Option<ComponentFacts> {
        let (component, entry) = self.served.find(id)?;
        Some(facts_of(&component, Origin::of(entry.as_ref(), self.locked)))
    }

    fn direct_timeout(&self) -> LimitSource {
        self.direct_timeout
    }

    fn commands_for(&self, refused: &RefusedFile) -> Option<String> {
        let base_dir = self.config_file.parent().unwrap_or(Path::new(""));
        commands_for(refused, base_dir)
    }

    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), String> {
        remember_always(&self.config_file, rule).map_err(|why| why.to_string())?;
        match &self.permissions {
            Some(permissions) => permissions.remember(rule.clone()).map_err(|why| why.to_string()),
            None => Ok(()),
        }
    }
}

fn facts_of(component: &LoadedComponent, origin: Origin) -> ComponentFacts {
    let missing = powers::asked_and_lacking(component.asks.as_ref(), &component.grants);
    let limits = component.limits.iter().map(|(tool, limits)| {
        let call = CallLimits {
            fuel: limits.call.fuel,
            fuel_source: limits.source("fuel"),
            memory_bytes: limits.call.memory_bytes,
            memory_source: limits.source("memory_bytes"),
            timeout_source: limits.source("timeout_ms"),
        };
        (tool.clone(), call)
    });
    ComponentFacts {
        version: component.version.clone(),
        file: component.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        origin: source_in_words(&origin),
        signer: signer_in_words(&origin),
        licence: origin.licence,
        lock: Some(lock_in_words(origin.lock).to_owned()),
        asks: component.asks.as_ref().map(|asks| asks.each()),
        granted: granted(&component.grants),
        missing: missing.into_iter().map(|missing| (missing.what, missing.grant)).collect(),
        limits: limits.collect(),
    }
}

/// Describes grants for anybody who may see the tool: without the host's directories and without
/// the values of settings.
fn granted(grants: &ComponentGrants) -> Vec<String> {
    let in_words = |grant: &Grant| match &grant.details {
        Details::File(file) => {
            let access = if file.access == FileAccess::Read { "read" } else { "read and write" };
            format!("files at {} ({access})", file.guest)
        }
        Details::Value(_) => format!("{}{}", grant.kind.row().granted, grant.name),
        _ => powers::phrase(grant),
    };
    let mut all = grants.each().to_vec();
    all.sort_by_key(|grant| !matches!(grant.details, Details::File(_) | Details::Value(_)));
    all.iter().map(in_words).collect()
}
