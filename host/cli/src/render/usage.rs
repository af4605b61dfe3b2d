//! The resources that a call or a run used, for a person.

use crate::terminal::quantity;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::RunUsage;

/// Returns the usage of a call in words.
pub(crate) fn call_usage(usage: &Usage) -> String {
    let attempts = match usage.attempts {
        0 => return "nothing ran".to_owned(),
        1 => String::new(),
        more => format!(" in {more} attempts"),
    };
    format!(
        "{} fuel, {}, {}{attempts}",
        fuel(usage),
        quantity::micros(usage.wall_us),
        quantity::bytes(usage.memory_bytes)
    )
}

/// Returns the usage of a run in words.
pub(super) fn run_usage(usage: &RunUsage) -> String {
    format!(
        "{}, {}, {} fuel, {} in tools, {}",
        quantity::count(usage.steps, "turn"),
        quantity::count(usage.calls, "call"),
        fuel(&usage.tools),
        quantity::micros(usage.tools.wall_us),
        quantity::count(usage.tokens.total(), "token"),
    )
}

/// Returns fuel in words, marked if it is a lower bound.
fn fuel(usage: &Usage) -> String {
    let at_least = if usage.at_least { "at least " } else { "" };
    format!("{at_least}{}", quantity::fuel(usage.fuel))
}
