//! JSON Schema from untrusted sources, checked before use and compiled once. Checking a value takes
//! a bounded number of steps, whatever the schema and the value.

mod check;
mod compare;
mod compile;
mod error;
mod meter;
mod node;
mod pattern;
mod report;
mod words;

pub use error::SchemaError;
pub use meter::{BASE_STEPS, MAX_STEPS, STEPS_PER_PART};
pub(crate) use meter::{SHORT_STEPS, parts, parts_of_text};
pub use pattern::{
    MAX_CLASS_ESCAPES, MAX_PATTERN_BYTES, MAX_PATTERN_TEXT_BYTES, MAX_PATTERNS, MAX_WIDE_CLASSES,
};
pub use report::{MAX_VIOLATIONS, Violation};
pub use words::make_readable;

use serde_json::{Map, Value, json};

/// The longest description that a model is shown, in bytes; a longer one is cut.
pub const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;
/// The largest schema that is accepted, in bytes of its serialization.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// The most subschemas that one schema may hold.
pub const MAX_SUBSCHEMAS: usize = 2_000;
/// The deepest nesting of a schema.
pub const MAX_SCHEMA_DEPTH: usize = 32;
/// The most `$ref`s in one schema. Each is followed once for each level of the data.
pub const MAX_REFERENCES: usize = 64;
/// The most bytes of all compiled patterns of one component.
pub const MAX_PATTERNS_BYTES: usize = 16 * 1024 * 1024;
/// The largest invalid schema, in bytes, for which the message includes the exact reason.
const MAX_EXPLAINED_BYTES: usize = 4 * 1024;

/// A checked and compiled schema.
#[derive(Debug, Clone)]
pub struct Schema {
    compiled: std::sync::Arc<compile::CompiledSchema>,
}

impl Schema {
    /// Compiles a schema (2020-12). References stay within the document, patterns run without
    /// backtracking, and size, depth, and the number of subschemas and patterns are limited.
    ///
    /// # Errors
    /// The schema is invalid, refers outside itself, or exceeds a limit.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_within(schema, MAX_PATTERNS_BYTES)
    }

    /// Compiles as [`Schema::compile`] does, with at most this many bytes of compiled patterns.
    ///
    /// # Errors
    /// Same as [`Schema::compile`].
    pub fn compile_within(schema: &Value, most_pattern_bytes: usize) -> Result<Self, SchemaError> {
        let bytes = schema.to_string().len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(SchemaError(format!(
                "the schema has {bytes} bytes; at most {MAX_SCHEMA_BYTES} are read"
            )));
        }
        let mut survey = Survey::default();
        survey.visit(schema, schema, 0)?;
        let compiled = compile::compile(schema, most_pattern_bytes)?;
        if !jsonschema::draft202012::meta::is_valid(schema) {
            return Err(invalid(schema, bytes));
        }
        Ok(Self { compiled: std::sync::Arc::new(compiled) })
    }

    /// Returns the bytes of its compiled patterns, including the memory to search with them.
    #[must_use]
    pub fn pattern_bytes(&self) -> usize {
        self.compiled.pattern_bytes
    }

    /// Compiles the schema of a tool's arguments as [`Schema::compile_within`] does. Its type must be
    /// `object`; a schema without a type receives it.
    ///
    /// # Errors
    /// Same as [`Schema::compile`], and if the type is not `object`.
    pub fn compile_arguments(schema: &mut Value, most_pattern_bytes: usize) -> Result<Self, SchemaError> {
        let Value::Object(map) = schema else {
            return Err(SchemaError("the schema of a tool's arguments must be a JSON object".to_owned()));
        };
        match map.get("type") {
            None => {
                map.insert("type".to_owned(), Value::from("object"));
            }
            Some(Value::String(t)) if t == "object" => {}
            Some(other) => {
                return Err(SchemaError(format!(
                    "the schema of a tool's arguments must have the type \"object\", not {other}"
                )));
            }
        }
        Self::compile_within(schema, most_pattern_bytes)
    }

    /// Returns the violations, up to [`MAX_VIOLATIONS`]. A value does not fit if its check takes
    /// more than [`BASE_STEPS`] plus [`STEPS_PER_PART`] for each of its parts, or more than
    /// [`MAX_STEPS`].
    #[must_use]
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_within(value, &mut { MAX_STEPS })
    }

    /// Checks as [`Schema::violations`] does, and takes the steps from `steps_left`, which several
    /// checks share.
    pub fn violations_within(&self, value: &Value, steps_left: &mut u64) -> Vec<Violation> {
        let most = *steps_left;
        let mut check = check::Check::new(&self.compiled.nodes, value, most);
        let ended = check.run(value);
        *steps_left = steps_left.saturating_sub(check.steps_taken());
        match ended {
            Ok(_) | Err(meter::Stop::EnoughFound) => check.found,
            Err(meter::Stop::TooMuchWork) => {
                let steps = meter::bound(meter::parts(value)).min(most);
                let problem = format!(
                    "is too much work to check against this schema: more than {steps} steps ({BASE_STEPS} and {STEPS_PER_PART} for each part of the value, at most {MAX_STEPS}); send less, or use a simpler schema"
                );
                vec![Violation { pointer: String::new(), problem }]
            }
        }
    }

    /// Returns the most steps for checking a value with this many parts.
    #[must_use]
    pub fn most_steps(&self, parts: u64) -> u64 {
        let bound = meter::bound(parts);
        self.compiled.steps_per_part.map_or(bound, |steps| steps.saturating_mul(parts).min(bound))
    }
}

/// Explains why the meta-schema rejects a schema. The library's message contains copies of the
/// schema, so it is created for small ones only.
fn invalid(schema: &Value, bytes: usize) -> SchemaError {
    let why = match bytes <= MAX_EXPLAINED_BYTES {
        true => jsonschema::draft202012::meta::validate(schema).err(),
        false => None,
    };
    let why = why.map(|why| crate::text::clean(&format!(": {why}"), 500)).unwrap_or_default();
    SchemaError(format!("the schema is not valid JSON Schema{why}"))
}

/// Compiles the meta-schema. Otherwise the first [`compile`](Schema::compile) does so, which takes
/// some milliseconds. A program may call this on another thread as it starts.
pub fn warm_up() {
    // Only used parts are compiled; nearly every schema uses these.
    let text = json!({"type": "string", "description": "", "default": ""});
    let _ = Schema::compile(&json!({
        "type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": false,
    }));
}

/// Formats the violations for a model, one per line.
#[must_use]
pub fn describe(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations
        .iter()
        .map(|v| {
            let place = if v.pointer.is_empty() { "(whole value)" } else { &v.pointer };
            format!("- {place}: {}", v.problem)
        })
        .collect();
    lines.join("\n")
}

#[derive(Default)]
struct Survey {
    subschemas: usize,
    references: usize,
}

impl Survey {
    /// Visits every value, including data such as `const`: a property may have such a name, and a
    /// reference may point there.
    fn visit(&mut self, root: &Value, schema: &Value, depth: usize) -> Result<(), SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(SchemaError(format!("the schema nests deeper than {MAX_SCHEMA_DEPTH} levels")));
        }
        match schema {
            Value::Object(map) => {
                self.subschemas += 1;
                if self.subschemas > MAX_SUBSCHEMAS {
                    return Err(SchemaError(format!("the schema has more than {MAX_SUBSCHEMAS} parts")));
                }
                self.references(root, map)?;
                map.values().try_for_each(|part| self.visit(root, part, depth + 1))
            }
            Value::Array(parts) => parts.iter().try_for_each(|part| self.visit(root, part, depth + 1)),
            _ => Ok(()),
        }
    }

    fn references(&mut self, root: &Value, map: &Map<String, Value>) -> Result<(), SchemaError> {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(Value::String(target)) = map.get(keyword) else {
                continue;
            };
            if !target.starts_with('#') {
                return Err(SchemaError(format!(
                    "the schema refers to \"{}\"; only references within the document (\"#...\") are allowed",
                    crate::text::clean(target, 200)
                )));
            }
            if compile::referenced(root, target).is_none() {
                return Err(SchemaError(format!(
                    "the schema refers to \"{}\", which does not exist; write references as \"#/$defs/NAME\"",
                    crate::text::clean(target, 200)
                )));
            }
            self.references += 1;
        }
        for keyword in ["$id", "$schema"] {
            if let Some(Value::String(id)) = map.get(keyword)
                && keyword == "$id"
                && !id.starts_with('#')
            {
                return Err(SchemaError(
                    "the schema has an \"$id\"; remove it, because references stay within the document"
                        .to_owned(),
                ));
            }
        }
        if self.references > MAX_REFERENCES {
            return Err(SchemaError(format!("the schema has more than {MAX_REFERENCES} references")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn l2_every_violation_has_its_pointer() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "list": {"items": {"type": "string"}}},
            "required": ["text"],
        }))
        .unwrap();
        let found = schema.violations(&json!({"n": "x", "list": ["a", 1]}));
        let pointers: Vec<&str> = found.iter().map(|v| v.pointer.as_str()).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for pointer in ["/n", "/list/1", ""] {
            assert!(pointers.contains(&pointer), "{pointer} in {pointers:?}");
        }
    }

    #[test]
    fn r3_references_that_leave_the_document_are_refused() {
        for target in ["http://example.com/s.json", "file:///etc/passwd", "other.json", "//x"] {
            let error = Schema::compile(&json!({"properties": {"a": {"$ref": target}}})).unwrap_err();
            assert!(error.to_string().contains("within the document"), "{error}");
        }
        assert!(Schema::compile(&json!({"$id": "http://example.com/a", "type": "object"})).is_err());
        assert!(
            Schema::compile(
                &json!({"$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}})
            )
            .is_ok()
        );
    }

    #[test]
    fn r3_arguments_are_objects() {
        assert!(Schema::compile_arguments(&mut json!({"type": "array"}), MAX_PATTERNS_BYTES).is_err());
        assert!(Schema::compile_arguments(&mut json!([]), MAX_PATTERNS_BYTES).is_err());
        let mut unset = json!({});
        let schema = Schema::compile_arguments(&mut unset, MAX_PATTERNS_BYTES).unwrap();
        assert_eq!(unset, json!({"type": "object"}));
        assert!(schema.violations(&json!({"anything": 1})).is_empty());
        assert!(!schema.violations(&json!(1)).is_empty());
    }

    #[test]
    fn schemas_are_bounded() {
        assert!(Schema::compile(&json!({"description": "x".repeat(MAX_SCHEMA_BYTES)})).is_err());
        let mut deep = json!({"type": "string"});
        for _ in 0..MAX_SCHEMA_DEPTH {
            deep = json!({"not": deep});
        }
        assert!(Schema::compile(&deep).is_err());
        let refs: Vec<Value> = (0..=MAX_REFERENCES).map(|_| json!({"$ref": "#/$defs/a"})).collect();
        assert!(Schema::compile(&json!({"$defs": {"a": {}}, "anyOf": refs})).is_err());
    }

    #[test]
    fn r3_references_are_found_wherever_they_hide() {
        let remote = json!({"$ref": "http://localhost:1/s.json"});
        let hidden = json!({"properties": {"default": remote}});
        assert!(Schema::compile(&hidden).is_err());
    }

    #[test]
    fn work_is_bounded_by_the_size_of_the_value() {
        let branch = json!({"properties": {"a": {"$ref": "#"}}});
        let schema = Schema::compile(&json!({"allOf": [branch, branch]})).unwrap();
        let deep = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
        let found = schema.violations(&deep);
        assert!(found[0].problem.contains("too much work"), "{found:?}");
        assert!(found[0].problem.contains(&format!("{MAX_STEPS}")), "{found:?}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only time shows whether a pattern backtracks")]
    fn patterns_do_not_backtrack() {
        let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
        let started = std::time::Instant::now();
        assert!(!schema.violations(&json!("a".repeat(5_000) + "!")).is_empty());
        assert!(started.elapsed().as_secs() < 5);
        assert!(Schema::compile(&json!({"pattern": "(a)\\1"})).is_err(), "back references need backtracking");
    }
}
