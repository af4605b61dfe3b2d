//! Reports of tools, on their way to clients.

use crate::stream::{LiveContent, Publisher};
use tollgate_agent::SmolStr;
use tollgate_sandbox::{Console, Report, ReportSink};

/// Reports of one attempt, sent to the run's clients.
pub(super) struct CallReports {
    pub(super) teller: Publisher,
    pub(super) call_id: SmolStr,
    pub(super) attempt: u32,
}

impl CallReports {
    /// Reports what the tool tried without a grant.
    pub(super) fn denied(&self, denied: Vec<String>) {
        let Self { teller, call_id, attempt } = self;
        teller.transient(LiveContent::CallDenied { call_id: call_id.clone(), attempt: *attempt, denied });
    }

    /// Reports what the tool wrote to standard output and error.
    pub(super) fn console(&self, console: Console) {
        if !console.text.is_empty() {
            let Self { teller, call_id, attempt } = self;
            teller.transient(LiveContent::CallConsole {
                call_id: call_id.clone(),
                attempt: *attempt,
                console,
            });
        }
    }
}

impl ReportSink for CallReports {
    fn offer(&self, report: Report) -> bool {
        let Self { teller, call_id, attempt } = self;
        teller.transient(LiveContent::CallReport { call_id: call_id.clone(), attempt: *attempt, report })
    }

    fn is_heard(&self) -> bool {
        self.teller.is_heard()
    }
}
