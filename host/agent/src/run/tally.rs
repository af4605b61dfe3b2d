//! How many calls of a run the gates let through: gates remember nothing, so a
//! budget's count is the host's.

use super::call::Call;
use crate::gate::CallsBefore;
use smol_str::SmolStr;

/// Counts of the calls that ran, or run.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// A run calls few different tools, so they are kept in a list.
    of_tool: Vec<(SmolStr, u32)>,
    in_run: u32,
}

impl Tally {
    /// The call was let through; it counts once, however often that happens.
    pub(super) fn count(&mut self, call: &mut Call) {
        if !std::mem::replace(&mut call.counted, true) {
            match self.of_tool.iter_mut().find(|(name, _)| *name == call.tool_name) {
                Some((_, count)) => *count += 1,
                None => self.of_tool.push((call.tool_name.clone(), 1)),
            }
            self.in_run += 1;
        }
    }

    /// For each of these calls in order, how many others were let through once
    /// those that stand before it are.
    pub(super) fn before<'a>(
        &'a self,
        calls: impl IntoIterator<Item = &'a Call>,
    ) -> impl Iterator<Item = CallsBefore> {
        // The calls that stand before, and do not count yet.
        let mut fresh: Vec<&str> = Vec::new();
        calls.into_iter().map(move |call| {
            let name = call.tool_name.as_str();
            let itself = u32::from(call.counted);
            let fresh_here = count(fresh.iter().filter(|other| **other == name));
            let counted = self.of_tool.iter().find(|(tool, _)| tool == name).map_or(0, |(_, count)| *count);
            let before = CallsBefore {
                of_tool: counted + fresh_here - itself,
                in_run: self.in_run + count(fresh.iter()) - itself,
            };
            if !call.counted {
                fresh.push(name);
            }
            before
        })
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
