//! Runs that wait for a host, commands to runs, and hints that something has changed.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender};
use tollgate_agent::run::{Decision, StoredEvent, Thread};

/// The number of hints that are kept for a slow receiver. If it misses more, it learns only that it
/// missed some.
const MAX_HINTS: usize = 1_024;

/// A run that a claim acquired.
#[derive(Debug, Clone)]
pub struct ClaimedRun {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The epoch in which the caller drives it.
    pub epoch: u64,
    /// The rows that the caller needs to drive it, if the store read them along with the claim; `None` if the
    /// caller has to read them.
    pub read: Option<Box<ReadAtClaim>>,
}

/// A claimed run as it was read along with the claim.
#[derive(Debug, Clone)]
pub struct ReadAtClaim {
    /// The whole record of the run.
    pub events: Vec<Arc<StoredEvent>>,
    /// Its thread.
    pub thread: Thread,
    /// The commands to it that were not carried out, oldest first.
    pub commands: Vec<SentCommand>,
}

/// A command to a run, wherever the run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// Answer a suspended call.
    Decide(Decision),
    /// End the run early, for this reason.
    Cancel(String),
    /// Continue a waiting run with this message, which supersedes its open questions.
    Message(String),
}

/// A stored command.
#[derive(Debug, Clone, PartialEq)]
pub struct SentCommand {
    /// The command's id.
    pub id: Arc<str>,
    /// The command.
    pub command: RunCommand,
}

/// A hint that something may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// This run has new events.
    Events(Arc<str>),
    /// This run has new commands.
    Commands(Arc<str>),
    /// A run may be free to be claimed.
    Work,
    /// This process could not show in time that it is alive: others may take over the runs that it
    /// drives, so it stops them without recording anything.
    Lapsed,
    /// Hints were lost: anything may have changed.
    Any,
}

impl Hint {
    /// Returns whether the hint may concern this run.
    #[must_use]
    pub fn is_about(&self, run_id: &str) -> bool {
        match self {
            Self::Events(of) | Self::Commands(of) => **of == *run_id,
            Self::Work | Self::Lapsed => false,
            Self::Any => true,
        }
    }
}

/// A stream of hints. They may be lost, repeated or late. A store that other processes write to
/// sends [`Hint::Any`] from time to time, about once a second while it changes.
#[derive(Debug)]
pub struct Hints(Option<Receiver<Hint>>);

impl Hints {
    /// Creates a stream without hints.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns the next hint; waits forever if there can be none.
    pub async fn next(&mut self) -> Hint {
        if let Some(receiver) = &mut self.0 {
            match receiver.recv().await {
                Ok(hint) => return hint,
                Err(RecvError::Lagged(_)) => return Hint::Any,
                Err(RecvError::Closed) => {}
            }
        }
        self.0 = None;
        std::future::pending().await
    }

    /// Returns the next hint if there is one already.
    pub fn try_next(&mut self) -> Option<Hint> {
        match self.0.as_mut()?.try_recv() {
            Ok(hint) => Some(hint),
            Err(TryRecvError::Lagged(_)) => Some(Hint::Any),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// The sender of a store's hints.
#[derive(Debug, Clone)]
pub struct HintSender(Sender<Hint>);

impl Default for HintSender {
    fn default() -> Self {
        Self(Sender::new(MAX_HINTS))
    }
}

impl HintSender {
    /// Sends a hint to all receivers.
    pub fn send(&self, hint: Hint) {
        if self.is_watched() {
            // A receiver that leaves meanwhile needs no hint.
            let _ = self.0.send(hint);
        }
    }

    /// Returns whether there are receivers.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Returns a stream of the hints from now on.
    #[must_use]
    pub fn watch(&self) -> Hints {
        Hints(Some(self.0.subscribe()))
    }
}
