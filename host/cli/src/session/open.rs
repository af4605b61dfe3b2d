//! Loading the tools and building the host from a configuration.

use crate::globals::Globals;
use crate::session::data::OpeningStore;
use crate::session::models::configured_model;
use crate::terminal::output::Progress;
use crate::terminal::remedy::{of_file, of_notice};
use crate::terminal::text::shown_line;
use crate::terminal::{Failure, Output};
use std::sync::Arc;
use tollgate::config::{AgentConfig, Config};
use tollgate::gates::{self, LivePermissions, LoadedGates};
use tollgate::models::Model;
use tollgate::tools::directory::{self, FileRemedy, Notice};
use tollgate::tools::{LoadedTools, RefusedFile};
use tollgate::{Agent, Host, HostBuilder};
use tollgate_sandbox::Sandbox;

/// The configuration with everything that it loads.
pub(crate) struct OpenSession {
    pub(crate) config: Config,
    pub(crate) loaded: LoadedTools,
    pub(crate) sandbox: Sandbox,
    pub(crate) gates: LoadedGates,
    /// The gate of the configuration's permission rules.
    pub(crate) permissions: Option<LivePermissions>,
}

impl OpenSession {
    /// Reads the configuration that the options name, and loads its tools and gates.
    pub(crate) async fn open(globals: &Globals, output: &Output) -> Result<Self, Failure> {
        Self::approved(globals.read_config()?, globals, output).await
    }

    /// Like [`open`](Self::open), while another thread opens the store.
    pub(crate) async fn open_with_store(
        globals: &Globals,
        output: &Output,
    ) -> Result<(Self, OpeningStore), Failure> {
        let config = globals.read_config()?;
        let store = OpeningStore::begin(globals, &config)?;
        Ok((Self::approved(config, globals, output).await?, store))
    }

    /// Loads a configuration. If a person is there, asks them for missing approvals and loads it
    /// again.
    async fn approved(config: Config, globals: &Globals, output: &Output) -> Result<Self, Failure> {
        let opened = Self::load(config, output).await?;
        if crate::session::approve::ask_all(&opened.loaded, &opened.config, globals, output).await? {
            return Self::load(globals.read_config()?, output).await;
        }
        Ok(opened)
    }

    /// Loads the tools and gates of a configuration.
    pub(crate) async fn load(config: Config, output: &Output) -> Result<Self, Failure> {
        // The validator is needed soon; another core builds it meanwhile.
        drop(tokio::task::spawn_blocking(tollgate_agent::schema::warm_up));
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        let progress = Progress::new("loading tools");
        let told = |done, total, file: &std::path::Path| progress.file(done, total, file);
        let loaded = directory::load(&sandbox, &config, &told).await?;
        let gates = gates::directory::load(&sandbox, &config).await;
        drop(progress);
        sandbox.take_notices().iter().for_each(|notice| output.warn(notice));
        let permissions = config.permissions.clone().map(LivePermissions::new);
        Ok(Self { config, loaded, sandbox, gates, permissions })
    }

    /// Warns about components that any agent or client may call now, for commands that serve all.
    pub(crate) fn warn_of_notices(&self, output: &Output) {
        self.loaded.notices.iter().for_each(|notice| output.warn(&of_notice(notice)));
        self.loaded.unknown_tools.iter().for_each(|unknown| output.warn(&unknown.notice));
    }

    /// Warns about the one tool that is to be called, and about what concerns no single component.
    pub(crate) fn warn_of_tool(&self, tool: &str, output: &Output) {
        let component = self.loaded.component_of(tool).map(|component| component.id.as_str());
        let is_about = |notice: &&Notice| match &notice.remedy {
            Some(FileRemedy::Approve { id, .. }) => component == Some(id.as_str()),
            _ => true,
        };
        self.loaded.notices.iter().filter(is_about).for_each(|notice| output.warn(&of_notice(notice)));
        let named = self.loaded.components.iter().find(|served| component.is_none() && served.id == tool);
        if let Some(named) = named {
            let tools = named.limits.keys().cloned().collect::<Vec<_>>().join(", ");
            output.warn(&format!("{tool} is a component; call one of its tools: {tools}"));
        }
    }

    /// Warns about everything that is wrong with the tools and their configuration.
    pub(crate) fn warn_of_all(&self, output: &Output) {
        self.warn_of_notices(output);
        self.loaded.unused_settings.iter().for_each(|notice| output.warn(notice));
    }

    /// Warns, once it is known, if this system cannot fully confine the compiler process.
    pub(crate) fn warn_of_gaps(&self) {
        let sandbox = self.sandbox.clone();
        tokio::spawn(async move {
            if let Some(gaps) = sandbox.compiler_gaps().await {
                tracing::warn!("{gaps}");
            }
        });
    }

    /// Warns which files are not served, and why.
    pub(crate) fn warn_of_refused(&self, output: &Output) {
        self.loaded.toolbox.refused().iter().for_each(|refused| output.warn(&not_served(refused)));
    }
}

/// Says that a file is not served, and why.
pub(crate) fn not_served(refused: &RefusedFile) -> String {
    let name = shown_line(&refused.file.display().to_string(), 200);
    format!("{name} is not served: {}", of_file(refused))
}

/// Returns all notices about the tools and their configuration, with the commands that resolve them.
pub(crate) fn notices(loaded: &LoadedTools) -> Vec<String> {
    loaded.notices.iter().map(of_notice).chain(loaded.unused_settings.iter().cloned()).collect()
}

/// Builds a host with the tools and agents of the configuration. `running` is the agent to run with
/// its model; `None` if it is made of others. The agents that it may run use their own models, and a
/// missing one is reported only on use. `more` adds what the configuration cannot express. Fails while
/// a gate is not in force.
pub(crate) fn host_with(
    opened: OpenSession,
    running: Option<(&str, Arc<dyn Model>)>,
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Result<Host, Failure> {
    let calls_agents = running.is_some()
        || opened.config.agents.values().any(|agent| agent.offered_as.is_some() || agent.made_of.is_some())
        || opened.config.grants.values().any(|grants| grants.delegates().next().is_some());
    let mut builder = Host::builder().toolbox(opened.loaded.toolbox);
    builder = builder.visible_keys(&opened.config.visible_keys);
    builder = builder.memory_budget(opened.sandbox.memory_budget().clone());
    builder = builder.thread_state_bytes(opened.config.store.thread_state_bytes);
    if let Some(permissions) = opened.permissions {
        builder = builder.gate(permissions);
    }
    for gate in opened.gates.all()? {
        builder = builder.gate(gate);
    }
    for (id, agent) in &opened.config.agents {
        let model = match &running {
            Some((runs, model)) if runs == id => Some(Arc::clone(model)),
            _ if calls_agents && id != tollgate::DIRECT_AGENT => configured_model(id, &opened.config).ok(),
            _ => None,
        };
        builder = builder.agent(agent_of(id, agent.clone(), model));
    }
    Ok(more(builder).build()?)
}

pub(crate) fn agent_of(id: &str, config: AgentConfig, model: Option<Arc<dyn Model>>) -> Agent {
    // An agent whose token is missing is one without a model, as its runs say.
    let remote = config.remote.and_then(|remote| remote.connect(|name| std::env::var(name).ok()).ok());
    let made = config.made_of.map(|composition| Agent::made_of(id, composition));
    let own = made.or_else(|| remote.map(|remote| Agent::remote(id, remote)));
    let mut agent = own.unwrap_or_else(|| Agent::without_model(id, config.tools));
    let spec = Arc::make_mut(&mut agent.spec);
    spec.view.description = config.description;
    spec.view.delegates = config.delegates;
    spec.instructions = config.instructions.into();
    spec.output = config.output.map(Arc::new);
    agent.offered_as = config.offered_as;
    agent.limits = config.limits;
    agent.model = agent.model.or(model);
    agent
}
