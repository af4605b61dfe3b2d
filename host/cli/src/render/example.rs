//! Example arguments for a tool, made from its schema. Defaults and names in it are the tool's own
//! words, so they are quoted for the shell in which a person may type them.

use crate::terminal::text::shown_line;
use serde_json::{Map, Value, json};
use tollgate_agent::text::quoted;

/// The maximum length of an example, in characters.
const MAX_CHARS: usize = 400;

/// Returns example arguments as one word of a shell. If they are longer than [`MAX_CHARS`], or
/// contain invisible ones, they are `{...}`.
pub(crate) fn word(schema: &Value) -> String {
    let text = arguments(schema).to_string();
    let text = if shown_line(&text, MAX_CHARS) == text { text } else { "{...}".to_owned() };
    quoted(&text)
}

/// Returns an object with every required property, or with the first property if none is required.
fn arguments(schema: &Value) -> Value {
    let no_properties = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let chosen = match required.as_slice() {
        [] => properties.keys().take(1).map(String::as_str).collect(),
        required => required.to_vec(),
    };
    let values =
        chosen.into_iter().map(|name| (name.to_owned(), properties.get(name).map_or(json!("..."), value)));
    Value::Object(values.collect())
}

fn value(schema: &Value) -> Value {
    let first = |key: &str| schema.get(key).and_then(|list| list.get(0)).cloned();
    if let Some(given) =
        schema.get("default").cloned().or_else(|| first("examples")).or_else(|| first("enum"))
    {
        return given;
    }
    match kind(schema) {
        Some("string") if schema.get("maxLength").and_then(Value::as_u64).is_some_and(|most| most < 3) => {
            json!("a")
        }
        Some("string") => json!("..."),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => {
            let items = schema.get("prefixItems").and_then(Value::as_array);
            items.into_iter().flatten().map(value).collect()
        }
        Some("object") => arguments(schema),
        _ => first("anyOf").or_else(|| first("oneOf")).map_or(json!("..."), |form| value(&form)),
    }
}

/// Returns the type in a schema; of several, the first that is not `null`.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_properties_are_in_an_example() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "times": {"type": "integer", "minimum": 0},
                "loud": {"type": "boolean"},
            },
            "required": ["name", "times"],
        });
        assert_eq!(arguments(&schema), json!({"name": "...", "times": 0}));
    }

    #[test]
    fn an_example_follows_nested_schemas() {
        let of = |schema: Value| arguments(&json!({"properties": {"of": schema}}))["of"].clone();
        let record =
            json!({"type": "object", "properties": {"unit": {"enum": ["m", "s"]}}, "required": ["unit"]});
        assert_eq!(of(record.clone()), json!({"unit": "m"}));
        assert_eq!(of(json!({"anyOf": [record, {"type": "null"}]})), json!({"unit": "m"}));
        let pair = json!({"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "string", "maxLength": 1}]});
        assert_eq!(of(pair), json!([true, "a"]));
    }

    #[test]
    fn z14_an_example_is_one_word_of_a_shell_whatever_the_tool_says() {
        let of = |default: &str| word(&json!({"properties": {"a": {"default": default}}}));
        assert_eq!(of("b"), r#"'{"a":"b"}'"#);
        for default in ["'; touch owned; '", "$(touch owned)", "`touch owned`", "'\''", "\\"] {
            let typed = format!("printf %s {}", of(default));
            let said = std::process::Command::new("sh").args(["-c", &typed]).output().unwrap();
            let said: Value = serde_json::from_slice(&said.stdout).unwrap();
            assert_eq!(said, json!({"a": default}), "{typed}");
        }
        for default in ["\u{202e}", "\u{9b}2J", &"x".repeat(1_000)] {
            assert_eq!(of(default), "'{...}'");
        }
        assert_eq!(word(&json!({"properties": {"'": {}}})), r#"'{"'\''":"..."}'"#);
    }

    #[test]
    fn one_property_is_in_an_example_if_none_is_required() {
        let schema = json!({"properties": {"text": {"type": ["null", "string"]}}});
        assert_eq!(arguments(&schema), json!({"text": "..."}));
        assert_eq!(arguments(&json!({"type": "object"})), json!({}));
    }
}
