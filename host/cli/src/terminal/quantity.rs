//! Amounts, and the resources that a call or a run used, formatted for people.

use tollgate_agent::outcome::Usage;
use tollgate_agent::run::RunUsage;

/// Formats units of fuel: `950`, `1.2 M`, `20 G`.
pub(crate) fn fuel(units: u64) -> String {
    for (size, letter) in [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")] {
        if units >= size {
            return format!("{} {letter}", short(units, size));
        }
    }
    units.to_string()
}

/// Formats bytes: `512 B`, `64 KiB`, `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    for (size, unit) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if count >= size {
            return format!("{} {unit}", short(count, size));
        }
    }
    format!("{count} B")
}

/// Formats a time in microseconds: `12 us`, `4.1 ms`, `2.5 s`.
pub(crate) fn micros(us: u64) -> String {
    for (size, unit) in [(1_000_000, "s"), (1_000, "ms")] {
        if us >= size {
            return format!("{} {unit}", short(us, size));
        }
    }
    format!("{us} us")
}

/// Formats a time in milliseconds.
pub(crate) fn millis(ms: u64) -> String {
    micros(ms.saturating_mul(1_000))
}

/// Formats a count with its noun: `1 call`, `2 calls`.
pub(crate) fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Returns the usage of a call in words.
pub(crate) fn call_usage(usage: &Usage) -> String {
    let attempts = match usage.attempts {
        0 => return "nothing ran".to_owned(),
        1 => String::new(),
        more => format!(" in {more} attempts"),
    };
    format!("{} fuel, {}, {}{attempts}", fuel_of(usage), micros(usage.wall_us), bytes(usage.memory_bytes))
}

/// Returns the usage of a run in words.
pub(crate) fn run_usage(usage: &RunUsage) -> String {
    format!(
        "{}, {}, {} fuel, {} in tools, {}",
        count(usage.steps, "turn"),
        count(usage.calls, "call"),
        fuel_of(&usage.tools),
        micros(usage.tools.wall_us),
        count(usage.tokens.total(), "token"),
    )
}

/// Returns fuel in words, marked if it is a lower bound.
fn fuel_of(usage: &Usage) -> String {
    let at_least = if usage.at_least { "at least " } else { "" };
    format!("{at_least}{}", fuel(usage.fuel))
}

/// Formats with one decimal below ten, unless it would be a zero.
fn short(amount: u64, size: u64) -> String {
    let tenths = amount / (size / 10).max(1);
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if whole < 10 && tenth > 0 => format!("{whole}.{tenth}"),
        (whole, _) => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!([fuel(950), fuel(1_250_000), fuel(20_000_000_000)], ["950", "1.2 M", "20 G"]);
        assert_eq!([bytes(512), bytes(64 << 20), bytes(1_572_864)], ["512 B", "64 MiB", "1.5 MiB"]);
        assert_eq!([micros(12), micros(4_100), millis(15_000)], ["12 us", "4.1 ms", "15 s"]);
        assert_eq!([count(1_u32, "call"), count(0_u32, "call")], ["1 call", "0 calls"]);
    }
}
