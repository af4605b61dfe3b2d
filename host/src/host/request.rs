//! What a host can be asked to do.

use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;

/// A prompt for an agent.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The agent.
    pub agent_id: String,
    /// What the user says.
    pub prompt: String,
    /// The conversation to continue; a new one where there is none.
    pub thread_id: Option<String>,
    /// What to do while another run of the thread is at work.
    pub busy: Busy,
    /// Whether it goes on when nobody listens to its events any more. Otherwise it is
    /// cancelled 10 seconds after the last client has left; see
    /// [`Host::follow`](crate::Host::follow).
    pub detached: bool,
}

impl RunRequest {
    /// A prompt that begins a new conversation.
    #[must_use]
    pub fn new(agent_id: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            prompt: prompt.into(),
            thread_id: None,
            busy: Busy::Refuse,
            detached: false,
        }
    }

    /// Goes on when nobody listens any more.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Continues this conversation.
    #[must_use]
    pub fn on_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }
}

/// What to do while another run of the thread is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// Refuse the new run.
    Refuse,
    /// Wait until it is its turn.
    Queue,
}

/// One call without a model.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The arguments, as JSON text; blank counts as `{}`.
    pub arguments: Arc<str>,
    /// The thread whose state the call reads and changes; a new one where there is
    /// none.
    pub thread_id: Option<String>,
    /// Ends the call early.
    pub cancel: CancellationToken,
}

impl CallRequest {
    /// A call on a thread of its own.
    #[must_use]
    pub fn new(tool_name: impl Into<SmolStr>, arguments: impl Into<Arc<str>>) -> Self {
        Self {
            tool_name: tool_name.into(),
            arguments: arguments.into(),
            thread_id: None,
            cancel: CancellationToken::new(),
        }
    }

    /// Reads and changes the state of this thread.
    #[must_use]
    pub fn on_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }
}
