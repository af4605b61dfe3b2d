//! Tests of the tour's description in each language.

use super::SOURCES;
use crate::all_equal;
use crate::built::{LANGUAGES, compiled_from, load};
use serde_json::{Value, json};

/// Returns the schema in a form that all languages can produce: references to definitions are
/// resolved, and parts without use for a model are removed: the type beside a list of values,
/// `title`, `format`, and empty lists of required members. Members are sorted.
fn normalized(schema: &Value, definitions: &Value) -> Value {
    let Some(object) = schema.as_object() else { return schema.clone() };
    if let Some(name) = object.get("$ref").and_then(Value::as_str) {
        return normalized(&definitions[name.rsplit('/').next().unwrap()], definitions);
    }
    let mut plain = serde_json::Map::new();
    for (keyword, value) in object {
        let value = match keyword.as_str() {
            "title" | "format" | "$schema" | "$defs" => continue,
            "type" if object.contains_key("enum") => continue,
            "required" if *value == json!([]) => continue,
            "properties" => {
                let each = value.as_object().unwrap().iter();
                let mut each: serde_json::Map<_, _> =
                    each.map(|(name, schema)| (name.clone(), normalized(schema, definitions))).collect();
                each.sort_keys();
                Value::Object(each)
            }
            "items" | "additionalProperties" => normalized(value, definitions),
            _ => value.clone(),
        };
        plain.insert(keyword.clone(), value);
    }
    plain.sort_keys();
    Value::Object(plain)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_says_the_same_about_itself() {
    let compiled = compiled_from(SOURCES);
    let (_, sandbox) = load(compiled.path(), "").await;
    let mut descriptors = Vec::new();
    for language in &LANGUAGES {
        let id = language.tour().replace('_', "-");
        let file = compiled.path().join("tools").join(&id).with_extension("wasm");
        let mut said = json!(sandbox.load(&file).await.unwrap().descriptor());
        let parameters = said["tools"][0]["parameters"].take();
        said["tools"][0]["parameters"] = normalized(&parameters, &parameters["$defs"]);
        let state = said["state"].as_array_mut().unwrap();
        state.sort_by_key(|access| access["key"].as_str().map(str::to_owned));
        let said = said.to_string().replace(&language.tour(), "TOOL").replace(&id, "COMPONENT");
        descriptors.push(said);
    }
    let said: Value = serde_json::from_str(&all_equal(&descriptors, "describe")).unwrap();
    assert_eq!((&said["id"], &said["version"]), (&json!("COMPONENT"), &json!("0.1.0")));
    let tool = &said["tools"][0];
    assert_eq!((&tool["id"], &tool["name"]), (&json!("COMPONENT"), &json!("TOOL")));
    assert_eq!(tool["description"], "Exercises what the contract offers.");
    assert_eq!(tool["category"], "test");
    let policy = json!({"timeout_ms": 4000, "max_retries": 1, "idempotent": true, "validates": true});
    assert_eq!(tool["execution"], policy);
    let parameters = &tool["parameters"];
    assert_eq!(parameters["required"], json!(["what"]));
    let properties = parameters["properties"].as_object().unwrap();
    assert_eq!(properties.len(), 10);
    let size = json!({"description": "A size.", "enum": [1, 2, 4], "default": 2});
    assert_eq!(properties["size"], size);
    assert_eq!(properties["place"]["properties"]["country"]["default"], "CH");
    let states = said["state"].as_array().unwrap();
    let written = |access: &Value| access["write"] == json!(true);
    assert_eq!((states.len(), states.iter().filter(|access| written(access)).count()), (9, 8));
    let label = json!({"key": "shelf.label", "read": true, "write": false});
    assert_eq!(states.first(), Some(&label));
    let reducers = states.iter().filter_map(|access| access["defines"]["reducer"].as_str());
    let reducers: Vec<&str> = reducers.collect();
    assert_eq!(
        reducers,
        ["add", "append", "max", "replace", "merge-patch", "replace", "replace", "union"],
        "added, appended, greatest, large, merged, passing, replaced, united"
    );
}
