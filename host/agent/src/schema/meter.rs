//! Limits the work of one check by counting its steps.

use serde_json::Value;

/// The steps that a check of any value may take.
pub const BASE_STEPS: u64 = 20_000;
/// The additional steps for each part of the value: an element, a member, or 64 bytes of text.
pub const STEPS_PER_PART: u64 = 100;
/// The most steps that any check may take: less than a second of one core.
pub const MAX_STEPS: u64 = 10_000_000;
/// The maximum number of steps on a thread on which other work waits. They take a few milliseconds.
pub(crate) const SHORT_STEPS: u64 = 50_000;

/// The bytes of text that count as one part, and whose comparison counts as one step.
const PART_BYTES: usize = 64;
/// The fractions of a step, for work that is done byte by byte or state by state.
const UNITS_PER_STEP: u64 = 30;
const UNITS_PER_STATE: u64 = 3;
/// Parts beyond this number allow no more steps.
const COUNTED_PARTS: u64 = (MAX_STEPS - BASE_STEPS) / STEPS_PER_PART;

/// The reason why a check ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its steps were used up.
    TooMuchWork,
    /// It found as many violations as are reported.
    EnoughFound,
}

/// The steps that are left to one check.
///
/// One step is a subschema applied to one part of a value, one name looked up, 64 bytes of text
/// compared or hashed, or 10 visited states of a pattern. Measured with optimization, a step takes
/// 10 to 90 ns on schemas and values that are built to be expensive.
#[derive(Debug)]
pub(super) struct Meter {
    units: u64,
    at_first: u64,
}

impl Meter {
    /// Creates the meter for a check of this value.
    pub(super) fn for_value(value: &Value) -> Self {
        Self::with_steps(bound(parts(value)))
    }

    /// Creates a meter with this many steps.
    pub(super) fn with_steps(steps: u64) -> Self {
        let units = steps.saturating_mul(UNITS_PER_STEP);
        Self { units, at_first: units }
    }

    /// Returns the number of steps taken, with a started step counted whole.
    pub(super) fn steps_taken(&self) -> u64 {
        (self.at_first - self.units).div_ceil(UNITS_PER_STEP)
    }

    /// Spends one step.
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        self.units(UNITS_PER_STEP)
    }

    /// Spends several steps.
    pub(super) fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        self.units(steps.saturating_mul(UNITS_PER_STEP))
    }

    /// Spends the steps for comparing, counting or hashing this many bytes.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<(), Stop> {
        self.units(as_u64(bytes) * UNITS_PER_STEP / as_u64(PART_BYTES))
    }

    /// Spends the steps for visiting this many states of a pattern.
    pub(super) fn visit(&mut self, states: u64) -> Result<(), Stop> {
        self.units(states.saturating_mul(UNITS_PER_STATE))
    }

    /// Spends fractions of a step.
    pub(super) fn units(&mut self, units: u64) -> Result<(), Stop> {
        let left = self.units.checked_sub(units);
        self.units = left.unwrap_or(0);
        left.map(drop).ok_or(Stop::TooMuchWork)
    }
}

/// Returns the most steps that a check of a value with this many parts may take.
pub(super) fn bound(parts: u64) -> u64 {
    BASE_STEPS.saturating_add(STEPS_PER_PART.saturating_mul(parts)).min(MAX_STEPS)
}

/// Counts the parts of a value, including itself. Counting stops when more parts would allow no
/// more steps.
pub(crate) fn parts(value: &Value) -> u64 {
    let mut counted = 0;
    count(value, &mut counted);
    counted
}

fn count(value: &Value, counted: &mut u64) {
    *counted += 1;
    if *counted > COUNTED_PARTS {
        return;
    }
    match value {
        Value::String(text) => *counted += of_text(text.len()),
        Value::Array(elements) => {
            for element in elements {
                if *counted > COUNTED_PARTS {
                    return;
                }
                count(element, counted);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if *counted > COUNTED_PARTS {
                    return;
                }
                *counted += of_text(name.len());
                count(member, counted);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Estimates from above, without parsing, the number of parts of the value of a JSON text.
pub(crate) fn parts_of_text(text: &str) -> u64 {
    let begins = text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    1 + as_u64(begins) + of_text(text.len())
}

fn of_text(bytes: usize) -> u64 {
    as_u64(bytes / PART_BYTES)
}

pub(super) fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_has_at_least_the_parts_of_its_value() {
        let long = "x".repeat(1_000);
        for value in [
            json!(1),
            json!([[[[]]]]),
            json!({"a": {"b": [1, 2, {}]}, "c": long}),
            json!({ long.as_str(): [long] }),
        ] {
            assert!(parts_of_text(&value.to_string()) >= parts(&value), "{value}");
        }
    }

    #[test]
    fn counting_stops_where_it_changes_nothing() {
        assert_eq!(bound(parts(&json!(vec![0; 3_000_000]))), MAX_STEPS);
        assert_eq!(bound(parts(&json!([1, 2]))), BASE_STEPS + 3 * STEPS_PER_PART);
    }
}
