//! K2 and K3: the schema comes from the types, the descriptions from the comments.

use crate::{call, schema};
use std::collections::{BTreeMap, HashMap};
use tollgate_sdk::{Value, arguments_schema, data, json, tool, value_schema};

/// Takes one of each.
#[tool]
#[allow(clippy::too_many_arguments)]
fn scalars(
    small: u8,
    whole: i64,
    count: usize,
    share: f64,
    text: String,
    letter: char,
    yes: bool,
    borrowed: &str,
) -> String {
    format!("{small}{whole}{count}{share}{text}{letter}{yes}{borrowed}")
}

#[test]
fn k2_scalars() {
    assert_eq!(
        schema(&scalars {}),
        json!({
            "type": "object",
            "properties": {
                "small": {"type": "integer", "minimum": 0, "maximum": 255},
                "whole": {"type": "integer"},
                "count": {"type": "integer", "minimum": 0},
                "share": {"type": "number"},
                "text": {"type": "string"},
                "letter": {"type": "string", "minLength": 1, "maxLength": 1},
                "yes": {"type": "boolean"},
                "borrowed": {"type": "string"},
            },
            "required": [
                "small", "whole", "count", "share", "text", "letter", "yes", "borrowed"
            ],
            "additionalProperties": false,
        })
    );
}

/// Takes what is bounded.
#[tool]
fn bounded(
    #[schemars(range(min = 1, max = 6))] pips: u32,
    #[default = 1.5]
    #[schemars(range(min = -0.5))]
    share: f64,
    #[schemars(length(max = 8), example = &"six")] word: &str,
    #[schemars(regex(pattern = "^[a-z]+$"))] letters: &str,
    #[schemars(length(min = 1), inner(range(max = 9)))] digits: Vec<u8>,
    #[schemars(extend("multipleOf" = 5))] price: u32,
) -> String {
    format!("{pips}{share}{word}{letters}{digits:?}{price}")
}

#[test]
fn k2_bounds() {
    let schema = schema(&bounded {});
    assert_eq!(schema["properties"]["pips"], json!({"type": "integer", "minimum": 1, "maximum": 6}));
    assert_eq!(schema["properties"]["share"], json!({"type": "number", "minimum": -0.5, "default": 1.5}));
    assert_eq!(schema["properties"]["word"], json!({"type": "string", "maxLength": 8, "examples": ["six"]}));
    assert_eq!(schema["properties"]["letters"], json!({"type": "string", "pattern": "^[a-z]+$"}));
    let digit = json!({"type": "integer", "minimum": 0, "maximum": 9});
    assert_eq!(schema["properties"]["digits"], json!({"type": "array", "items": digit, "minItems": 1}));
    assert_eq!(schema["properties"]["price"], json!({"type": "integer", "minimum": 0, "multipleOf": 5}));
}

#[data]
struct Address {
    /// The street of the house.
    street: String,
    number: Option<u16>,
}

#[data]
enum Size {
    Small,
    Large,
}

#[data]
#[serde(rename_all = "snake_case")]
enum Shape {
    /// A point has no extent.
    Point,
    Circle {
        radius: f64,
    },
    Square(f64),
}

/// Takes what is made of others.
#[tool]
#[allow(clippy::too_many_arguments)]
fn compound(
    names: Vec<String>,
    parts: &[u8],
    ages: BTreeMap<String, u8>,
    home: Address,
    size: Size,
    shape: Shape,
    pair: (String, i32),
    anything: Value,
    free: HashMap<String, Value>,
) -> usize {
    let _ = (home.street, home.number, size, shape, pair, anything);
    names.len() + parts.len() + ages.len() + free.len()
}

#[test]
fn k2_lists_maps_and_tuples() {
    let schema = schema(&compound {});
    let properties = &schema["properties"];
    assert_eq!(properties["names"], json!({"type": "array", "items": {"type": "string"}}));
    assert_eq!(properties["parts"]["items"]["type"], "integer");
    assert_eq!(
        properties["ages"],
        json!({
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 255},
        })
    );
    assert_eq!(
        properties["pair"],
        json!({
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "minItems": 2,
            "maxItems": 2,
        })
    );
}

#[test]
fn k2_structs_are_written_where_they_stand() {
    assert_eq!(
        schema(&compound {})["properties"]["home"],
        json!({
            "type": "object",
            "properties": {
                "street": {"type": "string", "description": "The street of the house."},
                "number": {"type": "integer", "minimum": 0, "maximum": 65535},
            },
            "required": ["street"],
        })
    );
}

#[test]
fn k2_enums_are_enum_or_one_of() {
    let schema = schema(&compound {});
    assert_eq!(schema["properties"]["size"], json!({"type": "string", "enum": ["Small", "Large"]}));
    let shape = &schema["properties"]["shape"]["oneOf"];
    assert_eq!(
        shape[0],
        json!({"type": "string", "const": "point", "description": "A point has no extent."})
    );
    assert_eq!(shape[1]["properties"]["circle"]["properties"]["radius"]["type"], "number");
    assert_eq!(shape[2]["properties"]["square"]["type"], "number");
}

#[test]
fn k2_any_json_is_said_to_be_any_json() {
    let any = json!({"type": ["object", "array", "string", "number", "boolean", "null"]});
    let schema = schema(&compound {});
    assert_eq!(schema["properties"]["anything"], any);
    assert_eq!(schema["properties"]["free"]["additionalProperties"], any);
    assert_eq!(value_schema::<Vec<Value>>()["items"], any);
}

/// Takes what may be left out.
#[tool]
fn optional(
    number: Option<i64>,
    list: Option<Vec<u8>>,
    home: Option<Address>,
    size: Option<Size>,
    shape: Option<Shape>,
    anything: Option<Value>,
) -> Vec<bool> {
    vec![
        number.is_some(),
        list.is_some(),
        home.is_some(),
        size.is_some(),
        shape.is_some(),
        anything.is_some(),
    ]
}

#[test]
fn k2_an_option_is_optional_and_its_inner_type_stays() {
    let schema = schema(&optional {});
    assert_eq!(schema.get("required"), None);
    let properties = &schema["properties"];
    assert_eq!(properties["number"], json!({"type": "integer"}));
    assert_eq!(properties["list"]["type"], "array");
    assert_eq!(properties["list"]["items"]["type"], "integer");
    assert_eq!(properties["home"]["type"], "object");
    assert_eq!(properties["home"]["required"], json!(["street"]));
    assert_eq!(properties["size"], json!({"type": "string", "enum": ["Small", "Large"]}));
    assert_eq!(properties["shape"]["oneOf"].as_array().unwrap().len(), 3);
}

#[test]
fn k2_what_is_optional_may_be_left_out_or_null() {
    let none = json!([false, false, false, false, false, false]);
    assert_eq!(call(&optional {}, &json!({})).unwrap().result.data(), none);
    assert_eq!(call(&optional {}, &json!({"number": null})).unwrap().result.data(), none);
    let given = json!({"number": 1, "home": {"street": "Elm"}, "size": "Small"});
    assert_eq!(
        call(&optional {}, &given).unwrap().result.data(),
        json!([true, false, true, true, false, false])
    );
}

const LIMIT: usize = 7;

/// Takes what has a default.
#[tool]
#[allow(clippy::too_many_arguments)]
fn defaults(
    #[default = 5] number: i64,
    #[default = -3] negative: f64,
    #[default = "en"] language: String,
    #[default = "de"] borrowed: &str,
    #[default = LIMIT * 2] limit: usize,
    #[default = Size::Large] size: Size,
    #[default = vec![1, 2]] list: &[u8],
    #[default] yes: bool,
    #[default = 9] maybe: Option<u8>,
) -> Value {
    json!([number, negative, language, borrowed, limit, size, list, yes, maybe])
}

#[test]
fn k2_defaults_are_stated_and_applied() {
    let schema = schema(&defaults {});
    assert_eq!(schema.get("required"), None);
    let stated: Vec<Value> =
        ["number", "negative", "language", "borrowed", "limit", "size", "list", "yes", "maybe"]
            .iter()
            .map(|name| schema["properties"][name]["default"].clone())
            .collect();
    let values = json!([5, -3.0, "en", "de", 14, "Large", [1, 2], false, 9]);
    assert_eq!(Value::from(stated), values);
    assert_eq!(call(&defaults {}, &json!({})).unwrap().result.data(), values);
}

#[data]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

/// Takes what contains itself.
#[tool]
fn recursive(tree: Tree) -> String {
    format!("{}{}", tree.name, tree.children.len())
}

#[test]
fn k2_references_stand_only_for_what_contains_itself() {
    let schema = schema(&recursive {});
    assert!(schema.to_string().contains("#/$defs/Tree"), "{schema}");
    let flat = self::schema(&compound {}).to_string();
    assert!(!flat.contains("$ref") && !flat.contains("$defs"), "{flat}");
}

#[test]
fn k2_no_schema_is_empty_and_none_has_a_title() {
    for tool in
        [&scalars {} as &dyn tollgate_sdk::Tool, &compound {}, &optional {}, &defaults {}, &recursive {}]
    {
        let schema = schema(tool);
        assert_eq!(schema["type"], "object");
        assert_eq!(schema.get("$schema"), None);
        check(&schema);
    }
}

/// Checks a schema and all schemas in it.
fn check(schema: &Value) {
    let Some(schema) = schema.as_object() else {
        assert_eq!(schema, &json!(false), "only `false` is not an object");
        return;
    };
    assert!(!schema.is_empty() && !schema.contains_key("title"), "{schema:?}");
    for (keyword, value) in schema {
        match keyword.as_str() {
            "properties" | "$defs" => value.as_object().unwrap().values().for_each(check),
            "items" | "additionalProperties" => check(value),
            "oneOf" | "anyOf" | "prefixItems" => value.as_array().unwrap().iter().for_each(check),
            _ => {}
        }
    }
}

#[test]
fn k2_a_property_called_title_stays() {
    #[data]
    struct Book {
        title: String,
    }
    assert_eq!(arguments_schema::<Book>()["properties"], json!({"title": {"type": "string"}}));
    assert_eq!(Book { title: "Emma".to_owned() }.title, "Emma");
}

/// Cuts a text
/// into pieces.
///
/// This is for people.
///
/// :param text: The text to cut,
///     all of it.
/// :param at: The place.
#[tool]
fn sphinx(text: &str, at: usize) -> usize {
    text.len() + at
}

/// Cuts a text.
///
/// Args:
///     text (str): The text to cut.
///     at: The place.
///
/// Returns:
///     The pieces.
#[tool]
fn google(text: &str, at: usize) -> usize {
    text.len() + at
}

/// Cuts a text.
///
/// * `text` - The text to cut.
/// * at - The place.
#[tool]
fn listed(text: &str, at: usize) -> usize {
    text.len() + at
}

/// Cuts a text.
#[tool]
fn beside(
    /// The text to cut.
    text: &str,
    /// The place.
    at: usize,
) -> usize {
    text.len() + at
}

#[data]
#[serde(deny_unknown_fields)]
struct Cut {
    /// The text to cut.
    text: String,
    /// The place.
    at: usize,
}

/// Cuts a text.
#[tool]
fn whole(#[args] cut: Cut) -> usize {
    cut.text.len() + cut.at
}

#[test]
fn k3_the_first_paragraph_is_the_description() {
    use tollgate_sdk::Tool;
    assert_eq!(sphinx {}.descriptor().description, "Cuts a text into pieces.");
}

#[test]
fn k3_parameters_are_described_in_three_ways_and_where_they_stand() {
    let described = |tool: &dyn tollgate_sdk::Tool| {
        let schema = schema(tool);
        let text = |name: &str| schema["properties"][name]["description"].clone();
        (text("text"), text("at"))
    };
    assert_eq!(described(&sphinx {}), (json!("The text to cut, all of it."), json!("The place.")));
    let expected = (json!("The text to cut."), json!("The place."));
    assert_eq!(described(&google {}), expected);
    assert_eq!(described(&listed {}), expected);
    assert_eq!(described(&beside {}), expected);
    assert_eq!(described(&whole {}), expected);
}

#[test]
fn k3_a_struct_of_arguments_is_the_schema() {
    assert_eq!(schema(&whole {}), schema(&google {}));
    assert_eq!(call(&whole {}, &json!({"text": "abc", "at": 1})).unwrap().result.data(), json!(4));
}
