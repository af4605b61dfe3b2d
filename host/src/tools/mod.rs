//! Tools of any origin behind one trait.
//!
//! A [`Toolbox`] holds the tools that can be called: the catalog by which calls are judged, and
//! the [`Runner`] of each tool. Components, native Rust tools and other kinds differ only in
//! their runner; gate, time limits, state rules and events are the same for all.

mod component;
mod context;
pub mod directory;
mod function;
pub mod native;
mod open;
mod returned;
mod served;
mod toolbox;

pub use context::ToolContext;
pub(crate) use directory::wasm_files;
pub use directory::{LoadedComponent, LoadedTools};
pub use function::FnTool;
pub use native::{NativePlugin, NativeTool, ToolCall};
pub use open::{ArchivedTools, LoadError};
pub use returned::{IntoOutput, Json};
pub use served::ServedTools;
pub use tollgate_sandbox::{
    Attempt, CallContext, ChildRunner, MemoryBudget, ProgressStatus, Report, ReportSink, Reservation,
};
pub use toolbox::{RefusedFile, Toolbox};

use crate::store::ComponentFile;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use tollgate_agent::catalog::Tool;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::Fault;
use tollgate_agent::proposal::Arguments;

/// A runner of one owner's tools.
///
/// Dropping the future of either function stops the tool.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Makes one attempt at a permitted call. Every result of the tool is an outcome. The
    /// attempt ends within its timeout, or soon after `cancel`.
    async fn run(&self, attempt: AttemptRequest<'_>) -> Attempt;

    /// Lets the tool check arguments that fit its schema, before any gate, in a sealed
    /// instance. Called only for tools whose descriptor says that they validate.
    ///
    /// # Errors
    /// The tool's objection to the arguments, or the reason why the check ended early.
    async fn validate(&self, tool: &Tool, arguments: &Arguments) -> Result<(), Fault>;

    /// Returns whether a recorded call of this tool may be run again: it touches only its
    /// inputs, and its readings of the outside world can be played back.
    fn replays(&self, _tool_name: &str) -> bool {
        false
    }

    /// Returns the file of the component that it runs, for a store to keep; `None` if there is
    /// no file.
    fn component_file(&self) -> Option<&ComponentFile> {
        None
    }

    /// Returns what the owner of the tool claims about it; `None` if the owner claims nothing.
    fn declared(&self, _tool_name: &str) -> Option<&DeclaredTool> {
        None
    }

    /// Returns what its tools can reach in addition to the state that they declare, as far as
    /// that is enforced.
    fn reach(&self) -> Reach {
        Reach::Unknown
    }
}

/// The claims of an owner about a tool that the host does not enforce, for clients of the Model
/// Context Protocol. The texts are sanitized.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeclaredTool {
    /// A title for people.
    pub title: Option<String>,
    /// JSON Schema of the data of a success.
    pub output_schema: Option<Value>,
    /// It does not change anything.
    pub read_only: Option<bool>,
    /// It may remove or overwrite something.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It deals with entities outside of the owner's own.
    pub open_world: Option<bool>,
}

/// The reach of a call outside of the host's own state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// The reach is not known to be limited.
    #[default]
    Unknown,
    /// The reach is limited to this.
    Within {
        /// It may change files of the host.
        changes_files: bool,
        /// It may use the network.
        reaches_network: bool,
    },
}

/// One attempt at a call that the gates permitted.
#[derive(Clone)]
pub struct AttemptRequest<'a> {
    /// The context of the call.
    pub call: CallContext<'a>,
    /// The conversation so far; `None` except for the host's own tools.
    pub history: Option<Arc<Vec<Message>>>,
}
