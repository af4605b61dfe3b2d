//! Converts JSON from a model to a function's arguments, exactly. An error names the place where
//! the JSON does not fit.

use super::schema::{INFINITY, MINUS_INFINITY, NAN};
use super::shape::{Integer, NamedItems, Shape};
use serde_json::{Map, Number, Value};
use std::fmt;
use wasmtime::component::Val;

/// The reason why JSON does not fit a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShapeMismatch {
    /// The values would take more room than there is.
    TooLarge,
    /// The place, a JSON Pointer, and the problem there.
    At(String, String),
}

impl ShapeMismatch {
    fn here(problem: impl fmt::Display) -> Self {
        ShapeMismatch::At(String::new(), problem.to_string())
    }

    /// Adds an outer place to the pointer.
    fn within(self, place: impl fmt::Display) -> Self {
        match self {
            ShapeMismatch::At(pointer, problem) => ShapeMismatch::At(format!("/{place}{pointer}"), problem),
            ShapeMismatch::TooLarge => ShapeMismatch::TooLarge,
        }
    }
}

/// Converts JSON to values within a memory limit.
pub(super) struct Lowering {
    left: u64,
}

impl Lowering {
    /// Limits the values to this many bytes of the host's memory.
    pub(super) fn new(bytes: u64) -> Self {
        Self { left: bytes }
    }

    /// Returns the remaining bytes.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns one value per parameter, by name. An absent option becomes `none`.
    pub(super) fn fields(
        &mut self,
        fields: &[(String, Shape)],
        members: &Map<String, Value>,
    ) -> Result<Vec<(String, Val)>, ShapeMismatch> {
        if let Some(unknown) = members.keys().find(|name| !fields.iter().any(|(known, _)| known == *name)) {
            return Err(ShapeMismatch::here(format!("it has no member \"{unknown}\"")));
        }
        let field = |(name, shape): &(String, Shape)| {
            let value = match members.get(name) {
                Some(json) => self.value(shape, json).map_err(|why| why.within(name))?,
                None if shape.has_null() => self.value(shape, &Value::Null)?,
                None => return Err(ShapeMismatch::here(format!("\"{name}\" is missing"))),
            };
            self.take(name.len())?;
            Ok((name.clone(), value))
        };
        fields.iter().map(field).collect()
    }

    /// Returns the value of this shape.
    pub(super) fn value(&mut self, shape: &Shape, json: &Value) -> Result<Val, ShapeMismatch> {
        self.take(size_of::<Val>())?;
        let value = match (shape, json) {
            (Shape::Bool, Value::Bool(is)) => Some(Val::Bool(*is)),
            (Shape::Integer(integer), Value::Number(number)) => to_integer(*integer, number),
            (Shape::F32, json) => to_f32(json).map(Val::Float32),
            (Shape::F64, json) => to_f64(json).map(Val::Float64),
            (Shape::Char, Value::String(text)) => to_char(text).map(Val::Char),
            (Shape::String, Value::String(text)) => {
                self.take(text.len())?;
                Some(Val::String(text.clone()))
            }
            (Shape::List(of), Value::Array(items)) => {
                Some(Val::List(self.elements(items.iter().map(|item| (&**of, item)))?))
            }
            (Shape::Tuple(of), Value::Array(items)) if of.len() == items.len() => {
                Some(Val::Tuple(self.elements(of.iter().zip(items))?))
            }
            (Shape::Record(fields), Value::Object(members)) => {
                Some(Val::Record(self.fields(fields, members)?))
            }
            (Shape::Variant(cases), json) => self.case(cases, json)?,
            (Shape::Enum(names), Value::String(name)) => names.get(name).map(|()| Val::Enum(name.clone())),
            (Shape::Option(of), json) => self.option(of, json)?,
            (Shape::Result(ok, err), Value::Object(one)) if one.len() == 1 => self.result(ok, err, one)?,
            (Shape::Flags(names), Value::Array(set)) => self.flags(names, set)?,
            _ => None,
        };
        value.ok_or_else(|| ShapeMismatch::here(format!("this is not a value of type {shape}")))
    }

    fn elements<'s>(
        &mut self,
        elements: impl Iterator<Item = (&'s Shape, &'s Value)>,
    ) -> Result<Vec<Val>, ShapeMismatch> {
        let element = |(at, (shape, json))| self.value(shape, json).map_err(|why| why.within(at));
        elements.enumerate().map(element).collect()
    }

    fn case(
        &mut self,
        cases: &NamedItems<Option<Shape>>,
        json: &Value,
    ) -> Result<Option<Val>, ShapeMismatch> {
        let (name, payload) = match json {
            Value::String(name) => (name, None),
            Value::Object(one) if one.len() == 1 => match one.iter().next() {
                Some((name, payload)) => (name, Some(payload)),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(shape) = cases.get(name) else { return Ok(None) };
        self.take(name.len())?;
        let payload = match (shape, payload) {
            (None, None) => None,
            (Some(shape), Some(json)) => Some(self.inner(shape, json, name)?),
            _ => return Ok(None),
        };
        Ok(Some(Val::Variant(name.clone(), payload)))
    }

    fn option(&mut self, of: &Shape, json: &Value) -> Result<Option<Val>, ShapeMismatch> {
        let some = match json {
            Value::Null => return Ok(Some(Val::Option(None))),
            Value::Object(one) if of.has_null() && one.len() == 1 => match one.get("some") {
                Some(json) => self.inner(of, json, "some")?,
                None => return Ok(None),
            },
            _ if of.has_null() => return Ok(None),
            json => Box::new(self.value(of, json)?),
        };
        Ok(Some(Val::Option(Some(some))))
    }

    fn result(
        &mut self,
        ok: &Option<Box<Shape>>,
        err: &Option<Box<Shape>>,
        one: &Map<String, Value>,
    ) -> Result<Option<Val>, ShapeMismatch> {
        let (shape, json, name) = match (one.get("ok"), one.get("err")) {
            (Some(json), _) => (ok, json, "ok"),
            (_, Some(json)) => (err, json, "err"),
            _ => return Ok(None),
        };
        let payload = match shape {
            Some(shape) => Some(self.inner(shape, json, name)?),
            None if json.is_null() => None,
            None => return Ok(None),
        };
        Ok(Some(Val::Result(if name == "ok" { Ok(payload) } else { Err(payload) })))
    }

    fn inner(&mut self, shape: &Shape, json: &Value, place: &str) -> Result<Box<Val>, ShapeMismatch> {
        self.value(shape, json).map(Box::new).map_err(|why| why.within(place))
    }

    fn flags(&mut self, names: &[String], set: &[Value]) -> Result<Option<Val>, ShapeMismatch> {
        let mut flags: Vec<String> = Vec::new();
        for flag in set {
            match flag {
                Value::String(flag) if names.contains(flag) && !flags.contains(flag) => {
                    flags.push(flag.clone())
                }
                _ => return Ok(None),
            }
        }
        self.take(flags.len() * size_of::<String>())?;
        Ok(Some(Val::Flags(flags)))
    }

    fn take(&mut self, bytes: usize) -> Result<(), ShapeMismatch> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(ShapeMismatch::TooLarge)?;
        Ok(())
    }
}

fn to_integer(integer: Integer, number: &Number) -> Option<Val> {
    integer.val(whole(number)?)
}

/// Returns the number as an integer; `None` if it has a fraction or is far out of range.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i128() {
        return Some(number);
    }
    // Every float within these bounds that has no fraction is exactly an integer.
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() < 2_f64.powi(64)).then_some(float as i128)
}

/// Returns the float for a number or for a word that represents one. An integer without an exact
/// float is refused, because the executed value would differ from the judged one.
fn to_f64(json: &Value) -> Option<f64> {
    match json {
        Value::Number(number) => {
            let float = number.as_f64()?;
            let exact = number.as_i128().is_none_or(|whole| float as i128 == whole);
            exact.then_some(float)
        }
        Value::String(word) => match word.as_str() {
            NAN => Some(f64::NAN),
            INFINITY => Some(f64::INFINITY),
            MINUS_INFINITY => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the nearest 32-bit float; fractions are rounded. An integer that would change is
/// refused, and so is a number that would become infinite.
fn to_f32(json: &Value) -> Option<f32> {
    let wide = to_f64(json)?;
    let narrow = wide as f32;
    let exact = json.as_number().and_then(Number::as_i128).is_none_or(|whole| narrow as i128 == whole);
    (exact && narrow.is_infinite() == wide.is_infinite()).then_some(narrow)
}

fn to_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lowered(shape: &Shape, json: &Value) -> Option<Val> {
        Lowering::new(1 << 20).value(shape, json).ok()
    }

    #[test]
    fn l9_numbers_become_what_they_are_or_nothing() {
        let u64 = Shape::Integer(Integer::U64);
        assert_eq!(lowered(&u64, &json!(u64::MAX)), Some(Val::U64(u64::MAX)));
        assert_eq!(lowered(&u64, &json!(1e18)), Some(Val::U64(1_000_000_000_000_000_000)));
        assert_eq!(lowered(&u64, &json!(18_446_744_073_709_551_616.0)), None);
        assert_eq!(lowered(&Shape::Integer(Integer::S8), &json!(-129)), None);
        assert_eq!(lowered(&Shape::F32, &json!(0.1)), Some(Val::Float32(0.1)));
        assert_eq!(lowered(&Shape::F32, &json!(16_777_217)), None);
        assert_eq!(lowered(&Shape::F32, &json!(1e39)), None);
        assert_eq!(lowered(&Shape::F32, &json!("Infinity")), Some(Val::Float32(f32::INFINITY)));
        assert_eq!(lowered(&Shape::F64, &json!(u64::MAX)), None);
        assert_eq!(lowered(&Shape::F64, &json!("1")), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let shape = Shape::Record(vec![("list".to_owned(), Shape::List(Box::new(Shape::Char)))]);
        let wrong = Lowering::new(1 << 20).value(&shape, &json!({"list": ["a", "bc"]}));
        assert_eq!(
            wrong,
            Err(ShapeMismatch::At("/list/1".to_owned(), "this is not a value of type char".to_owned()))
        );
        let wrong = Lowering::new(1 << 20).value(&shape, &json!({"list": [], "more": 1}));
        assert_eq!(wrong, Err(ShapeMismatch::At(String::new(), "it has no member \"more\"".to_owned())));
        assert_eq!(
            Lowering::new(100).value(&shape, &json!({"list": ["a", "b"]})),
            Err(ShapeMismatch::TooLarge)
        );
    }
}
