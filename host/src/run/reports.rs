//! Reports of tools, on their way to clients.

use crate::stream::{LiveContent, Publisher};
use tollgate_agent::SmolStr;
use tollgate_sandbox::{Console, Report, ReportSink};

/// Reports of one attempt, sent to the run's clients.
pub(super) struct CallReports {
    pub(super) publisher: Publisher,
    pub(super) call_id: SmolStr,
    pub(super) attempt: u32,
}

impl CallReports {
    /// Reports what the tool tried without a grant.
    pub(super) fn denied(&self, denied: Vec<String>) {
        let Self { publisher, call_id, attempt } = self;
        publisher.publish_live(LiveContent::CallDenied {
            call_id: call_id.clone(),
            attempt: *attempt,
            denied,
        });
    }

    /// Reports what the tool wrote to standard output and error.
    pub(super) fn console(&self, console: Console) {
        if !console.text.is_empty() {
            let Self { publisher, call_id, attempt } = self;
            publisher.publish_live(LiveContent::CallConsole {
                call_id: call_id.clone(),
                attempt: *attempt,
                console,
            });
        }
    }
}

impl ReportSink for CallReports {
    fn offer(&self, report: Report) -> bool {
        let Self { publisher, call_id, attempt } = self;
        publisher.publish_live(LiveContent::CallReport {
            call_id: call_id.clone(),
            attempt: *attempt,
            report,
        })
    }

    fn is_heard(&self) -> bool {
        self.publisher.is_heard()
    }
}
