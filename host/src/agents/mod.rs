//! The agents that a host can run.

mod conductor;

use crate::a2a::RemoteAgent;
use crate::config::DIRECT_AGENT;
use crate::models::Model;
use crate::plugins::Hooks;
use conductor::Conductor;
use std::sync::Arc;
use tollgate_agent::backend::Capabilities;
use tollgate_agent::composition::{Composition, MAX_ROUNDS};
use tollgate_agent::context::AgentView;
use tollgate_agent::name;
use tollgate_agent::run::{AgentSpec, RunLimits};

/// An agent that the host can run.
///
/// ```
/// use tollgate::{Agent, Host, ScriptedModel, RunLimits, ScriptedTurn};
///
/// let clerk = Agent::new("clerk", ScriptedModel::new(vec![ScriptedTurn::text("Filed.")]))
///     .with_instructions("You file what you are handed.")
///     .with_tools(["file", "find"]) // none by default; `*` lists all
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
    /// Its id, description, instructions and tools.
    pub spec: Arc<AgentSpec>,
    /// The model that replies; `None` for the agent of direct calls.
    pub model: Option<Arc<dyn Model>>,
    /// The limits of its runs.
    pub limits: RunLimits,
    /// The name of the tool under which other agents can call it, if any.
    pub offered_as: Option<String>,
    /// The agents that it is composed of; `None` if it has a model.
    pub made_of: Option<Composition>,
    /// The client of the server that runs it; `None` if this host runs it.
    pub remote: Option<Arc<RemoteAgent>>,
    /// Hooks around its own calls and model turns.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl Agent {
    /// Creates an agent without tools, with default limits. The id must fit `[a-z][a-z0-9-]{0,63}`,
    /// which is checked when the host is built.
    #[must_use]
    pub fn new(id: impl Into<String>, model: impl Model + 'static) -> Self {
        Self { model: Some(Arc::new(model)), ..Self::of(spec_of(id)) }
    }

    /// Creates an agent with these tools and without a model: it cannot reply.
    #[must_use]
    pub fn without_model(id: impl Into<String>, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of(spec_of(id)).with_tools(tools)
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
        let rounds = match composition {
            Composition::Loop { max_rounds, .. } => max_rounds.min(MAX_ROUNDS),
            Composition::Sequential(_) | Composition::Parallel(_) => 1,
        };
        let parts = u32::try_from(composition.agents().len()).unwrap_or(u32::MAX);
        let limits = RunLimits::default();
        let turns = parts.saturating_mul(rounds).saturating_mul(limits.model_turns + 1).saturating_add(1);
        let spec = AgentSpec {
            tools: vec![name::RUN_AGENT.to_owned()],
            is_loop: matches!(composition, Composition::Loop { .. }),
            ..spec_of(id)
        };
        Self {
            model: Some(Arc::new(Conductor::new(composition.clone()))),
            made_of: Some(composition),
            limits: RunLimits { model_turns: turns, ..limits },
            ..Self::of(spec)
        }
    }

    /// Creates an agent that another server runs. It takes no seed and returns no state.
    #[must_use]
    pub fn remote(id: impl Into<String>, remote: RemoteAgent) -> Self {
        let spec = AgentSpec {
            tools: vec![name::MESSAGE_AGENT.to_owned(), name::FOLLOW_AGENT.to_owned()],
            backend: tollgate_agent::remote::capabilities(remote.has_transcript()),
            ..spec_of(id)
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

    /// Creates the agent of direct calls, which has every tool.
    pub(crate) fn direct() -> Self {
        Self::of(spec_of(DIRECT_AGENT)).with_tools(["*"])
    }
}

/// Returns the description of an agent that has an id and nothing else.
fn spec_of(id: impl Into<String>) -> AgentSpec {
    let view = AgentView { id: id.into(), ..AgentView::default() };
    AgentSpec { view, ..AgentSpec::default() }
}
