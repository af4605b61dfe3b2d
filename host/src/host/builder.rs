//! Builds a host from agents, gates, tools and a store.

use super::checks::check;
use super::commands::DrivenRuns;
use super::follower::{CLIENT_MEMORY_PART, Followers, UNMEASURED_PAGES};
use super::listening::Failures;
use super::{DIRECT_AGENT, Host, HostError, HostState};
use crate::agents::Agent;
use crate::builtin;
use crate::error::SetupError;
use crate::gates::{Gate, Gates};
use crate::plugins::{self, AgentHooks, Plugin, PluginParts};
use crate::run::{HookSet, LONG_VALUES_AT_ONCE, RunServices, ThreadLocks};
use crate::store::{MemoryStore, Store};
use crate::stream::{Bus, Subscriber};
use crate::tools::{NativePlugin, NativeTool, ServedTools, Toolbox};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate_agent::gate::ToolList;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::name;
use tollgate_agent::state::key::MAX_THREAD_STATE_BYTES;
use tollgate_sandbox::{MemoryBudget, SandboxConfig};

/// The default time limit of one hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time limit of one hook.
const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(300);

/// A builder of hosts. If two parts do not fit together, [`build`](Self::build) fails and names
/// both.
///
/// ```
/// use serde_json::Value;
/// use std::sync::Arc;
/// use tollgate::{Agent, FnTool, RunEvent, Host, MemoryStore, ScriptedModel};
///
/// let now = FnTool::new("clock", "now", "The time.", |_: Value, _| async { "noon" });
/// let host = Host::builder()
///     .tool(now)
///     .agent(Agent::new("assistant", ScriptedModel::new(Vec::new())).with_tools(["now"]))
///     .store(Arc::new(MemoryStore::new())) // `SqliteStore` outlives the process
///     .subscribe("run.finished", |event: &RunEvent| println!("{}", event.payload))
///     .build()?;
/// assert!(host.toolbox().catalog().tool("now").is_some());
/// # Ok::<(), tollgate::HostError>(())
/// ```
pub struct HostBuilder {
    toolbox: Toolbox,
    gates: Vec<Arc<dyn Gate>>,
    bus: Bus,
    store: Option<Arc<dyn Store>>,
    agents: BTreeMap<String, Agent>,
    plugins: Vec<Box<dyn Plugin>>,
    hook_timeout: Duration,
    memory_budget: Option<MemoryBudget>,
    thread_state_bytes: usize,
}

impl HostBuilder {
    pub(super) fn new() -> Self {
        Self {
            toolbox: Toolbox::default(),
            gates: Vec::new(),
            bus: Bus::default(),
            store: None,
            agents: BTreeMap::new(),
            plugins: Vec::new(),
            hook_timeout: HOOK_TIMEOUT,
            memory_budget: None,
            thread_state_bytes: MAX_THREAD_STATE_BYTES,
        }
    }

    /// Adds a tool in Rust: a [`NativeTool`], or a closure as a [`FnTool`](crate::FnTool). It
    /// becomes a plugin with the tool's own id and nothing else. If its id or name is taken,
    /// [`build`](Self::build) fails and names the owner.
    #[must_use]
    pub fn tool(self, tool: impl NativeTool + 'static) -> Self {
        // A plugin's name has no underscores.
        let native = NativePlugin::new(tool.descriptor().id.replace('_', "-")).with_tool(tool);
        self.plugin(native)
    }

    /// Installs a plugin with all its parts. Its hooks run after those of plugins installed
    /// earlier.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Sets the time limit of one hook, from 1 ms to 5 minutes; the default is 5 seconds. A
    /// hook that takes longer has failed.
    #[must_use]
    pub fn hook_timeout(mut self, timeout: Duration) -> Self {
        self.hook_timeout = timeout;
        self
    }

    /// Sets the toolbox, in addition to tools that are added one by one.
    #[must_use]
    pub fn toolbox(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Adds an agent; one of the same id is replaced.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agents.insert(agent.spec.view.id.clone(), agent);
        self
    }

    /// Adds a gate, such as a [`GateComponent`](crate::gates::GateComponent), in addition to the one
    /// that enforces the tool lists of agents.
    #[must_use]
    pub fn gate(mut self, gate: impl Gate + 'static) -> Self {
        self.gates.push(Arc::new(gate));
        self
    }

    /// Sends events of every run to `subscriber`. `pattern` is the name of an event
    /// (`run.finished`), a prefix (`call.*`), or `*`. `tool.call` and `tool.result` stand for
    /// calls that start and finish, `state.changed` for changes of
    /// [visible keys](Self::visible_keys).
    ///
    /// Each subscriber receives events after the fact, on a thread of its own behind a bounded
    /// queue. A slow subscriber loses events, and receives `bus.dropped` instead.
    ///
    /// ```
    /// use tollgate::Host;
    /// use tollgate::run::RunEvent;
    ///
    /// let builder = Host::builder().subscribe("tool.call", |event: &RunEvent| {
    ///     println!("{} is called with {}", event.payload["tool"], event.payload["args"]);
    /// });
    /// # assert!(builder.build().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe(mut self, pattern: &str, subscriber: impl Subscriber) -> Self {
        self.bus.subscribe(pattern, Arc::new(subscriber));
        self
    }

    /// Marks state keys as visible, in addition to earlier ones: clients and subscribers
    /// receive their new values. For other keys they receive only a notification of the change.
    /// A pattern is a key's name (`notes.items`), a prefix (`notes.*`), or `*`.
    ///
    /// Subscribers of `state.changed` receive changes of visible keys only.
    #[must_use]
    pub fn visible_keys<P: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        patterns.into_iter().for_each(|pattern| self.bus.show(pattern.as_ref()));
        self
    }

    /// Sets the budget of host memory for clients and models. Pass that of the sandbox that
    /// runs the tools (`Sandbox::memory_budget`), so that both share one budget. By default,
    /// the host has a budget of its own, of the sandbox's default size. Messages about limits name
    /// the [places](MemoryBudget::with_limit_places) of the budget, or if it has none, those of the
    /// configuration that the toolbox was loaded with.
    #[must_use]
    pub fn memory_budget(mut self, budget: MemoryBudget) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// Sets the maximum size of one component's state in one thread, in bytes; the default is
    /// 64 MiB. A call that would exceed it ends as `bad_mutation`.
    #[must_use]
    pub fn thread_state_bytes(mut self, bytes: usize) -> Self {
        self.thread_state_bytes = bytes;
        self
    }

    /// Sets the store. The default keeps everything in memory, until the process ends.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Builds the host.
    ///
    /// # Errors
    /// Two tools or two gates have one id, two plugins have one name or define the same thing,
    /// an id does not fit, a time is out of its bounds, an agent names one that does not exist,
    /// needs a capability that its backend lacks, or is offered under a name that is taken.
    pub fn build(mut self) -> Result<Host, HostError> {
        self.agents.entry(DIRECT_AGENT.to_owned()).or_insert_with(Agent::direct);
        let tool_list = self.agents.iter().fold(ToolList::default(), |lists, (id, agent)| {
            let mut tools = agent.spec.tools.clone();
            if !agent.spec.view.delegates.is_empty() {
                tools.push(name::TRANSFER.to_owned());
            }
            lists.with_agent(id.clone(), tools)
        });
        if let Some(id) = self.agents.keys().find(|id| !name::is_id(id)) {
            return Err(SetupError::InvalidId(id.clone()).into());
        }
        self.agents.values().try_for_each(|agent| check(agent, &self.agents))?;
        if !(Duration::from_millis(1)..=MAX_HOOK_TIMEOUT).contains(&self.hook_timeout) {
            return Err(SetupError::HookTimeout(self.hook_timeout).into());
        }
        for (id, agent) in &self.agents {
            if let Some(hooks) = &agent.hooks {
                self.plugins.push(Box::new(AgentHooks::new(id, Arc::clone(hooks))));
            }
        }
        let PluginParts { natives, gates, hooks } = plugins::install(self.plugins, &mut self.bus)?;
        self.gates.extend(gates);
        for native in &natives {
            let installed = native.clone().install(&mut self.toolbox);
            installed.map_err(SetupError::from)?;
        }
        builtin::equip(&mut self.toolbox, &self.agents)?;
        self.toolbox.set_thread_state_bytes(self.thread_state_bytes);
        let mut memory_budget = self.memory_budget.unwrap_or_else(default_budget);
        if *memory_budget.limit_places() == LimitPlaces::NONE {
            memory_budget = memory_budget.with_limit_places(self.toolbox.catalog().limit_places());
        }
        self.toolbox.set_limit_places(memory_budget.limit_places());
        let remote = self.agents.values().filter_map(|agent| agent.remote.as_ref());
        remote.for_each(|remote| remote.use_budget(&memory_budget));
        let client_memory = MemoryBudget::new(memory_budget.total_bytes() / CLIENT_MEMORY_PART)
            .with_limit_places(memory_budget.limit_places());
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let services = RunServices {
            tools: ServedTools::new(self.toolbox, Arc::clone(&store)),
            store,
            gates: Gates::new(tool_list, self.gates)?,
            hooks: HookSet::new(hooks, self.hook_timeout),
            agents: self.agents,
            memory_budget,
            conflicts: ThreadLocks::default(),
            long_values: Arc::new(Semaphore::new(LONG_VALUES_AT_ONCE)),
        };
        Ok(Host {
            inner: Arc::new(HostState {
                services: Arc::new(services),
                thread_state_bytes: self.thread_state_bytes,
                plugins: natives,
                threads: ThreadLocks::default(),
                bus: Arc::new(self.bus),
                client_memory,
                unmeasured_pages: Semaphore::new(UNMEASURED_PAGES),
                live: Mutex::default(),
                followers: Followers::default(),
                failures: Failures::default(),
                driven: DrivenRuns::default(),
            }),
        })
    }
}

fn default_budget() -> MemoryBudget {
    MemoryBudget::new(SandboxConfig::default().memory_budget_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn limits_have_the_places_of_the_configuration_unless_the_budget_has_others() {
        static OTHERS: LimitPlaces = LimitPlaces { host: "the settings", ..LimitPlaces::NONE };
        let dir = tempfile::tempdir().unwrap();
        let (base_dir, tools_dir) = (dir.path().to_owned(), dir.path().to_owned());
        let config = Config { base_dir, tools_dir, ..Config::default() };
        let places = config.limits.sandbox.limit_places;
        assert_ne!(places, &LimitPlaces::NONE);
        let toolbox = Toolbox::load_with(&config).await.unwrap();
        let builder = || Host::builder().toolbox(toolbox.clone());
        let budget = MemoryBudget::new(1 << 20);
        let hosts = [
            (builder(), places),
            (builder().memory_budget(budget.clone()), places),
            (builder().memory_budget(budget.with_limit_places(&OTHERS)), &OTHERS),
        ];
        for (builder, places) in hosts {
            let host = builder.build().unwrap();
            assert_eq!(host.memory_budget().limit_places(), places);
            assert_eq!(host.toolbox().catalog().limit_places(), places);
        }
    }
}
