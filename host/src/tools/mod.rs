//! Tools, wherever they come from, behind one trait.
//!
//! A [`Toolbox`] holds what can be called: the catalog by which calls are judged,
//! and for each tool the [`Runner`] that runs it. Components, native Rust tools
//! and whatever comes later differ only in their runner; gate, limits on time,
//! state rules and events are the same for all.

mod archived;
mod component;
mod concurrency;
mod context;
pub mod directory;
mod function;
pub mod native;
mod open;
mod returned;
mod toolbox;

pub use archived::ArchivedTools;
pub use context::ToolContext;
pub(crate) use directory::wasm_files;
pub use directory::{Loaded, LoadedComponent};
pub use function::FnTool;
pub use native::{NativePlugin, NativeTool, ToolCall};
pub use open::LoadError;
pub use returned::{IntoOutput, Json};
pub use tollgate_sandbox::{Attempt, ChildRunner, Report, ReportSink};
pub use toolbox::{RefusedFile, Toolbox};

use crate::store::ComponentFile;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::Tool;
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_agent::gate::Permit;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::{Fault, Outcome};
use tollgate_agent::proposal::Arguments;
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::state::{KeySet, Snapshot};

/// Runs the tools of one owner.
///
/// Dropping the future of either function stops the tool.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Makes one attempt at a permitted call. Whatever the tool does is an
    /// outcome; the attempt ends within its timeout, or soon after `cancel`.
    async fn run(&self, attempt: AttemptRequest<'_>) -> Attempt;

    /// Asks the tool about arguments that fit its schema, before any gate, in a
    /// sealed instance. Called only for tools whose descriptor says that they
    /// validate.
    ///
    /// # Errors
    /// What the tool has against the arguments, or what ended the question early.
    async fn validate(&self, tool: &Tool, arguments: &Arguments) -> Result<(), Fault>;

    /// Whether a recorded call of this tool may be run again: it touches nothing but
    /// what it is given, and what it takes from the world can be played back.
    fn replays(&self, _tool_name: &str) -> bool {
        false
    }

    /// The file of the component that it runs, for a store to keep; none where there
    /// is no file.
    fn component_file(&self) -> Option<&ComponentFile> {
        None
    }

    /// What its tools can reach beside the state that they declare, as far as that
    /// is enforced.
    fn reach(&self) -> Reach {
        Reach::Unknown
    }
}

/// What a call can touch outside of the host's own state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing keeps it from reaching anything.
    #[default]
    Unknown,
    /// No more than this.
    Within {
        /// It may change files of the host.
        changes_files: bool,
        /// It may speak with others over the network.
        reaches_network: bool,
    },
}

/// One attempt at a call that a gate let through.
#[derive(Clone)]
pub struct AttemptRequest<'a> {
    /// The call: its id, tool and judged arguments.
    pub permit: &'a Permit,
    /// Which run, thread and agent it belongs to.
    pub identity: &'a RunIdentity,
    /// The agent that calls.
    pub agent: &'a AgentView,
    /// The state as it stood when the call's batch began.
    pub snapshot: &'a Snapshot,
    /// What the state's keys are.
    pub keys: &'a KeySet,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The decision with which a suspended call goes on.
    pub resume: Option<&'a Resumption>,
    /// Wall time for this attempt.
    pub timeout: Duration,
    /// Plays back what a recorded attempt took from the world, where the call is run
    /// again from its record.
    pub replay: Option<&'a Arc<RecordedInputs>>,
    /// Who is told what the tool reports.
    pub reports: Arc<dyn ReportSink>,
    /// Who runs other agents for it.
    pub children: Arc<dyn ChildRunner>,
    /// The conversation so far; none but for the host's own tools.
    pub history: Option<Arc<Vec<Message>>>,
    /// Ends the attempt early.
    pub cancel: &'a CancellationToken,
}

/// Whether an attempt that ended so was stopped from outside, so that what it used was not
/// counted to its end.
pub(crate) fn was_cut(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Faulted(fault) if matches!(fault.code, Code::TimedOut | Code::Cancelled))
}
