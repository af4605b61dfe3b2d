//! The moment around a commit at which a process is killed.

use crate::watched::Watch;
use std::fmt;
use std::process::Command;
use std::str::FromStr;
use tollgate::store::StoreError;

/// The commit at which the process ends; 1 is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Just before the commit, with everything else done.
    Before(u64),
    /// Just after the commit, with nothing else done.
    After(u64),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Before(commit) => write!(f, "before {commit}"),
            Moment::After(commit) => write!(f, "after {commit}"),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (side, commit) = text.split_once(' ').ok_or(text)?;
        let commit = commit.parse().map_err(|e| format!("{text}: {e}"))?;
        match side {
            "before" => Ok(Moment::Before(commit)),
            "after" => Ok(Moment::After(commit)),
            _ => Err(text.to_owned()),
        }
    }
}

/// Ends a process immediately and without notice, as the system does if it is short of memory.
pub(crate) fn kill(process: u32) {
    // It may have ended by itself meanwhile.
    let _ = Command::new("sh").args(["-c", &format!("kill -9 {process} 2> /dev/null")]).status();
}

/// Kills this process at the given moment, if any.
impl Watch for Option<Moment> {
    fn before(&self, write: u64) -> Result<(), StoreError> {
        meet(*self, Moment::Before(write));
        Ok(())
    }

    fn after(&self, write: u64) {
        meet(*self, Moment::After(write));
    }
}

fn meet(awaited: Option<Moment>, moment: Moment) {
    if awaited == Some(moment) {
        kill(std::process::id());
        // Nothing runs here until the signal arrives.
        loop {
            std::thread::park();
        }
    }
}
