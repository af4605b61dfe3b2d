//! When a tool has failed so often that it is taken out of use.

use crate::code::Code;

/// So many traps in a row take a tool out of use.
pub const TRAPS_THAT_DISABLE: u32 = 5;

/// What the end of a call says about its tool's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It trapped, which no arguments excuse.
    Trapped,
    /// It ran to an answer of its own.
    Well,
    /// Nothing: it did not run, it was stopped from without, or it met a limit, which may
    /// be the arguments' fault.
    Nothing,
}

impl Sign {
    /// Reads it off the code with which a call ended; none is a result.
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
            ) => Self::Well,
            Some(_) => Self::Nothing,
        }
    }
}

/// Traps in a row after one more call.
#[must_use]
pub fn traps_after(traps: u32, sign: Sign) -> u32 {
    match sign {
        Sign::Trapped => traps.saturating_add(1),
        Sign::Well => 0,
        Sign::Nothing => traps,
    }
}

/// Why a tool with so many traps in a row takes no calls, for people; none while it
/// takes them.
#[must_use]
pub fn reason_to_disable(traps: u32) -> Option<String> {
    (traps >= TRAPS_THAT_DISABLE).then(|| format!("it trapped {traps} times in a row"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_in_a_row_disable_and_a_result_begins_anew() {
        let after =
            |codes: &[Option<Code>]| codes.iter().fold(0, |traps, code| traps_after(traps, Sign::of(*code)));
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
