//! Converts a function's results to JSON for the model. Only the payload bits of a NaN are lost.

use super::schema::{INFINITY, MINUS_INFINITY, NAN};
use super::shape::Shape;
use serde_json::{Map, Value, json};
use tollgate_agent::json::Measure;
use wasmtime::component::Val;

/// Returns the JSON of a value of this shape; `None` if it has another shape, which the engine
/// prevents.
pub(super) fn lift(shape: &Shape, val: Val) -> Option<Value> {
    Some(match (shape, val) {
        (Shape::Bool, Val::Bool(boolean)) => Value::Bool(boolean),
        (Shape::Integer(_), val) => integer(&val)?,
        (Shape::F32, Val::Float32(float)) => from_f32(float),
        (Shape::F64, Val::Float64(float)) => from_f64(float),
        (Shape::Char, Val::Char(character)) => Value::String(character.to_string()),
        (Shape::String, Val::String(text)) => Value::String(text),
        (Shape::List(of), Val::List(elements)) => {
            elements.into_iter().map(|element| lift(of, element)).collect::<Option<_>>()?
        }
        (Shape::Tuple(of), Val::Tuple(parts)) => {
            of.iter().zip(parts).map(|(shape, part)| lift(shape, part)).collect::<Option<_>>()?
        }
        (Shape::Record(of), Val::Record(fields)) => {
            let members =
                of.iter().zip(fields).map(|((_, shape), (name, val))| Some((name, lift(shape, val)?)));
            Value::Object(members.collect::<Option<_>>()?)
        }
        (Shape::Variant(cases), Val::Variant(name, payload)) => match (cases.get(&name)?, payload) {
            (None, None) => Value::String(name),
            (Some(shape), Some(payload)) => single(name, lift(shape, *payload)?),
            _ => return None,
        },
        (Shape::Enum(_), Val::Enum(name)) => Value::String(name),
        (Shape::Option(_), Val::Option(None)) => Value::Null,
        (Shape::Option(of), Val::Option(Some(some))) if of.has_null() => single("some", lift(of, *some)?),
        (Shape::Option(of), Val::Option(Some(some))) => lift(of, *some)?,
        (Shape::Result(ok, _), Val::Result(Ok(payload))) => {
            single("ok", lift_payload(ok.as_deref(), payload)?)
        }
        (Shape::Result(_, err), Val::Result(Err(payload))) => {
            single("err", lift_payload(err.as_deref(), payload)?)
        }
        (Shape::Flags(_), Val::Flags(set)) => json!(set),
        _ => return None,
    })
}

/// Computes the size of a value's JSON before it is created, or an upper bound.
pub(super) fn measure(val: &Val) -> Measure {
    let mut measure = Measure::default();
    add(val, &mut measure);
    measure
}

fn add(val: &Val, measure: &mut Measure) {
    match val {
        Val::String(text) => measure.add_text(text.len()),
        Val::List(items) | Val::Tuple(items) => {
            measure.add_list();
            items.iter().for_each(|item| add(item, measure));
        }
        Val::Record(fields) => {
            measure.add_object();
            for (name, field) in fields {
                measure.add_key(name.len());
                add(field, measure);
            }
        }
        Val::Variant(name, None) | Val::Enum(name) => measure.add_text(name.len()),
        Val::Variant(name, Some(payload)) => add_single(name, payload, measure),
        Val::Option(Some(payload)) => add_single("some", payload, measure),
        Val::Result(Ok(Some(payload))) => add_single("ok", payload, measure),
        Val::Result(Err(Some(payload))) => add_single("err", payload, measure),
        Val::Flags(names) => {
            measure.add_list();
            names.iter().for_each(|name| measure.add_text(name.len()));
        }
        Val::Result(Ok(None) | Err(None)) => {
            measure.add_object();
            measure.add_text("err".len());
        }
        // A float may become this text. Numbers, booleans and null take no more memory.
        _ => measure.add_text("-Infinity".len()),
    }
}

/// Measures an object with one member. If an option is not such an object, this overestimates.
fn add_single(name: &str, payload: &Val, measure: &mut Measure) {
    measure.add_object();
    measure.add_key(name.len());
    add(payload, measure);
}

/// Returns the JSON of the payload of an `ok` or an `err`; null if there is none.
pub(super) fn lift_payload(shape: Option<&Shape>, payload: Option<Box<Val>>) -> Option<Value> {
    match (shape, payload) {
        (None, None) => Some(Value::Null),
        (Some(shape), Some(payload)) => lift(shape, *payload),
        _ => None,
    }
}

/// Returns an object with one member.
fn single(name: impl Into<String>, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.into(), value)]))
}

fn integer(val: &Val) -> Option<Value> {
    Some(match val {
        Val::S8(number) => Value::from(*number),
        Val::U8(number) => Value::from(*number),
        Val::S16(number) => Value::from(*number),
        Val::U16(number) => Value::from(*number),
        Val::S32(number) => Value::from(*number),
        Val::U32(number) => Value::from(*number),
        Val::S64(number) => Value::from(*number),
        Val::U64(number) => Value::from(*number),
        _ => return None,
    })
}

fn from_f64(float: f64) -> Value {
    let word = match float {
        float if float.is_nan() => NAN,
        f64::INFINITY => INFINITY,
        f64::NEG_INFINITY => MINUS_INFINITY,
        float => return Value::from(float),
    };
    Value::from(word)
}

/// Converts a fraction by its shortest digits that read back as the same float: 0.1, not the
/// seventeen digits of the equal 64-bit float. A whole number is converted exactly, because the
/// shortest digits of a large one are a different whole number.
fn from_f32(float: f32) -> Value {
    if float.is_finite()
        && float.fract() != 0.0
        && let Ok(short) = float.to_string().parse::<f64>()
        && short as f32 == float
    {
        return Value::from(short);
    }
    from_f64(f64::from(float))
}
