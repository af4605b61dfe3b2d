//! The resources that a call used, for a person.

use crate::terminal::quantity;
use tollgate_agent::outcome::Usage;

/// Returns the usage of a call in words.
pub(crate) fn used(usage: &Usage) -> String {
    let attempts = match usage.attempts {
        0 => return "nothing ran".to_owned(),
        1 => String::new(),
        more => format!(" in {more} attempts"),
    };
    let at_least = if usage.at_least { "at least " } else { "" };
    format!(
        "{at_least}{} fuel, {}, {}{attempts}",
        quantity::fuel(usage.fuel),
        quantity::micros(usage.wall_us),
        quantity::bytes(usage.memory_bytes)
    )
}
