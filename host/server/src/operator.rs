//! The facts that only the operator's process has.

use tollgate::async_trait;
use tollgate::config::LimitSource;
use tollgate::tools::RefusedFile;
use tollgate_agent::gate::permissions::RuleSpec;

/// The facts that only the operator's process has: it loads the components and owns the
/// configuration file.
#[async_trait]
pub trait OperatorData: Send + Sync {
    /// Returns the component with this id, if it is served.
    fn component(&self, id: &str) -> Option<ComponentFacts>;

    /// Returns the commands that get a refused file served; `None` if the reason says all.
    fn commands_for(&self, refused: &RefusedFile) -> Option<String>;

    /// Returns the place that sets the timeout of direct calls of tools without one of their own.
    fn direct_timeout(&self) -> LimitSource {
        LimitSource::Default
    }

    /// Returns the hosts that share the store; none if one process has it for itself.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn hosts(&self) -> Result<Vec<HostFacts>, String> {
        Ok(Vec::new())
    }

    /// Adds a permanent answer to the permission rules of the configuration.
    ///
    /// # Errors
    /// It cannot be added; the message names what to do.
    fn keep_rule(&self, rule: &RuleSpec) -> Result<(), String>;
}

/// Facts about an installed component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// The version that it declares.
    pub version: String,
    /// The name of its file, without directories.
    pub file: String,
    /// Its origin in a registry, such as `oci://ghcr.io/acme/weather`; `None` if unknown.
    pub origin: Option<String>,
    /// Its signer; `None` if it is unsigned or unknown.
    pub signer: Option<String>,
    /// Its licence, by the publisher's own statement.
    pub licence: Option<String>,
    /// Whether each load checks its file against the lock file, in words; `None` if unknown.
    pub lock: Option<String>,
    /// The powers that it asks for, in words; `None` if it has no manifest.
    pub asks: Option<Vec<String>>,
    /// The powers that it was granted, in words.
    pub granted: Vec<String>,
    /// The powers that it asks for and was not granted, each with the arguments of
    /// `tollgate grant ID` that grant it.
    pub missing: Vec<(String, String)>,
    /// The limits of one call of each tool, by tool.
    pub limits: Vec<(String, CallLimits)>,
}

/// Facts about a host that shares the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Its id, which is new at every start.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Whether its lease is valid.
    pub is_up: bool,
    /// The agents whose queued runs it claims.
    pub agents: Vec<String>,
    /// The number of runs that it drives.
    pub runs: u64,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The time until its lease ends, in milliseconds; 0 if it has ended.
    pub lease_left_ms: u64,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// The maximum fuel.
    pub fuel: u64,
    /// The place where it is set.
    pub fuel_source: LimitSource,
    /// The maximum memory in bytes.
    pub memory_bytes: u64,
    /// The place where it is set.
    pub memory_source: LimitSource,
    /// The place in the configuration that sets the timeout; `Default` if none does.
    pub timeout_source: LimitSource,
}
