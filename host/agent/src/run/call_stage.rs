//! The stages of a call with the data of each, and the permitted moves between them.

use super::facts::{CallCompletion, CallEnd, CallStatus};
use crate::gate::Clearance;
use crate::outcome::{Outcome, Usage};
use crate::question::SuspendedCall;
use std::sync::Arc;

/// The stage of a call, with the data that exists only in that stage.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// The gates are to be asked about the call.
    Judging(Progress),
    /// The gates let the call through, and it waits for a free slot.
    Queued(Progress, Clearance),
    /// An attempt is in progress.
    Running {
        clearance: Clearance,
        /// The earliest start, in milliseconds since the Unix epoch; 0 means at once.
        not_before_ms: u64,
    },
    /// The last attempt ended. Its outcome waits for its turn to be applied.
    Returned { outcome: Arc<Outcome>, usage: Usage },
    /// The call waits for a person to answer this question.
    Suspended(Arc<SuspendedCall>),
    /// The end of the call is known, and the hooks after it are asked.
    Completing(Progress, Arc<CallCompletion>),
    /// The call ended.
    Ended(CallEnd),
}

/// How far an open call came since it was proposed or last waited for a person. It is the status of
/// a call that neither runs nor waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The model requested the call.
    Proposed,
    /// A person decided about the call.
    Resumed,
    /// An attempt was started.
    Attempted,
}

impl Stage {
    pub(super) fn status(&self) -> CallStatus {
        match self {
            Stage::Suspended(_) => CallStatus::Suspended,
            Stage::Ended(end) => end.status(),
            open => match open.progress() {
                Progress::Proposed => CallStatus::New,
                Progress::Resumed => CallStatus::Resuming,
                Progress::Attempted => CallStatus::Running,
            },
        }
    }

    /// Returns how far the call came, for the stage that follows.
    pub(super) fn progress(&self) -> Progress {
        match self {
            Stage::Judging(progress) | Stage::Queued(progress, _) | Stage::Completing(progress, _) => {
                *progress
            }
            Stage::Suspended(_) => Progress::Resumed,
            Stage::Running { .. } | Stage::Returned { .. } | Stage::Ended(_) => Progress::Attempted,
        }
    }

    /// Returns the gates' permission to run the call.
    pub(super) fn clearance(&self) -> Option<Clearance> {
        match self {
            Stage::Queued(_, clearance) | Stage::Running { clearance, .. } => Some(*clearance),
            _ => None,
        }
    }

    /// Returns whether a call may move from this stage to that one. Any other move is a bug in the
    /// host.
    pub(super) fn may_become(&self, next: &Stage) -> bool {
        match next {
            Stage::Queued(progress, _) | Stage::Completing(progress, _) if *progress != self.progress() => {
                false
            }
            Stage::Judging(Progress::Proposed) => false,
            Stage::Judging(Progress::Resumed) => matches!(self, Stage::Suspended(_)),
            // The outcome conflicts with the state.
            Stage::Judging(Progress::Attempted) => {
                matches!(self, Stage::Running { .. } | Stage::Returned { .. })
            }
            // Another attempt follows one that timed out.
            Stage::Queued(..) => matches!(self, Stage::Judging(_) | Stage::Running { .. }),
            // The attempt replaces one whose process ended.
            Stage::Running { .. } => matches!(self, Stage::Queued(..) | Stage::Running { .. }),
            Stage::Returned { .. } => matches!(self, Stage::Running { .. }),
            // A question that is asked again for another version remains a question.
            Stage::Suspended(_) | Stage::Completing(..) => {
                !matches!(self, Stage::Completing(..) | Stage::Ended(_))
            }
            Stage::Ended(end) => match self {
                Stage::Ended(_) => false,
                Stage::Suspended(_) => end.status() == CallStatus::Cancelled,
                _ => true,
            },
        }
    }

    /// Returns the name of the stage, for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Stage::Judging(_) => "judging",
            Stage::Queued(..) => "queued",
            Stage::Running { .. } => "running",
            Stage::Returned { .. } => "returned",
            Stage::Suspended(_) => "suspended",
            Stage::Completing(..) => "completing",
            Stage::Ended(_) => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::gate::{GateVerdict, Resolution, Verdict, resolve};
    use crate::outcome::{Fault, Ticket, ToolResult};
    use crate::question::AnswerSchema;

    /// Every stage, with every value that its moves depend on.
    fn stages() -> Vec<Stage> {
        let verdicts = [GateVerdict::new("list", Verdict::Allow)];
        let Resolution::Allowed(clearance) = resolve(&verdicts, &[]) else { panic!("the gate allows it") };
        let completion = Arc::new(CallCompletion {
            call_id: "a".into(),
            end: Fault::new(Code::Trapped, "It trapped.").into(),
            mutations: Vec::new(),
            asked: Default::default(),
            usage: Usage::default(),
        });
        let question = SuspendedCall {
            call_id: "a".into(),
            suspension_id: "a/1".to_owned(),
            tool_name: "look".into(),
            arguments: None,
            ticket: Ticket::confirm("Sure?"),
            owner: None,
            gate: None,
            child: None,
            change: None,
            usage: Usage::default(),
            answer: AnswerSchema::default(),
        };
        let ends = [
            CallEnd::Result(Arc::new(ToolResult::success("seen"))),
            Fault::new(Code::Trapped, "It trapped.").into(),
            Fault::new(Code::Cancelled, "It was cancelled.").into(),
        ];
        let outcome = Arc::new(Outcome::Faulted(Fault::new(Code::Trapped, "It trapped.")));
        let mut stages = vec![
            Stage::Running { clearance, not_before_ms: 0 },
            Stage::Returned { outcome, usage: Usage::default() },
            Stage::Suspended(Arc::new(question)),
        ];
        stages.extend(ends.map(Stage::Ended));
        for progress in [Progress::Proposed, Progress::Resumed, Progress::Attempted] {
            stages.push(Stage::Judging(progress));
            stages.push(Stage::Queued(progress, clearance));
            stages.push(Stage::Completing(progress, Arc::clone(&completion)));
        }
        stages
    }

    #[test]
    fn l3_only_the_listed_moves_exist() {
        use CallStatus::{Cancelled, Failed, New, Resuming, Running, Succeeded, Suspended};
        let listed = [
            (New, vec![Running, Succeeded, Failed, Suspended, Cancelled]),
            (Running, vec![Succeeded, Failed, Suspended, Cancelled]),
            (Suspended, vec![Resuming, Cancelled]),
            (Resuming, vec![Running, Succeeded, Failed, Suspended, Cancelled]),
            (Succeeded, vec![]),
            (Failed, vec![]),
            (Cancelled, vec![]),
        ];
        for (from, allowed) in listed {
            for to in CallStatus::ALL {
                assert_eq!(from.may_become(to), allowed.contains(&to), "{from:?} -> {to:?}");
            }
        }
    }

    #[test]
    fn l3_stages_move_exactly_as_their_statuses_may() {
        let stages = stages();
        let mut moved = Vec::new();
        for from in &stages {
            for to in stages.iter().filter(|to| from.may_become(to)) {
                let (before, after) = (from.status(), to.status());
                let stays = before == after && !before.is_final();
                assert!(stays || before.may_become(after), "{from:?} -> {to:?}");
                moved.push((before, after));
            }
        }
        for before in CallStatus::ALL {
            for after in CallStatus::ALL.into_iter().filter(|after| before.may_become(*after)) {
                assert!(moved.contains(&(before, after)), "no stage moves from {before:?} to {after:?}");
            }
        }
    }
}
