//! Tollgate runs agent tools without trusting them.
//!
//! A [`Host`] has tools, agents that may call them, gates that judge every call, and a
//! store. [`Host::run`] answers a prompt with an agent; [`Host::call`] makes one call without a
//! model.
//!
//! ```
//! use tollgate::{Agent, CallRequest, FnTool, Host, ScriptedModel, RunRequest, ScriptedTurn};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model with scripted replies; `ModelConfig` connects to a real one.
//! let model = ScriptedModel::new(vec![
//!     ScriptedTurn::calls([("count_words", json!({"text": "one two three"}))]),
//!     ScriptedTurn::text("There are {{count_words}} words."),
//! ]);
//! // A tool in Rust; `Toolbox::load` loads a directory of sandboxed components.
//! let count = FnTool::new("count-words", "count_words", "Counts words.", |args: Value, _| async move {
//!     json!(args["text"].as_str().unwrap_or_default().split_whitespace().count())
//! });
//! let host = Host::builder()
//!     .tool(count)
//!     .agent(Agent::new("assistant", model).with_tools(["count_words"]))
//!     .build()?;
//!
//! let end = host.run(RunRequest::new("assistant", "How many words?")).await?.wait().await?;
//! assert_eq!(end.text, "There are 3 words.");
//!
//! let end = host.call(CallRequest::new("count_words", &json!({"text": "one two"}))?).await?;
//! assert_eq!(end.result().unwrap().data, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Overview
//!
//! | for | see |
//! |---|---|
//! | components from a directory | [`Toolbox::load`] |
//! | tools in Rust | [`FnTool`], [`NativeTool`], [`tools::NativePlugin`] |
//! | a real or custom model | [`models::ModelConfig`], [`Model`] |
//! | who may call what | [`Agent::with_tools`], [`Gate`] |
//! | gates, hooks, state keys and tools that belong together | [`Plugin`], [`Hooks`], [`StateKey`] |
//! | events as they happen | [`RunHandle::events`], [`HostBuilder::subscribe`] |
//! | calls that wait for a person | [`RunEnd::waiting`], [`Host::decide`] |
//! | agents that call agents | [`ToolContext::run_child`], [`Agent::offered_as`], [`Composition`] |
//! | agents of other servers | [`a2a::RemoteAgent`], [`Agent::remote`] |
//! | persistent storage | [`SqliteStore`], [`Store`] |
//! | limits, grants and the sandbox itself | [`sandbox`], [`grants`] |
//!
//! The types of calls, runs and state that a program names are re-exported here, and those of one
//! subject in its module: messages in [`models`], events and state in [`store`], permission rules in
//! [`gates`]. The crates that they come from are parts of this one, and change more often.

pub mod a2a;
mod agents;
pub mod blocking;
mod builtin;
pub mod config;
mod error;
pub mod gates;
pub mod grants;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod models;
pub mod plugins;
pub mod registry;
pub mod sandbox;
pub mod tools;

mod host;
pub mod run;
mod state_key;
pub mod store;
mod stream;

pub use agents::Agent;
pub use config::DIRECT_AGENT;
pub use error::{HostError, RequestRefusal, SetupError};
pub use host::{
    Busy, CLIENT_MEMORY_PART, CallRequest, FollowUntil, Host, HostBuilder, RunFollower, RunOptions,
    RunRequest, WorkOptions, replay,
};

pub use gates::{Gate, ProposedCall, Verdict};
pub use models::{Model, ModelConfig, ScriptedModel, ScriptedTurn};
pub use plugins::{Hooks, Plugin, StateKey};
pub use run::{EventStream, LiveContent, RunEnd, RunEvent, RunHandle, RunUpdate, Subscriber};
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{MemoryStore, Store};
pub use tools::{FnTool, IntoOutput, Json, NativeTool, ToolCall, ToolContext, Toolbox};

pub use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest, ChildStatus};
pub use tollgate_agent::code::Code;
pub use tollgate_agent::composition::Composition;
pub use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
pub use tollgate_agent::outcome::{Action, ActionGrants, Fault, ResumeMode, Ticket, ToolOutput, ToolResult};
pub use tollgate_agent::run::{CallEnd, Decision, Event, RunLimits, RunStatus};
pub use tollgate_agent::state::KeyScope;

/// The attribute for implementing [`Model`], [`NativeTool`], [`Hooks`], [`Gate`] and
/// [`Store`].
pub use async_trait::async_trait;

/// The example programs of the guide for people who know other frameworks.
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
pub struct ComingFrom;
