//! The rights of keys and sessions.

use std::fmt;
use std::str::FromStr;

/// A right of a key or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Call tools, start runs, see and cancel own runs.
    Use,
    /// Answer questions of own runs.
    Decide,
    /// See and answer every question.
    DecideAny,
    /// See the runs, audit and usage of everyone.
    Read,
    /// Cancel and recover others' runs, enable tools, make answers permanent in the console, list keys, end
    /// sessions.
    Operate,
    /// Read `/metrics`.
    Metrics,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 6] =
        [Scope::Use, Scope::Decide, Scope::DecideAny, Scope::Read, Scope::Operate, Scope::Metrics];

    /// Returns the scope's name in configuration, on the command line and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Use => "use",
            Scope::Decide => "decide",
            Scope::DecideAny => "decide_any",
            Scope::Read => "read",
            Scope::Operate => "operate",
            Scope::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == typed).ok_or_else(|| {
            let known = Scope::ALL.map(Scope::as_str).join(", ");
            format!("there is no scope `{}`; known: {known}", tollgate_agent::text::clean(typed, 40))
        })
    }
}
