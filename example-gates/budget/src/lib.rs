//! `budget`: limits how often each tool may be called in a run.
//!
//! A gate keeps no state between calls. It does not have to count: the host provides
//! the number of calls of the tool that were allowed before this one.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use serde::Deserialize;
use tollgate_gate::{Gate, ProposedCall, Verdict, export_gate};

/// The limits on calls in one run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Limits for single tools, by the tool's name.
    #[serde(default)]
    pub calls: BTreeMap<String, u32>,
    /// The limit for each other tool; unlimited if absent.
    pub each: Option<u32>,
    /// The limit for all tools together; unlimited if absent.
    pub all: Option<u32>,
}

/// The gate.
#[derive(Debug)]
pub struct Budget;

impl Gate for Budget {
    const ID: &'static str = "budget";
    const DESCRIPTION: &'static str = "Limits how often each tool may be called in a run.";
    type Settings = Settings;

    fn check(settings: &Settings) -> Result<(), &'static str> {
        match settings {
            Settings { calls, each: None, all: None } if calls.is_empty() => {
                Err("they set no limit; write calls = { TOOL = 3 }, each = 10 or all = 100")
            }
            _ => Ok(()),
        }
    }

    fn judge(call: &ProposedCall, settings: &Settings) -> Verdict {
        let tool = &call.tool_name;
        let before = call.calls_before;
        let of_tool = settings.calls.get(tool).copied().or(settings.each);
        match (of_tool, settings.all) {
            (Some(most), _) if before.of_tool >= most => Verdict::deny(format!(
                "'{tool}' may be called {most} times in a run, and has been. Continue without it."
            )),
            (_, Some(most)) if before.in_run >= most => Verdict::deny(format!(
                "A run may call tools {most} times, and this run has. Answer with what you have."
            )),
            _ => Verdict::Allow,
        }
    }
}

export_gate!(Budget);

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_gate::{CallsBefore, json};

    fn settings() -> Settings {
        Settings { calls: [(String::from("search"), 2)].into(), each: Some(3), all: Some(5) }
    }

    fn judged(tool: &str, of_tool: u32, in_run: u32) -> Verdict {
        let call = ProposedCall::for_test(tool, json!({}));
        Budget::judge(&call.with_calls_before(CallsBefore { of_tool, in_run }), &settings())
    }

    #[test]
    fn a_tool_may_be_called_as_often_as_its_budget_says() {
        assert_eq!(judged("search", 1, 1), Verdict::Allow);
        assert!(matches!(judged("search", 2, 2), Verdict::Deny(why) if why.contains("2 times")));
        assert_eq!(judged("other", 2, 4), Verdict::Allow);
        assert!(matches!(judged("other", 3, 4), Verdict::Deny(why) if why.contains("3 times")));
    }

    #[test]
    fn all_tools_together_have_a_budget_too() {
        assert!(matches!(judged("other", 0, 5), Verdict::Deny(why) if why.contains("5 times")));
    }

    #[test]
    fn settings_that_bound_nothing_are_refused() {
        assert!(Budget::check(&Settings::default()).is_err());
        assert!(Budget::check(&settings()).is_ok());
    }
}
