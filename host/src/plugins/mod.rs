//! Plugins of the embedding program: gates, hooks, state keys, tools and subscriptions
//! that belong together, installed under one name.
//!
//! ```
//! use tollgate::Host;
//! use tollgate::run::RunEvent;
//! use tollgate::plugins::{Effects, HookError, HookedCall, Hooks, Parts, Plugin, StateKey, async_trait};
//!
//! /// The number of permitted calls of each tool.
//! struct Calls;
//!
//! impl StateKey for Calls {
//!     const NAME: &'static str = "tally.calls";
//!     const COMMUTES: bool = true;
//!     type Value = std::collections::BTreeMap<String, u64>;
//!     type Update = String;
//!
//!     fn apply(calls: &mut Self::Value, tool: String) {
//!         *calls.entry(tool).or_default() += 1;
//!     }
//! }
//!
//! struct Tally;
//!
//! impl Plugin for Tally {
//!     fn name(&self) -> &str {
//!         "tally"
//!     }
//!
//!     fn register(self: Box<Self>, parts: &mut Parts) {
//!         parts.state::<Calls>().hooks(*self).subscribe("run.finished", |_: &RunEvent| println!("done"));
//!     }
//! }
//!
//! #[async_trait]
//! impl Hooks for Tally {
//!     async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
//!         Ok(Effects::none().update::<Calls>(call.tool_name.to_owned()))
//!     }
//! }
//!
//! assert!(Host::builder().plugin(Tally).build().is_ok());
//! ```

mod effects;
mod hooks;
mod install;
mod view;

pub use crate::state_key::{StateKey, mutation};
pub use async_trait::async_trait;
pub use effects::Effects;
pub use hooks::{BeforeModel, HookError, Hooks};
pub use tollgate_agent::hook::{CustomEvent, HookPoints};
pub use tollgate_agent::outcome::ToolFilter;
pub use view::{HookedCall, HookedTurn, StateView};

pub(crate) use hooks::{AgentHooks, InstalledHooks};
pub(crate) use install::{PluginParts, equip, install};

use crate::gates::Gate;
use crate::stream::Subscriber;
use crate::tools::{NativePlugin, NativeTool};
use std::sync::Arc;
use tollgate_agent::descriptor::StateAccess;
use tollgate_agent::outcome::ActionGrants;

/// A plugin, which is installed into a host as a unit with
/// [`HostBuilder::plugin`](crate::HostBuilder::plugin).
pub trait Plugin: Send + Sync + 'static {
    /// Returns its name: `[a-z][a-z0-9-]{0,63}`, unique among the owners of tools. Its state
    /// keys begin with it.
    fn name(&self) -> &str;

    /// Adds its parts. Called once, when the host is built.
    fn register(self: Box<Self>, parts: &mut Parts);
}

/// A plugin that has only native tools.
impl Plugin for NativePlugin {
    fn name(&self) -> &str {
        self.id()
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.native = *self;
    }
}

/// The parts of a plugin.
pub struct Parts {
    pub(crate) native: NativePlugin,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    pub(crate) subscriptions: Vec<(String, Arc<dyn Subscriber>)>,
}

impl Parts {
    pub(crate) fn new(name: &str) -> Self {
        Self { native: NativePlugin::new(name), gates: Vec::new(), hooks: None, subscriptions: Vec::new() }
    }

    fn with(&mut self, change: impl FnOnce(NativePlugin) -> NativePlugin) -> &mut Self {
        let native = std::mem::replace(&mut self.native, NativePlugin::new(String::new()));
        self.native = change(native);
        self
    }

    /// Adds a tool.
    pub fn tool(&mut self, tool: impl NativeTool + 'static) -> &mut Self {
        self.with(|native| native.with_tool(tool))
    }

    /// Defines a state key with a reducer in Rust, which its tools and hooks may read and
    /// write.
    pub fn state<K: StateKey>(&mut self) -> &mut Self {
        self.with(NativePlugin::with_key::<K>)
    }

    /// Defines a state key, or accesses one that another plugin or component defines.
    pub fn access(&mut self, access: StateAccess) -> &mut Self {
        self.with(|native| native.with_state(access))
    }

    /// Lets its tools and hooks request these actions of the loop along with their results.
    pub fn actions(&mut self, actions: ActionGrants) -> &mut Self {
        self.with(|native| native.with_actions(actions))
    }

    /// Adds a gate, which judges every call.
    pub fn gate(&mut self, gate: impl Gate + 'static) -> &mut Self {
        self.gates.push(Arc::new(gate));
        self
    }

    /// Sets the hooks, replacing earlier ones.
    pub fn hooks(&mut self, hooks: impl Hooks + 'static) -> &mut Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Sets hooks that run for the calls and model turns of one agent only, replacing earlier
    /// hooks.
    pub fn hooks_of(&mut self, agent_id: impl Into<String>, hooks: impl Hooks + 'static) -> &mut Self {
        self.hooks(hooks::HooksOfAgent::new(agent_id, Arc::new(hooks)))
    }

    /// Sends events of every run to `subscriber`: see
    /// [`HostBuilder::subscribe`](crate::HostBuilder::subscribe).
    pub fn subscribe(&mut self, pattern: &str, subscriber: impl Subscriber) -> &mut Self {
        self.subscriptions.push((pattern.to_owned(), Arc::new(subscriber)));
        self
    }
}
