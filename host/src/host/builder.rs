//! Builds a host from agents, gates, tools and a store.

use super::checks::check;
use super::commands::DrivenRuns;
use super::follower::Followers;
use super::listening::Failures;
use super::{DIRECT_AGENT, Host, HostError, Inner};
use crate::a2a::RemoteAgent;
use crate::builtin::{self, Conductor};
use crate::gates::{Gate, Gates};
use crate::models::Model;
use crate::plugins::{self, AgentHooks, Hooks, Installed, Plugin};
use crate::run::{Bus, HookSet, Subscriber};
use crate::store::{MemoryStore, Store};
use crate::tools::{NativePlugin, NativeTool, Toolbox};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tollgate_agent::backend::Capabilities;
use tollgate_agent::composition::{Composition, MAX_ROUNDS};
use tollgate_agent::context::AgentView;
use tollgate_agent::gate::ToolList;
use tollgate_agent::name;
use tollgate_agent::run::{AgentSpec, RunLimits};
use tollgate_agent::state::change::MAX_THREAD_STATE_BYTES;
use tollgate_sandbox::{MemoryBudget, SandboxConfig};

/// The default time limit of one hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time limit of one hook.
const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(300);

/// An agent that the host can run.
///
/// ```
/// use tollgate::{Agent, Host, ScriptedModel, RunLimits, ScriptedTurn};
///
/// let clerk = Agent::new("clerk", ScriptedModel::new(vec![ScriptedTurn::text("Filed.")]))
///     .with_instructions("You file what you are handed.")
///     .with_tools(["file", "find"]) // without a list it has none, `*` is all
///     .with_delegates(["manager"]) // may hand the conversation over
///     .with_limits(RunLimits { model_turns: 8, ..RunLimits::default() });
/// let manager = Agent::new("manager", ScriptedModel::new(vec![ScriptedTurn::text("Well done.")]));
///
/// let host = Host::builder().agent(clerk.clone()).agent(manager).build();
/// assert!(host.is_ok());
/// // References between agents are checked when the host is built.
/// assert!(Host::builder().agent(clerk).build().is_err());
/// ```
#[derive(Clone)]
pub struct Agent {
    /// Its description, and the tools that it lists.
    pub spec: Arc<AgentSpec>,
    /// The model that replies; `None` for the agent of direct calls.
    pub model: Option<Arc<dyn Model>>,
    /// The limits of its runs.
    pub limits: RunLimits,
    /// The name of the tool under which other agents can call it, if any.
    pub offered_as: Option<String>,
    /// The agents that it is composed of; `None` if it has a model.
    pub made_of: Option<Composition>,
    /// The agent of another server that answers in its place, if any.
    pub remote: Option<Arc<RemoteAgent>>,
    /// Hooks around its own calls and model turns.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl Agent {
    /// Creates an agent without tools, with default limits; the id fits `[a-z][a-z0-9-]{0,63}`.
    #[must_use]
    pub fn new(id: impl Into<String>, model: impl Model + 'static) -> Self {
        let view = AgentView { id: id.into(), ..AgentView::default() };
        let spec = AgentSpec { view, ..AgentSpec::default() };
        Self { model: Some(Arc::new(model)), ..Self::of(spec) }
    }

    /// Creates an agent with these tools and without a model: it cannot reply.
    #[must_use]
    pub fn without_model(id: impl Into<String>, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let view = AgentView { id: id.into(), ..AgentView::default() };
        Self::of(AgentSpec { view, ..AgentSpec::default() }).with_tools(tools)
    }

    fn of(spec: AgentSpec) -> Self {
        Self {
            spec: Arc::new(spec),
            model: None,
            limits: RunLimits::default(),
            offered_as: None,
            made_of: None,
            remote: None,
            hooks: None,
        }
    }

    /// Creates an agent composed of others, which must be agents of the same host. Its limits
    /// apply to all of them together: it has the default number of turns for each of them.
    #[must_use]
    pub fn made_of(id: impl Into<String>, composition: Composition) -> Self {
        let view = AgentView { id: id.into(), ..AgentView::default() };
        let rounds = match composition {
            Composition::Loop { max_rounds, .. } => max_rounds.min(MAX_ROUNDS),
            Composition::Sequential(_) | Composition::Parallel(_) => 1,
        };
        let parts = u32::try_from(composition.agents().len()).unwrap_or(u32::MAX);
        let limits = RunLimits::default();
        let turns = parts.saturating_mul(rounds).saturating_mul(limits.model_turns + 1).saturating_add(1);
        let spec = AgentSpec {
            view,
            tools: vec![name::RUN_AGENT.to_owned()],
            is_loop: matches!(composition, Composition::Loop { .. }),
            ..AgentSpec::default()
        };
        Self {
            model: Some(Arc::new(Conductor::new(composition.clone()))),
            made_of: Some(composition),
            limits: RunLimits { model_turns: turns, ..limits },
            ..Self::of(spec)
        }
    }

    /// Creates an agent that is one of another server. It takes no seed and returns no state.
    #[must_use]
    pub fn remote(id: impl Into<String>, remote: RemoteAgent) -> Self {
        let view = AgentView { id: id.into(), ..AgentView::default() };
        let spec = AgentSpec {
            view,
            tools: vec![name::MESSAGE_AGENT.to_owned(), name::FOLLOW_AGENT.to_owned()],
            backend: tollgate_agent::remote::capabilities(remote.has_transcript()),
            ..AgentSpec::default()
        };
        let remote = Arc::new(remote);
        let model: Arc<dyn Model> = Arc::clone(&remote) as _;
        Self { model: Some(model), remote: Some(remote), ..Self::of(spec) }
    }

    /// Sets its description for people and for agents that may hand the conversation to it.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.spec).view.description = Some(description.into());
        self
    }

    /// Sets the agents to which it may hand the conversation.
    #[must_use]
    pub fn with_delegates(mut self, agents: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Arc::make_mut(&mut self.spec).view.delegates = agents.into_iter().map(Into::into).collect();
        self
    }

    /// Offers it as a tool of this name, with one argument, `request`, and the answer
    /// `{"response": text}`.
    #[must_use]
    pub fn offered_as(mut self, tool_name: impl Into<String>) -> Self {
        self.offered_as = Some(tool_name.into());
        self
    }

    /// Makes it answer with JSON of this schema.
    #[must_use]
    pub fn with_output(mut self, schema: serde_json::Value) -> Self {
        Arc::make_mut(&mut self.spec).output = Some(Arc::new(schema));
        self
    }

    /// Sets the capabilities of its model, if it does not support everything.
    #[must_use]
    pub fn with_backend(mut self, backend: Capabilities) -> Self {
        Arc::make_mut(&mut self.spec).backend = backend;
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.spec).instructions = instructions.into();
        self
    }

    /// Sets the tools that it is offered; `*` means all.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Arc::make_mut(&mut self.spec).tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets hooks that run before and after this agent's calls and model turns, and for no other
    /// agent. They form a plugin named `ID-hooks`.
    #[must_use]
    pub fn with_hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Sets the limits of its runs.
    #[must_use]
    pub fn with_limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    fn direct() -> Self {
        let view = AgentView { id: DIRECT_AGENT.to_owned(), ..AgentView::default() };
        let spec = AgentSpec { view, tools: vec!["*".to_owned()], ..AgentSpec::default() };
        Self::of(spec)
    }
}

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
///     .subscribe("run.finished", |happening: &RunEvent| println!("{}", happening.payload))
///     .build()?;
/// assert!(host.toolbox().catalog().tool("now").is_some());
/// # Ok::<(), tollgate::HostError>(())
/// ```
pub struct HostBuilder {
    toolbox: Toolbox,
    gates: Vec<Arc<dyn Gate>>,
    pub(super) bus: Bus,
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
    /// let builder = Host::builder().subscribe("tool.call", |happening: &RunEvent| {
    ///     println!("{} is called with {}", happening.payload["tool"], happening.payload["args"]);
    /// });
    /// # assert!(builder.build().is_ok());
    /// ```
    #[must_use]
    pub fn subscribe(mut self, pattern: &str, subscriber: impl Subscriber) -> Self {
        self.bus.subscribe(pattern, Arc::new(subscriber));
        self
    }

    /// Sets the budget of host memory for clients and models. Pass that of the sandbox that
    /// runs the tools (`Sandbox::memory_budget`), so that both share one budget. By default,
    /// the host has a budget of its own, of the sandbox's default size.
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
            return Err(HostError::Setup(format!("the id \"{id}\" does not fit [a-z][a-z0-9-]{{0,63}}")));
        }
        self.agents.values().try_for_each(|agent| check(agent, &self.agents))?;
        if !(Duration::from_millis(1)..=MAX_HOOK_TIMEOUT).contains(&self.hook_timeout) {
            let words = format!(
                "the time limit of a hook is {:?}; 1 ms to 5 minutes are accepted",
                self.hook_timeout
            );
            return Err(HostError::Setup(words));
        }
        for (id, agent) in &self.agents {
            if let Some(hooks) = &agent.hooks {
                self.plugins.push(Box::new(AgentHooks::new(id, Arc::clone(hooks))));
            }
        }
        let Installed { natives, gates, hooks } = plugins::install(self.plugins, &mut self.bus)?;
        self.gates.extend(gates);
        for native in &natives {
            let installed = native.clone().install(&mut self.toolbox);
            installed.map_err(|e| HostError::Setup(e.to_string()))?;
        }
        builtin::equip(&mut self.toolbox, &self.agents)?;
        self.toolbox.set_thread_state_bytes(self.thread_state_bytes);
        let memory_budget = self.memory_budget.unwrap_or_else(default_budget);
        let remote = self.agents.values().filter_map(|agent| agent.remote.as_ref());
        remote.for_each(|remote| remote.use_budget(&memory_budget));
        Ok(Host {
            inner: Arc::new(Inner {
                toolbox: RwLock::new(Arc::new(self.toolbox)),
                published: tokio::sync::watch::Sender::new(0),
                thread_state_bytes: self.thread_state_bytes,
                gates: Gates::new(tool_list, self.gates)?,
                hooks: HookSet::new(hooks, self.hook_timeout),
                plugins: natives,
                store: self.store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
                agents: self.agents,
                threads: Mutex::default(),
                conflicts: Mutex::default(),
                bus: Arc::new(self.bus),
                memory_budget,
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
