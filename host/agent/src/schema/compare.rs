//! Compares values and numbers as JSON Schema does: `1` equals `1.0`, and the order of members is
//! irrelevant. All work that grows with the values is counted.

use super::meter::{Meter, Stop, as_u64};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

/// Returns whether two values are equal.
pub(super) fn equal(left: &Value, right: &Value, meter: &mut Meter) -> Result<bool, Stop> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => compare(left, right).is_eq(),
        (Value::String(left), Value::String(right)) if left.len() == right.len() => {
            meter.bytes(left.len())?;
            left == right
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (left, right) in left.iter().zip(right) {
                meter.step()?;
                if !equal(left, right, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            equal_members(left, right, meter)?
        }
        _ => false,
    })
}

fn equal_members(
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    meter: &mut Meter,
) -> Result<bool, Stop> {
    for (name, value) in left {
        meter.step()?;
        meter.bytes(name.len())?;
        let Some(other) = right.get(name) else { return Ok(false) };
        if !equal(value, other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether no two elements are equal.
pub(super) fn are_unique(elements: &[Value], meter: &mut Meter) -> Result<bool, Stop> {
    meter.steps(as_u64(elements.len()) / 4)?;
    let mut hashes = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        hashes.push((hash(element, meter)?, index));
    }
    // Sorting takes n log n steps.
    meter.units(as_u64(hashes.len()) * u64::from(hashes.len().max(1).ilog2()))?;
    hashes.sort_unstable();
    for alike in hashes.chunk_by(|(one, _), (other, _)| one == other) {
        for (at, (_, one)) in alike.iter().enumerate() {
            for (_, other) in &alike[at + 1..] {
                meter.step()?;
                if equal(&elements[*one], &elements[*other], meter)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Returns a hash that is the same for equal values.
pub(super) fn hash(value: &Value, meter: &mut Meter) -> Result<u64, Stop> {
    meter.step()?;
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(is) => hasher.write_u8(1 + u8::from(*is)),
        Value::Number(number) => match ExactNumber::of(number) {
            ExactNumber::Integer(number) => hasher.write_i128(number),
            ExactNumber::Float(number) => hasher.write_u64(number.to_bits()),
        },
        Value::String(text) => {
            hasher.write_u8(5);
            write(text, &mut hasher, meter)?;
        }
        Value::Array(elements) => {
            hasher.write_u8(3);
            for element in elements {
                hasher.write_u64(hash(element, meter)?);
            }
        }
        Value::Object(members) => {
            let mut sum = 0_u64;
            for (name, member) in members {
                let mut of_member = DefaultHasher::new();
                write(name, &mut of_member, meter)?;
                of_member.write_u64(hash(member, meter)?);
                sum = sum.wrapping_add(of_member.finish());
            }
            hasher.write_u8(4);
            hasher.write_u64(sum);
        }
    }
    Ok(hasher.finish())
}

fn write(text: &str, hasher: &mut DefaultHasher, meter: &mut Meter) -> Result<(), Stop> {
    meter.bytes(text.len())?;
    hasher.write(text.as_bytes());
    Ok(())
}

/// A number in a form that compares exactly. `Float` holds the numbers that do not fit `i128`.
enum ExactNumber {
    Integer(i128),
    Float(f64),
}

impl ExactNumber {
    fn of(number: &Number) -> Self {
        if let Some(integer) = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)) {
            return Self::Integer(integer);
        }
        let float = number.as_f64().unwrap_or_default();
        match float.fract() == 0.0 && float.abs() < 1e38 {
            true => Self::Integer(float as i128),
            false => Self::Float(float),
        }
    }
}

/// Returns whether a number is whole, such as `2.0`.
pub(super) fn is_integer(number: &Number) -> bool {
    match ExactNumber::of(number) {
        ExactNumber::Integer(_) => true,
        ExactNumber::Float(float) => float.fract() == 0.0,
    }
}

/// Compares two numbers exactly.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (ExactNumber::of(left), ExactNumber::of(right)) {
        (ExactNumber::Integer(left), ExactNumber::Integer(right)) => left.cmp(&right),
        (ExactNumber::Float(left), ExactNumber::Float(right)) => {
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
        (ExactNumber::Integer(left), ExactNumber::Float(right)) => with_float(left, right),
        (ExactNumber::Float(left), ExactNumber::Integer(right)) => with_float(right, left).reverse(),
    }
}

fn with_float(integer: i128, float: f64) -> Ordering {
    let below = float.floor();
    if below.abs() >= 1e38 {
        return if below > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let below_as_integer = below as i128;
    integer.cmp(&below_as_integer).then(if float > below { Ordering::Less } else { Ordering::Equal })
}

/// Returns whether a number is a multiple of another, which must not be 0. Both are compared as
/// decimals, as they are written: `0.3` is a multiple of `0.1`.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (ExactNumber::Integer(number), ExactNumber::Integer(of)) =
        (ExactNumber::of(number), ExactNumber::of(of))
    {
        return of != 0 && number % of == 0;
    }
    if let Some(exact) = divides(&number.to_string(), &of.to_string()) {
        return exact;
    }
    // One is so much larger that a common decimal would not fit.
    let (number, of) = (number.as_f64().unwrap_or_default(), of.as_f64().unwrap_or_default());
    number % of == 0.0
}

/// Returns whether one decimal divides by another; `None` if the calculation does not fit `i128`.
fn divides(number: &str, of: &str) -> Option<bool> {
    let ((number, number_exponent), (of, of_exponent)) = (decimal(number)?, decimal(of)?);
    let lowest = number_exponent.min(of_exponent);
    let scaled = |digits: i128, exponent: i32| {
        digits.checked_mul(10_i128.checked_pow(u32::try_from(exponent - lowest).ok()?)?)
    };
    if number == 0 {
        return Some(true);
    }
    let (number, of) = (scaled(number, number_exponent)?, scaled(of, of_exponent)?);
    (of != 0).then(|| number % of == 0)
}

/// Returns the digits of a decimal and the power of ten to multiply them by.
fn decimal(text: &str) -> Option<(i128, i32)> {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.trim_start_matches('+').parse().ok()?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn number(value: Value) -> Number {
        value.as_number().unwrap().clone()
    }

    #[test]
    fn numbers_compare_exactly() {
        let ascending = [
            json!(-1e300),
            json!(i64::MIN),
            json!(-1.5),
            json!(-1),
            json!(-0.5),
            json!(0),
            json!(0.1),
            json!(1),
            json!(9_007_199_254_740_992.0),
            json!(9_007_199_254_740_993_i64),
            json!(u64::MAX - 1),
            json!(u64::MAX),
            json!(1.8446744073709552e19),
            json!(1e300),
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (place, other) in ascending.iter().enumerate() {
                assert_eq!(
                    compare(&number(one.clone()), &number(other.clone())),
                    at.cmp(&place),
                    "{one} {other}"
                );
            }
        }
        assert_eq!(compare(&number(json!(2.0)), &number(json!(2))), Ordering::Equal);
        assert_eq!(compare(&number(json!(-0.0)), &number(json!(0))), Ordering::Equal);
    }

    #[test]
    fn multiples_are_of_decimals() {
        for (value, of, is) in [
            (json!(0.3), json!(0.1), true),
            (json!(0.35), json!(0.1), false),
            (json!(1_070_468.14), json!(0.01), true),
            (json!(4.0), json!(2), true),
            (json!(7), json!(2), false),
            (json!(u64::MAX), json!(5), true),
            (json!(0), json!(0.7), true),
            (json!(1e-300), json!(1e308), false),
            (json!(3.5), json!(2), false),
        ] {
            assert_eq!(is_multiple(&number(value.clone()), &number(of.clone())), is, "{value} of {of}");
        }
    }

    #[test]
    fn equal_values_hash_alike_and_comparing_counts() {
        let mut meter = Meter::for_value(&json!(null));
        for (one, other, is) in [
            (json!({"a": 1, "b": [2.0]}), json!({"b": [2], "a": 1.0}), true),
            (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 2}), false),
            (json!([0.0]), json!([-0.0]), true),
            (json!(["a", "b"]), json!(["ab"]), false),
            (json!([[]]), json!([{}]), false),
        ] {
            assert_eq!(equal(&one, &other, &mut meter), Ok(is), "{one} {other}");
            assert_eq!(hash(&one, &mut meter) == hash(&other, &mut meter), is, "{one} {other}");
        }
        let before = meter.steps_taken();
        let large = json!(vec![json!({"name": "x".repeat(640)}); 100]);
        assert_eq!(equal(&large, &large.clone(), &mut meter), Ok(true));
        assert!(meter.steps_taken() - before >= 1_200);
        assert_eq!(are_unique(large.as_array().unwrap(), &mut meter), Ok(false));
        assert_eq!(are_unique(&[json!(1), json!("1"), json!(1.5)], &mut meter), Ok(true));
    }
}
