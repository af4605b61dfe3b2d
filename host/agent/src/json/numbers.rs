//! Numbers that this host would pass on as others, and numbers of several spellings.

use super::measure::{JsonError, end_of_string};
use serde_json::{Number, Value};

/// Refuses a text, known to be JSON, with a number that does not survive a round trip.
///
/// # Errors
/// A number would be passed on as a different number.
pub fn check_numbers(text: &str) -> Result<(), JsonError> {
    match number_tokens(text).find(|token| !survives(token)) {
        None => Ok(()),
        Some(token) => Err(JsonError(format!(
            "the number {} does not survive a round trip; send it as a string or with fewer digits",
            token.chars().take(40).collect::<String>()
        ))),
    }
}

/// Writes numbers without a fraction as integers, as JSON Schema and people see them: `2.0` becomes
/// `2`, within the range in which a double represents every integer. Readers that distinguish more
/// kinds of numbers than JSON would otherwise accept one spelling and refuse the other.
pub(crate) fn unify_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unify_integers),
        Value::Object(map) => map.values_mut().for_each(unify_integers),
        _ => {}
    }
}

/// Returns the number as an integer. Minus zero is not converted because it would lose its sign.
#[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bounds")]
fn whole(number: f64) -> Option<i64> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= MAX;
    (is_whole && !(number == 0.0 && number.is_sign_negative())).then_some(number as i64)
}

/// Returns the number tokens of a text that is known to be JSON.
fn number_tokens(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = end_of_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    while at < bytes.len()
                        && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                    {
                        at += 1;
                    }
                    return Some(&text[start..at]);
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn survives(token: &str) -> bool {
    if token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(float) = token.parse::<f64>() else {
        return false;
    };
    // Compare with what this host would write, because that is what every other reader sees.
    Number::from_f64(float).is_some_and(|number| decimal(token) == decimal(&number.to_string()))
}

/// Returns a decimal number as its significant digits and the exponent of the last one.
fn decimal(token: &str) -> (String, i64) {
    let token = token.trim_start_matches('-').to_ascii_lowercase();
    let (mantissa, exponent) = token.split_once('e').unwrap_or((&token, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return (String::new(), 0);
    }
    let dropped = (digits.len() - significant.len()) as i64;
    // An exponent that does not fit 64 bits cannot belong to a finite float unless all digits are
    // zero, which is handled above.
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    (significant.to_owned(), exponent - fraction.len() as i64 + dropped)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::parse_exact;

    #[test]
    fn l9_numbers_that_do_not_survive_are_refused() {
        for lossy in [
            "12345678901234567890123",
            "0.1000000000000000055511151231257827",
            "1e400",
            "[9007199254740993.0]",
        ] {
            assert!(parse_exact(lossy).is_err(), "{lossy} must be refused");
        }
        for exact in [
            "0",
            "-0",
            "1.0",
            "1e2",
            "0.1",
            "18446744073709551615",
            "-9223372036854775808",
            "1E-7",
            "5e-324",
            "100000000000000000000",
            "\"12345678901234567890123\"",
            "{\"1e999\":\"\\\"1e999\"}",
        ] {
            assert!(parse_exact(exact).is_ok(), "{exact} must be accepted");
        }
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_was_written() {
        let unified = |text: &str| {
            let mut value = parse_exact(text).unwrap();
            unify_integers(&mut value);
            value.to_string()
        };
        assert_eq!(unified(r#"{"a":[2.0,2e0,-3.0,0.0,7]}"#), r#"{"a":[2,2,-3,0,7]}"#);
        assert_eq!(unified("9007199254740992.0"), "9007199254740992");
        for kept in ["1.5", "-0.0", "1e300", "18446744073709551615"] {
            let value = parse_exact(kept).unwrap();
            assert_eq!(unified(kept), value.to_string(), "{kept}");
        }
    }
}
