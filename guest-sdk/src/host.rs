//! What a call can ask of its surroundings: the host, or a test.

use crate::agents::{ChildError, ChildOutcome, ChildRun};
use crate::report::Report;
use std::cell::RefCell;
use std::collections::VecDeque;

/// The functions of the contract's `call` interface.
pub(crate) trait Host {
    /// Tells something; never fails.
    fn report(&self, report: Report);

    /// A readable key that is too large for the snapshot.
    fn read_state(&self, key: &str) -> Option<String>;

    /// The moment to stop early has come.
    fn is_cancelled(&self) -> bool;

    /// What was told, where this is a test.
    fn reports(&self) -> Vec<Report> {
        Vec::new()
    }
}

/// The surroundings of a test.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) reports: RefCell<Vec<Report>>,
    pub(crate) large_state: Vec<(String, String)>,
    pub(crate) cancelled: bool,
    pub(crate) outcomes: RefCell<VecDeque<Result<ChildOutcome, ChildError>>>,
    pub(crate) children: RefCell<Vec<ChildRun>>,
}

impl Recorder {
    /// The next outcome that the test laid ready.
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

    fn reports(&self) -> Vec<Report> {
        self.reports.borrow().clone()
    }
}
