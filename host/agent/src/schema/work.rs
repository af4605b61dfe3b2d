//! How much work a check would be, counted before it is done.
//!
//! References let a small schema ask for exponential work: two references to
//! what again holds two references, or a schema that two branches of an `anyOf`
//! apply to the same child, level by level. The count walks schema and value
//! together as a validator would that never stops early, and gives up as soon
//! as it is past its bound, so that it is itself bounded work.

use serde_json::{Map, Value};

/// The steps that every value may take. Whoever counts them holds a thread meanwhile,
/// which others wait for.
const BASE_STEPS: u64 = 20_000;
/// The further steps that each part of a value (an element, a member) may take.
const STEPS_PER_PART: u64 = 100;
/// How deep the walk goes, through schema and value together.
const MAX_NESTING: u32 = 1_000;

/// Whether the value can be checked in a number of steps that is in proportion
/// to its size. A step is one subschema applied to one part of the value.
pub(super) fn is_bounded(schema: &Value, value: &Value) -> bool {
    let bound = BASE_STEPS.saturating_add(STEPS_PER_PART * parts(value));
    Walk { root: schema, left: bound }.apply(schema, value, 0).is_some()
}

/// The subschema that a reference within the document names.
pub(super) fn target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

struct Walk<'s> {
    root: &'s Value,
    left: u64,
}

impl<'s> Walk<'s> {
    /// Counts one schema on one value, and all that it applies; none past the bound.
    fn apply(&mut self, schema: &'s Value, value: &Value, nesting: u32) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        if nesting > MAX_NESTING {
            return None;
        }
        let Value::Object(schema) = schema else { return Some(()) };
        // What is "unevaluated" is found by applying everything beside it again.
        let unevaluated = ["unevaluatedProperties", "unevaluatedItems"];
        let times = 1 + usize::from(unevaluated.iter().any(|k| schema.contains_key(*k)));
        for _ in 0..times {
            self.in_place(schema, value, nesting + 1)?;
        }
        match value {
            Value::Object(members) => self.members(schema, members, nesting + 1),
            Value::Array(elements) => self.elements(schema, elements, nesting + 1),
            _ => Some(()),
        }
    }

    /// What applies to the same value.
    fn in_place(&mut self, schema: &'s Map<String, Value>, value: &Value, n: u32) -> Option<()> {
        for (keyword, part) in schema {
            match (keyword.as_str(), part) {
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    if let Some(target) = target(self.root, reference) {
                        self.apply(target, value, n)?;
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                    branches.iter().try_for_each(|branch| self.apply(branch, value, n))?;
                }
                ("not" | "if" | "then" | "else", branch) => self.apply(branch, value, n)?,
                ("dependentSchemas", Value::Object(branches)) => {
                    branches.values().try_for_each(|branch| self.apply(branch, value, n))?;
                }
                _ => {}
            }
        }
        Some(())
    }

    fn members(
        &mut self,
        schema: &'s Map<String, Value>,
        members: &Map<String, Value>,
        n: u32,
    ) -> Option<()> {
        let named = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (name, member) in members {
            let own = named.and_then(|named| named.get(name));
            if let Some(own) = own {
                self.apply(own, member, n)?;
            }
            for pattern in patterns.into_iter().flat_map(Map::values) {
                self.apply(pattern, member, n)?;
            }
            for rest in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(rest) = schema.get(rest).filter(|_| own.is_none()) {
                    self.apply(rest, member, n)?;
                }
            }
            if let Some(names) = schema.get("propertyNames") {
                self.apply(names, &Value::Null, n)?;
            }
        }
        Some(())
    }

    fn elements(&mut self, schema: &'s Map<String, Value>, elements: &[Value], n: u32) -> Option<()> {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        for (index, element) in elements.iter().enumerate() {
            let own = first.and_then(|first| first.get(index));
            if let Some(own) = own {
                self.apply(own, element, n)?;
            }
            for rest in ["items", "unevaluatedItems"] {
                if let Some(rest) = schema.get(rest).filter(|_| own.is_none()) {
                    self.apply(rest, element, n)?;
                }
            }
            if let Some(contained) = schema.get("contains") {
                self.apply(contained, element, n)?;
            }
        }
        Some(())
    }
}

/// How many values there are in this one, itself included.
fn parts(value: &Value) -> u64 {
    1 + match value {
        Value::Object(members) => members.values().map(parts).sum(),
        Value::Array(elements) => elements.iter().map(parts).sum(),
        _ => 0,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn references_that_double_are_not_bounded() {
        let chain = |links: usize| {
            let mut defs: Map<String, Value> = (0..links)
                .map(|i| {
                    let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
                    (format!("d{i}"), json!({ "allOf": [next, next] }))
                })
                .collect();
            defs.insert(format!("d{links}"), json!({ "minProperties": 0 }));
            json!({ "$ref": "#/$defs/d0", "$defs": defs })
        };
        assert!(is_bounded(&chain(5), &json!({})));
        assert!(!is_bounded(&chain(31), &json!({})));
    }

    #[test]
    fn branches_that_meet_at_each_level_are_not_bounded() {
        let branch = json!({ "properties": { "a": { "$ref": "#" } } });
        let schema = json!({ "anyOf": [branch, branch] });
        assert!(is_bounded(&schema, &nested(8)));
        assert!(!is_bounded(&schema, &nested(40)));
    }

    #[test]
    fn a_schema_of_itself_is_not_bounded() {
        assert!(!is_bounded(&json!({ "$ref": "#" }), &json!({})));
    }

    #[test]
    fn trees_are_bounded_however_large() {
        let schema = json!({ "properties": {
            "left": { "$ref": "#" }, "right": { "$ref": "#" }, "rest": { "items": { "$ref": "#" } },
        }, "additionalProperties": false });
        let wide = json!({ "rest": vec![json!({ "left": {}, "right": {} }); 20_000] });
        assert!(is_bounded(&schema, &wide));
        assert!(is_bounded(&json!({ "properties": { "a": { "$ref": "#" } } }), &nested(120)));
    }

    #[test]
    fn references_may_be_percent_encoded() {
        let root = json!({ "$defs": { "a[b]": 1 } });
        assert_eq!(target(&root, "#/$defs/a%5Bb%5D"), Some(&json!(1)));
        assert_eq!(target(&root, "#anchor"), None);
    }
}
