//! The rule by which a tool that failed too often is taken out of use.

use crate::code::Code;

/// The number of consecutive traps after which a tool is taken out of use.
pub const TRAPS_THAT_DISABLE: u32 = 5;

/// The evidence that an audit record gives about the health of its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSign {
    /// The tool trapped, which no arguments excuse.
    Trapped,
    /// The tool returned an answer of its own, or a person enabled it.
    Healthy,
    /// No evidence: the call did not run, was stopped from outside, or reached a limit, which the
    /// arguments may have caused.
    Neutral,
}

impl HealthSign {
    /// Derives the sign from the code with which a call ended; `None` stands for a result.
    #[must_use]
    pub fn of(code: Option<Code>) -> Self {
        match code {
            Some(Code::Trapped | Code::StackOverflow) => Self::Trapped,
            None
            | Some(
                Code::ToolInvalidArguments
                | Code::ToolFailed
                | Code::ToolDenied
                | Code::ToolNotFound
                | Code::ToolInternal
                | Code::ToolError,
            ) => Self::Healthy,
            Some(_) => Self::Neutral,
        }
    }
}

/// Returns the number of consecutive traps after one more call.
#[must_use]
pub fn traps_after(traps: u32, sign: HealthSign) -> u32 {
    match sign {
        HealthSign::Trapped => traps.saturating_add(1),
        HealthSign::Healthy => 0,
        HealthSign::Neutral => traps,
    }
}

/// Returns, for people, the reason why a tool with this many consecutive traps accepts no calls;
/// `None` if it accepts them.
#[must_use]
pub fn reason_to_disable(traps: u32) -> Option<String> {
    (traps >= TRAPS_THAT_DISABLE).then(|| format!("it trapped {traps} times in a row"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_in_a_row_disable_and_a_result_begins_anew() {
        let after = |codes: &[Option<Code>]| {
            codes.iter().fold(0, |traps, code| traps_after(traps, HealthSign::of(*code)))
        };
        let trapped = Some(Code::Trapped);
        assert_eq!(reason_to_disable(after(&[trapped; 4])), None);
        assert!(reason_to_disable(after(&[trapped; 5])).is_some());
        assert!(reason_to_disable(after(&[Some(Code::StackOverflow); 5])).is_some());
        assert_eq!(after(&[trapped, trapped, None, trapped]), 1);
        assert_eq!(after(&[trapped, Some(Code::ToolFailed), trapped]), 1);
        assert_eq!(after(&[trapped, Some(Code::TimedOut), Some(Code::Cancelled), trapped]), 2);
        assert_eq!(after(&[Some(Code::OutOfFuel); 9]), 0);
    }
}
