//! Cleans or rejects the text in an untrusted schema. The model receives the schema as it is, so
//! nothing in it may be invisible to a person who reads it.
//!
//! Explanatory text is cleaned, like every description. Text that decides which values fit (names,
//! `enum`, `const`, patterns) would change its meaning, so it is rejected instead.

use super::error::SchemaError;
use super::{MAX_DESCRIPTION_BYTES, MAX_SCHEMA_DEPTH};
use crate::text::clean;
use serde_json::{Map, Value};

/// Keywords whose text explains the schema.
const EXPLAIN: [&str; 3] = ["description", "title", "$comment"];
/// Keywords whose value explains the schema. All strings within it are cleaned.
const SHOW: [&str; 2] = ["default", "examples"];
/// Keywords with members that the author names, each of them a schema.
const NAME: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// Cleans explanatory text, up to [`MAX_DESCRIPTION_BYTES`] for each string, and checks the rest.
///
/// # Errors
/// A name or string that decides which values fit contains characters that [`clean`] would remove,
/// or the schema nests deeper than [`MAX_SCHEMA_DEPTH`].
pub fn make_readable(schema: &mut Value) -> Result<(), SchemaError> {
    of_schema(schema, 0)
}

fn of_schema(schema: &mut Value, depth: usize) -> Result<(), SchemaError> {
    let Value::Object(map) = schema else { return of_data(schema, &Kind::Decides, depth) };
    bounded(depth)?;
    names(map)?;
    for (keyword, part) in map.iter_mut() {
        match (keyword.as_str(), &mut *part) {
            (word, Value::String(text)) if EXPLAIN.contains(&word) => explain(text),
            (word, _) if SHOW.contains(&word) => of_data(part, &Kind::Explains, depth + 1)?,
            ("enum" | "const", _) => of_data(part, &Kind::Decides, depth + 1)?,
            (word, Value::Object(named)) if NAME.contains(&word) => {
                bounded(depth + 1)?;
                names(named)?;
                named.values_mut().try_for_each(|part| of_schema(part, depth + 2))?;
            }
            (_, Value::Array(parts)) => parts.iter_mut().try_for_each(|part| of_schema(part, depth + 2))?,
            _ => of_schema(part, depth + 1)?,
        }
    }
    Ok(())
}

/// The purpose of the strings in a value.
enum Kind {
    Explains,
    Decides,
}

fn of_data(value: &mut Value, kind: &Kind, depth: usize) -> Result<(), SchemaError> {
    bounded(depth)?;
    match (value, kind) {
        (Value::String(text), Kind::Explains) => explain(text),
        (Value::String(text), Kind::Decides) => readable("text", text)?,
        (Value::Array(items), _) => items.iter_mut().try_for_each(|item| of_data(item, kind, depth + 1))?,
        (Value::Object(map), _) => {
            names(map)?;
            map.values_mut().try_for_each(|part| of_data(part, kind, depth + 1))?;
        }
        (Value::Null | Value::Bool(_) | Value::Number(_), _) => {}
    }
    Ok(())
}

fn explain(text: &mut String) {
    *text = clean(text, MAX_DESCRIPTION_BYTES);
}

fn names(map: &Map<String, Value>) -> Result<(), SchemaError> {
    map.keys().try_for_each(|name| readable("name", name))
}

fn readable(what: &str, text: &str) -> Result<(), SchemaError> {
    if clean(text, usize::MAX) == text {
        return Ok(());
    }
    let begins: String = text.chars().take(80).collect();
    Err(SchemaError(format!(
        "the {what} \"{}\" in the schema contains invisible characters; remove them",
        begins.escape_debug()
    )))
}

fn bounded(depth: usize) -> Result<(), SchemaError> {
    match depth > MAX_SCHEMA_DEPTH {
        true => Err(SchemaError(format!("the schema nests deeper than {MAX_SCHEMA_DEPTH} levels"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const HIDDEN: &str = "a\u{202e}b\u{e0041}\u{200b}c";

    fn read(mut schema: Value) -> Result<Value, String> {
        make_readable(&mut schema).map(|()| schema).map_err(|why| why.to_string())
    }

    #[test]
    fn what_explains_is_cleaned_wherever_it_is() {
        let schema = |text: &str| {
            let words = json!({"description": text, "title": text, "$comment": text, "examples": [[text]]});
            json!({
                "description": text,
                "properties": {"description": words, "title": {"default": {"x": text}}},
                "anyOf": [{"title": text}, {"items": {"not": {"description": text}}}],
                "$defs": {"default": {"description": text}},
            })
        };
        assert_eq!(read(schema(HIDDEN)), Ok(schema("abc")));
        let long = read(json!({"properties": {"a": {"description": "x".repeat(50_000)}}})).unwrap();
        let kept = long["properties"]["a"]["description"].as_str().unwrap();
        assert!(kept.len() <= MAX_DESCRIPTION_BYTES && kept.ends_with("[cut]"));
    }

    #[test]
    fn what_decides_is_refused() {
        for schema in [
            json!({"properties": {HIDDEN: {}}}),
            json!({"properties": {"a": {"enum": ["b", HIDDEN]}}}),
            json!({"properties": {"a": {"enum": [{"description": HIDDEN}]}}}),
            json!({"properties": {"a": {"const": HIDDEN}}}),
            json!({"properties": {"a": {"const": {HIDDEN: 1}}}}),
            json!({"properties": {"a": {"default": {HIDDEN: 1}}}}),
            json!({"properties": {"a": {"pattern": HIDDEN}}}),
            json!({"properties": {"enum": {"const": HIDDEN}}}),
            json!({"required": [HIDDEN]}),
            json!({"$defs": {HIDDEN: {}}}),
            json!({"items": [{"properties": {HIDDEN: {}}}]}),
            json!({HIDDEN: "an unknown keyword"}),
            json!({"x-unknown": {"y": [HIDDEN]}}),
        ] {
            let why = read(schema.clone()).unwrap_err();
            assert!(why.contains("invisible characters"), "{schema}: {why}");
        }
    }

    #[test]
    fn nothing_else_is_changed() {
        const MARKED: &str = "\u{5e9}\u{5bc}\u{5c1}\u{5b8}\u{591}\u{5bd}";
        let schema = json!({
            "type": "object",
            "properties": {
                "größe": {"enum": ["klein", "groß", 1, null]},
                "emoji": {"const": "🙂"},
                "vowels": {"const": MARKED},
            },
            "required": ["größe"],
            "additionalProperties": false,
        });
        assert_eq!(read(schema.clone()), Ok(schema));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..1_000).fold(json!({}), |inner, _| json!({"not": inner}));
        assert!(read(deep).unwrap_err().contains("deeper"));
        let deep = (0..1_000).fold(json!(1), |inner, _| json!([inner]));
        assert!(read(json!({"const": deep})).unwrap_err().contains("deeper"));
    }
}
