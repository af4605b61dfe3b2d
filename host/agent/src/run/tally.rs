//! How many calls of a run the gates let through: gates remember nothing, so a
//! budget's count is the host's.

use super::call::Call;
use crate::gate::CallsBefore;
use std::collections::BTreeMap;

/// Counts of the calls that ran, or run.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    of_tool: BTreeMap<String, u32>,
    in_run: u32,
}

impl Tally {
    /// The call was let through; it counts once, however often that happens.
    pub(super) fn count(&mut self, call: &mut Call) {
        if !std::mem::replace(&mut call.counted, true) {
            *self.of_tool.entry(call.tool_name.clone()).or_default() += 1;
            self.in_run += 1;
        }
    }

    /// For each of these calls in order, how many others were let through once
    /// those that stand before it are.
    pub(super) fn before<'a>(
        &'a self,
        calls: impl IntoIterator<Item = &'a Call>,
    ) -> impl Iterator<Item = CallsBefore> {
        let mut fresh_of_tool: BTreeMap<&str, u32> = BTreeMap::new();
        let mut fresh = 0;
        calls.into_iter().map(move |call| {
            let itself = u32::from(call.counted);
            let fresh_here = fresh_of_tool.entry(&call.tool_name).or_default();
            let counted = self.of_tool.get(&call.tool_name).copied().unwrap_or(0);
            let before =
                CallsBefore { of_tool: counted + *fresh_here - itself, in_run: self.in_run + fresh - itself };
            *fresh_here += 1 - itself;
            fresh += 1 - itself;
            before
        })
    }
}
