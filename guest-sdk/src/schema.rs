//! JSON Schemas of types, as short as possible: a model pays for each word.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Returns the schema of a tool's arguments. An optional argument is omitted, never
/// `null`.
pub fn arguments_schema<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>();
    WithoutNull.transform(&mut schema);
    let mut schema = schema.to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
    }
    schema
}

/// Returns the schema of a value of a state key or of an answer.
pub fn value_schema<T: JsonSchema>() -> Value {
    generate::<T>().to_value()
}

fn generate<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    BriefTransform.transform(&mut schema);
    schema
}

/// A transform that removes parts without meaning to a model and makes empty schemas
/// explicit.
struct BriefTransform;

impl Transform for BriefTransform {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.as_bool() == Some(true) {
            *schema = Schema::default();
        }
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        object.remove("title");
        if object.get("format").and_then(Value::as_str).is_some_and(is_rust_number) {
            object.remove("format");
        }
        let described_only = object.keys().all(|keyword| keyword == "description" || keyword == "default");
        if described_only {
            object.insert("type".to_owned(), any_type());
        }
    }
}

/// Returns whether a format is the name of one of Rust's number types, which no
/// specification knows.
fn is_rust_number(format: &str) -> bool {
    ["int", "uint", "float", "double"].iter().any(|name| format.starts_with(name))
}

fn any_type() -> Value {
    json!(["object", "array", "string", "number", "boolean", "null"])
}

/// A transform that removes `null` from optional properties: "none" is expressed by
/// omission.
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        let required = schema.get("required").cloned().unwrap_or_default();
        let required: Vec<&str> =
            required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (_, property) in properties.iter_mut().filter(|(name, _)| !required.contains(&name.as_str()))
            {
                drop_null(property);
            }
        }
        transform_subschemas(self, schema);
    }
}

fn drop_null(property: &mut Value) {
    if *property.get("type").unwrap_or(&Value::Null) == any_type() {
        return;
    }
    let Some(property) = property.as_object_mut() else {
        return;
    };
    if property.get("default").is_some_and(Value::is_null) {
        property.remove("default");
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|name| name != "null");
        if types.len() == 1 {
            let only = types.remove(0);
            property.insert("type".to_owned(), only);
        }
    }
    drop_null_alternative(property);
}

/// Replaces `anyOf: [T, null]` by `T`.
fn drop_null_alternative(property: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(alternatives)) = property.get_mut("anyOf") else {
        return;
    };
    alternatives.retain(|alternative| *alternative != json!({"type": "null"}));
    if alternatives.len() != 1 {
        return;
    }
    if let Value::Object(only) = alternatives.remove(0) {
        property.remove("anyOf");
        for (keyword, value) in only {
            property.entry(keyword).or_insert(value);
        }
    }
}
