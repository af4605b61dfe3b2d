//! The number of calls of a run that the gates let through. Gates keep no state, so the host counts
//! for their budgets.

use super::call::Call;
use crate::gate::CallsBefore;
use smol_str::SmolStr;

/// Counts of the calls that were let through.
#[derive(Debug, Clone, Default)]
pub(super) struct CallCounts {
    of_tool: ToolCounts<SmolStr>,
    in_run: u32,
}

impl CallCounts {
    /// Counts a call that was let through. Each call counts once, even if it is let through again.
    pub(super) fn count(&mut self, call: &mut Call) {
        if !std::mem::replace(&mut call.counted, true) {
            self.of_tool.add(call.tool_name.clone());
            self.in_run += 1;
        }
    }

    /// Returns the counts that the gates see for each of these calls, in order: the other calls let
    /// through so far, and those before it in the list as if they were let through.
    pub(super) fn before<'a>(
        &'a self,
        calls: impl IntoIterator<Item = &'a Call>,
    ) -> impl Iterator<Item = CallsBefore> {
        // The earlier calls that do not count yet. The last of them is added when another call
        // follows it.
        let (mut fresh_of_tool, mut fresh) = (ToolCounts::default(), 0);
        let mut last: Option<&Call> = None;
        calls.into_iter().map(move |call| {
            if let Some(last) = last.replace(call).filter(|last| !last.counted) {
                fresh_of_tool.add(last.tool_name.as_str());
                fresh += 1;
            }
            let name = call.tool_name.as_str();
            let itself = u32::from(call.counted);
            CallsBefore {
                of_tool: self.of_tool.get(name) + fresh_of_tool.get(name) - itself,
                in_run: self.in_run + fresh - itself,
            }
        })
    }
}

/// The count of each tool. A run calls few different tools, so a list suffices.
#[derive(Debug, Clone, Default)]
struct ToolCounts<N>(Vec<(N, u32)>);

impl<N: AsRef<str>> ToolCounts<N> {
    fn get(&self, name: &str) -> u32 {
        self.0.iter().find(|(tool, _)| tool.as_ref() == name).map_or(0, |(_, count)| *count)
    }

    fn add(&mut self, name: N) {
        match self.0.iter_mut().find(|(tool, _)| tool.as_ref() == name.as_ref()) {
            Some((_, count)) => *count += 1,
            None => self.0.push((name, 1)),
        }
    }
}
