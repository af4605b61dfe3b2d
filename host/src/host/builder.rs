//! Putting a host together: agents, gates, tools and a store.

use super::{DIRECT_AGENT, Host, HostError, Inner};
use crate::model::Model;
use crate::store::{MemoryStore, Store};
use crate::tools::Toolbox;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use tollgate_agent::context::AgentView;
use tollgate_agent::gate::{Gate, ToolList};
use tollgate_agent::name;
use tollgate_agent::run::{AgentSpec, RunLimits};

/// An agent that the host can run.
#[derive(Clone)]
pub struct Agent {
    /// What it is and which tools it lists.
    pub spec: AgentSpec,
    /// Who replies; none for the agent of direct calls.
    pub model: Option<Arc<dyn Model>>,
    /// What bounds its runs.
    pub limits: RunLimits,
}

impl Agent {
    /// An agent without tools, with default limits.
    #[must_use]
    pub fn new(id: impl Into<String>, model: Arc<dyn Model>) -> Self {
        let view = AgentView { id: id.into(), ..AgentView::default() };
        let spec = AgentSpec { view, ..AgentSpec::default() };
        Self { spec, model: Some(model), limits: RunLimits::default() }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.spec.instructions = instructions.into();
        self
    }

    /// Sets the tools that it is offered; `*` is all.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spec.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what bounds its runs.
    #[must_use]
    pub fn with_limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    fn direct() -> Self {
        let view = AgentView { id: DIRECT_AGENT.to_owned(), ..AgentView::default() };
        let spec = AgentSpec { view, tools: vec!["*".to_owned()], ..AgentSpec::default() };
        Self { spec, model: None, limits: RunLimits::default() }
    }
}

/// Puts a host together.
pub struct HostBuilder {
    toolbox: Toolbox,
    gates: Vec<Arc<dyn Gate>>,
    store: Option<Arc<dyn Store>>,
    agents: BTreeMap<String, Agent>,
}

impl HostBuilder {
    pub(super) fn new() -> Self {
        Self { toolbox: Toolbox::default(), gates: Vec::new(), store: None, agents: BTreeMap::new() }
    }

    /// Sets what can be called.
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

    /// Adds a gate beside the one that knows which agent lists which tools.
    #[must_use]
    pub fn gate(mut self, gate: impl Gate + 'static) -> Self {
        self.gates.push(Arc::new(gate));
        self
    }

    /// Sets the store; without one, everything ends with the process.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The host.
    ///
    /// # Errors
    /// Two gates have one id, or an id does not fit.
    pub fn build(mut self) -> Result<Host, HostError> {
        self.agents.entry(DIRECT_AGENT.to_owned()).or_insert_with(Agent::direct);
        let lists = self.agents.iter().fold(ToolList::default(), |lists, (id, agent)| {
            lists.with_agent(id.clone(), agent.spec.tools.clone())
        });
        self.gates.push(Arc::new(lists));
        self.gates.sort_by(|a, b| a.id().cmp(b.id()));
        if let Some(twice) = self.gates.windows(2).find(|pair| pair[0].id() == pair[1].id()) {
            return Err(HostError::Setup(format!("two gates have the id \"{}\"", twice[0].id())));
        }
        for id in self.gates.iter().map(|gate| gate.id()).chain(self.agents.keys().map(String::as_str)) {
            if !name::is_id(id) {
                return Err(HostError::Setup(format!("the id \"{id}\" does not fit [a-z][a-z0-9-]{{0,63}}")));
            }
        }
        Ok(Host {
            inner: Arc::new(Inner {
                toolbox: RwLock::new(Arc::new(self.toolbox)),
                published: tokio::sync::watch::Sender::new(0),
                gates: self.gates.into(),
                store: self.store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
                agents: self.agents,
                threads: Mutex::default(),
            }),
        })
    }
}
