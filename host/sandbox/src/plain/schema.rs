//! The JSON Schema of a shape. Accepted JSON can be converted to a value, except for a number
//! without an exact float.

use super::shape::{Integer, NamedItems, Shape};
use serde_json::{Map, Number, Value, json};

/// The strings for floats that JSON cannot represent.
pub(super) const NAN: &str = "NaN";
pub(super) const INFINITY: &str = "Infinity";
pub(super) const MINUS_INFINITY: &str = "-Infinity";

/// Returns the schema of an object with one member for each parameter.
pub(super) fn of_parameters(parameters: &[(String, Shape)]) -> Value {
    let mut schema = of_fields(parameters);
    // The schema is for a model: a type's name says briefly what the schema spells out.
    if let Some(Value::Object(members)) = schema.get_mut("properties") {
        for (member, (_, shape)) in members.values_mut().zip(parameters) {
            let words = tollgate_agent::text::clean(&shape.to_string(), MAX_WORDS_BYTES);
            member["description"] = Value::from(words);
        }
    }
    schema
}

/// The maximum length of the description of one parameter's type, in bytes.
const MAX_WORDS_BYTES: usize = 200;

/// Returns the schema of the values of a shape.
pub(super) fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(integer) => of_integer(*integer),
        Shape::F32 | Shape::F64 => {
            json!({"anyOf": [{"type": "number"}, {"enum": [NAN, INFINITY, MINUS_INFINITY]}]})
        }
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::List(element) => json!({"type": "array", "items": of(element)}),
        Shape::Tuple(parts) => {
            let items: Vec<Value> = parts.iter().map(of).collect();
            let count = items.len();
            json!({"type": "array", "prefixItems": items, "minItems": count, "maxItems": count})
        }
        Shape::Record(fields) => of_fields(fields),
        Shape::Variant(cases) => of_cases(cases),
        Shape::Enum(names) => {
            json!({"type": "string", "enum": names.iter().map(|(name, ())| name).collect::<Vec<_>>()})
        }
        Shape::Option(inner) if inner.has_null() => nullable(single("some", of(inner))),
        Shape::Option(inner) => nullable(of(inner)),
        Shape::Result(ok, err) => {
            let payload = |of_it: &Option<Box<Shape>>| of_it.as_deref().map_or(json!({"type": "null"}), of);
            json!({"oneOf": [single("ok", payload(ok)), single("err", payload(err))]})
        }
        Shape::Flags(names) => {
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string", "enum": names}})
        }
    }
}

fn of_integer(integer: Integer) -> Value {
    let (least, greatest) = integer.range();
    json!({"type": "integer", "minimum": Number::from_i128(least), "maximum": Number::from_i128(greatest)})
}

fn nullable(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// Returns the schema of an object whose optional members may be omitted.
fn of_fields(fields: &[(String, Shape)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, shape)| (name.clone(), of(shape))).collect();
    let required: Vec<&String> =
        fields.iter().filter(|(_, shape)| !shape.has_null()).map(|(name, _)| name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Returns the schema of cases: the name alone without a payload, otherwise an object with that
/// one member.
fn of_cases(cases: &NamedItems<Option<Shape>>) -> Value {
    let bare: Vec<&str> =
        cases.iter().filter(|(_, payload)| payload.is_none()).map(|(name, _)| name).collect();
    let mut forms = Vec::new();
    if !bare.is_empty() {
        forms.push(json!({"type": "string", "enum": bare}));
    }
    forms.extend(cases.iter().filter_map(|(name, payload)| Some(single(name, of(payload.as_ref()?)))));
    json!({"oneOf": forms})
}

fn single(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": false})
}
