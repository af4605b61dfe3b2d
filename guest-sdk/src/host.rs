//! The functions that a call may use, provided by the host or by a test.

use crate::agents::{ChildError, ChildOutcome, ChildRun};
use crate::content::Attachment;
use crate::report::Report;
use std::cell::RefCell;
use std::collections::VecDeque;

/// The functions of the contract's `call` interface.
pub(crate) trait Host {
    /// Sends a report; never fails.
    fn report(&self, report: Report);

    /// Reads a key that is too large for the snapshot.
    fn read_state(&self, key: &str) -> Option<String>;

    /// Returns whether the call should stop early.
    fn is_cancelled(&self) -> bool;

    /// Returns a setting that an operator granted.
    fn setting(&self, name: &str) -> Option<String>;

    /// Returns the reports so far, in a test.
    fn reports(&self) -> Vec<Report> {
        Vec::new()
    }
}

/// A host for tests.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) reports: RefCell<Vec<Report>>,
    pub(crate) large_state: Vec<(String, String)>,
    pub(crate) cancelled: bool,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) outcomes: RefCell<VecDeque<Result<ChildOutcome, ChildError>>>,
    pub(crate) children: RefCell<Vec<ChildRun>>,
    pub(crate) attachments: RefCell<Vec<Attachment>>,
}

impl Recorder {
    /// Returns the next outcome that the test prepared.
    pub(crate) fn run_child(&self, child: ChildRun) -> Result<ChildOutcome, ChildError> {
        let missing = ChildError::AgentNotFound(child.agent_id.clone());
        self.children.borrow_mut().push(child);
        self.outcomes.borrow_mut().pop_front().unwrap_or(Err(missing))
    }
}

impl Host for Recorder {
    fn report(&self, report: Report) {
        self.reports.borrow_mut().push(report);
    }

    fn read_state(&self, key: &str) -> Option<String> {
        self.large_state.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn reports(&self) -> Vec<Report> {
        self.reports.borrow().clone()
    }
}
