//! Compiles a schema to the form that values are checked against.

use super::compare::hash;
use super::error::SchemaError;
use super::meter::{Meter, as_u64, parts};
use super::node::{Contains, Enum, If, Items, Keyword, Limit, Names, Node, NodeId, Properties, Type, Types};
use super::pattern::Patterns;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// A compiled schema.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    /// The subschemas; the first is the whole schema.
    pub(super) nodes: Vec<Node>,
    /// The bytes of its compiled patterns.
    pub(super) pattern_bytes: usize,
    /// The most steps for each part of a value; `None` if its references could apply one subschema
    /// to one part more than once.
    pub(super) steps_per_part: Option<u64>,
}

/// Compiles a schema whose size and references have been checked.
pub(super) fn compile(schema: &Value, most_pattern_bytes: usize) -> Result<CompiledSchema, SchemaError> {
    let mut compiler = Compiler {
        root: schema,
        most_pattern_bytes,
        ids: BTreeMap::new(),
        waiting: Vec::new(),
        patterns: Patterns::default(),
        nodes: 0,
        has_references: false,
        steps: 0,
    };
    compiler.id(schema);
    let mut nodes: Vec<Node> = Vec::new();
    while let Some((id, schema)) = compiler.waiting.pop() {
        let node = compiler.node(schema)?;
        if nodes.len() < compiler.nodes {
            nodes.resize_with(compiler.nodes, || Node::Any);
        }
        nodes[id] = node;
    }
    Ok(CompiledSchema {
        nodes,
        pattern_bytes: compiler.patterns.bytes,
        steps_per_part: (!compiler.has_references).then_some(compiler.steps),
    })
}

struct Compiler<'s> {
    root: &'s Value,
    most_pattern_bytes: usize,
    /// The numbered subschemas, by their address in memory.
    ids: BTreeMap<*const Value, NodeId>,
    /// The subschemas that are still to be compiled.
    waiting: Vec<(NodeId, &'s Value)>,
    patterns: Patterns,
    nodes: usize,
    has_references: bool,
    steps: u64,
}

impl<'s> Compiler<'s> {
    /// Returns the number of a subschema. A subschema that several references name is compiled
    /// once.
    fn id(&mut self, schema: &'s Value) -> NodeId {
        if let Some(id) = self.ids.get(&std::ptr::from_ref(schema)) {
            return *id;
        }
        let id = self.nodes;
        self.nodes += 1;
        self.ids.insert(std::ptr::from_ref(schema), id);
        self.waiting.push((id, schema));
        id
    }

    fn node(&mut self, schema: &'s Value) -> Result<Node, SchemaError> {
        self.steps += 2;
        let map = match schema {
            Value::Bool(true) => return Ok(Node::Any),
            Value::Bool(false) => return Ok(Node::Nothing),
            Value::Object(map) => map,
            other => {
                let found = super::report::shown(other);
                return Err(invalid(&format!("a subschema is an object, true or false, and not {found}")));
            }
        };
        let mut keywords = Vec::new();
        self.of_any_value(map, &mut keywords)?;
        of_numbers(map, &mut keywords)?;
        self.of_text(map, &mut keywords)?;
        self.of_arrays(map, &mut keywords)?;
        self.of_objects(map, &mut keywords)?;
        self.in_place(map, &mut keywords)?;
        if let Some(rest) = map.get("unevaluatedProperties") {
            keywords.push(Keyword::UnevaluatedMembers(self.id(rest)));
        }
        if let Some(rest) = map.get("unevaluatedItems") {
            keywords.push(Keyword::UnevaluatedElements(self.id(rest)));
        }
        self.steps += keywords.iter().map(steps_of).sum::<u64>();
        Ok(Node::Keywords(keywords.into()))
    }

    fn of_any_value(
        &mut self,
        map: &'s Map<String, Value>,
        into: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        if let Some(types) = map.get("type") {
            let names: &[Value] = match types {
                Value::Array(types) => types,
                one => std::slice::from_ref(one),
            };
            let names: Option<Box<[Type]>> = names.iter().map(a_type).collect();
            let names =
                names.ok_or_else(|| invalid(&format!("\"type\" is {}", super::report::shown(types))))?;
            into.push(Keyword::Type(Types { names }));
        }
        if let Some(value) = map.get("const") {
            into.push(Keyword::Const(Box::new(value.clone())));
        }
        if let Some(options) = map.get("enum") {
            let options = options.as_array().ok_or_else(|| invalid("\"enum\" is not an array"))?;
            into.push(Keyword::Enum(Box::new(an_enum(options)?)));
        }
        Ok(())
    }

    fn of_text(&mut self, map: &'s Map<String, Value>, into: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let (least, most) = (count(map, "minLength")?, count(map, "maxLength")?);
        if least.is_some() || most.is_some() {
            into.push(Keyword::Length(least, most));
        }
        if let Some(pattern) = map.get("pattern") {
            let text = pattern.as_str().ok_or_else(|| invalid("\"pattern\" is not a string"))?;
            into.push(Keyword::Pattern(self.patterns.compile(text, self.most_pattern_bytes)?));
        }
        Ok(())
    }

    fn of_arrays(&mut self, map: &'s Map<String, Value>, into: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let (least, most) = (count(map, "minItems")?, count(map, "maxItems")?);
        if least.is_some() || most.is_some() {
            into.push(Keyword::Elements(least, most));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            into.push(Keyword::UniqueElements);
        }
        let prefix = self.list(map, "prefixItems")?.unwrap_or_default();
        let rest = map.get("items").map(|rest| self.id(rest));
        if !prefix.is_empty() || rest.is_some() {
            into.push(Keyword::Items(Box::new(Items { prefix, rest })));
        }
        if let Some(contained) = map.get("contains") {
            let least = count(map, "minContains")?.unwrap_or(1);
            let (node, most) = (self.id(contained), count(map, "maxContains")?);
            into.push(Keyword::Contains(Box::new(Contains { node, least, most })));
        }
        Ok(())
    }

    fn of_objects(
        &mut self,
        map: &'s Map<String, Value>,
        into: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let (least, most) = (count(map, "minProperties")?, count(map, "maxProperties")?);
        if least.is_some() || most.is_some() {
            into.push(Keyword::Members(least, most));
        }
        if let Some(names) = map.get("required") {
            into.push(Keyword::Required(texts(names, "required")?));
        }
        let mut dependent: Vec<(Box<str>, Names)> = Vec::new();
        let mut schemas: Vec<(Box<str>, NodeId)> = Vec::new();
        for (name, needs) in members(map, "dependentRequired")? {
            dependent.push((name.as_str().into(), texts(needs, "dependentRequired")?));
        }
        for (name, schema) in members(map, "dependentSchemas")? {
            schemas.push((name.as_str().into(), self.id(schema)));
        }
        // The older keyword that combined both.
        for (name, needs) in members(map, "dependencies")? {
            match needs {
                Value::Array(_) => dependent.push((name.as_str().into(), texts(needs, "dependencies")?)),
                schema => schemas.push((name.as_str().into(), self.id(schema))),
            }
        }
        if !dependent.is_empty() {
            into.push(Keyword::DependentRequired(dependent.into()));
        }
        let mut properties = Properties::default();
        for (name, schema) in members(map, "properties")? {
            properties.named.insert(name.as_str().into(), self.id(schema));
        }
        let mut patterns = Vec::new();
        for (pattern, schema) in members(map, "patternProperties")? {
            let pattern = self.patterns.compile(pattern, self.most_pattern_bytes)?;
            patterns.push((pattern, self.id(schema)));
        }
        properties.patterns = patterns.into();
        properties.additional = map.get("additionalProperties").map(|rest| self.id(rest));
        if !properties.named.is_empty() || !properties.patterns.is_empty() || properties.additional.is_some()
        {
            into.push(Keyword::Properties(Box::new(properties)));
        }
        if let Some(names) = map.get("propertyNames") {
            into.push(Keyword::Names(self.id(names)));
        }
        if !schemas.is_empty() {
            into.push(Keyword::DependentSchemas(schemas.into()));
        }
        Ok(())
    }

    /// Compiles the keywords that apply other schemas to the same value.
    fn in_place(&mut self, map: &'s Map<String, Value>, into: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        for keyword in ["$ref", "$dynamicRef"] {
            if let Some(target) = map.get(keyword).and_then(Value::as_str) {
                let target = referenced(self.root, target)
                    .ok_or_else(|| invalid(&format!("\"{keyword}\" refers to no part of the schema")))?;
                self.has_references = true;
                into.push(Keyword::Ref(self.id(target)));
            }
        }
        if let Some(branches) = self.list(map, "allOf")? {
            into.push(Keyword::AllOf(branches));
        }
        if let Some(branches) = self.list(map, "anyOf")? {
            into.push(Keyword::AnyOf(branches));
        }
        if let Some(branches) = self.list(map, "oneOf")? {
            into.push(Keyword::OneOf(branches));
        }
        if let Some(schema) = map.get("not") {
            into.push(Keyword::Not(self.id(schema)));
        }
        if let Some(condition) = map.get("if") {
            let condition = self.id(condition);
            let then = map.get("then").map(|schema| self.id(schema));
            let otherwise = map.get("else").map(|schema| self.id(schema));
            into.push(Keyword::If(Box::new(If { condition, then, otherwise })));
        }
        Ok(())
    }

    fn list(
        &mut self,
        map: &'s Map<String, Value>,
        keyword: &str,
    ) -> Result<Option<Box<[NodeId]>>, SchemaError> {
        let Some(schemas) = map.get(keyword) else { return Ok(None) };
        let schemas = schemas.as_array().ok_or_else(|| invalid(&format!("\"{keyword}\" is not an array")))?;
        Ok(Some(schemas.iter().map(|schema| self.id(schema)).collect()))
    }
}

fn of_numbers(map: &Map<String, Value>, into: &mut Vec<Keyword>) -> Result<(), SchemaError> {
    for (keyword, limit) in [
        ("minimum", Limit::Minimum),
        ("maximum", Limit::Maximum),
        ("exclusiveMinimum", Limit::ExclusiveMinimum),
        ("exclusiveMaximum", Limit::ExclusiveMaximum),
    ] {
        if let Some(number) = number(map, keyword)? {
            into.push(Keyword::Limit(limit, Box::new(number.clone())));
        }
    }
    if let Some(number) = number(map, "multipleOf")? {
        if number.as_f64().is_none_or(|number| number <= 0.0) {
            return Err(invalid("\"multipleOf\" is not greater than 0"));
        }
        into.push(Keyword::MultipleOf(Box::new(number.clone())));
    }
    Ok(())
}

fn number<'s>(map: &'s Map<String, Value>, keyword: &str) -> Result<Option<&'s Number>, SchemaError> {
    let Some(value) = map.get(keyword) else { return Ok(None) };
    value.as_number().map(Some).ok_or_else(|| invalid(&format!("\"{keyword}\" is not a number")))
}

/// Reads a count, which may be written as `2.0`. Counts beyond 64 bits become the largest.
fn count(map: &Map<String, Value>, keyword: &str) -> Result<Option<u64>, SchemaError> {
    let Some(number) = number(map, keyword)? else { return Ok(None) };
    let whole = number.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0);
    let count = number.as_u64().or(whole.map(|float| float as u64));
    count.map(Some).ok_or_else(|| invalid(&format!("\"{keyword}\" is not a whole number of at least 0")))
}

fn texts(value: &Value, keyword: &str) -> Result<Names, SchemaError> {
    let texts = value.as_array().map(|texts| texts.iter().map(|text| text.as_str().map(Box::from)));
    let texts: Option<Names> = texts.and_then(Iterator::collect);
    texts.ok_or_else(|| invalid(&format!("\"{keyword}\" is not an array of strings")))
}

fn members<'s>(
    map: &'s Map<String, Value>,
    keyword: &str,
) -> Result<impl Iterator<Item = (&'s String, &'s Value)> + use<'s>, SchemaError> {
    let members = match map.get(keyword) {
        None => None,
        Some(Value::Object(members)) => Some(members),
        Some(_) => return Err(invalid(&format!("\"{keyword}\" is not an object"))),
    };
    Ok(members.into_iter().flatten())
}

fn a_type(name: &Value) -> Option<Type> {
    let name = name.as_str()?;
    Type::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
}

fn an_enum(options: &[Value]) -> Result<Enum, SchemaError> {
    let mut hashes = Vec::with_capacity(options.len());
    for (place, option) in options.iter().enumerate() {
        // The options are part of the schema, whose size is limited.
        let hash =
            hash(option, &mut Meter::for_value(option)).map_err(|_| invalid("\"enum\" is too large"))?;
        hashes.push((hash, place));
    }
    hashes.sort_unstable();
    let most_parts = options.iter().map(parts).max().unwrap_or_default();
    Ok(Enum { options: options.into(), hashes: hashes.into(), most_parts })
}

/// Returns the most steps that a keyword takes for each part of a value, not counting its
/// subschemas.
fn steps_of(keyword: &Keyword) -> u64 {
    let of_texts = |texts: &[Box<str>]| texts.iter().map(|text| 1 + as_u64(text.len() / 64)).sum::<u64>();
    match keyword {
        Keyword::Const(_)
        | Keyword::Enum(_)
        | Keyword::Length(..)
        | Keyword::Items(_)
        | Keyword::Contains(_) => 2,
        Keyword::UniqueElements => 4,
        Keyword::Pattern(pattern) => of_pattern(pattern.states()),
        Keyword::Required(names) => of_texts(names),
        Keyword::DependentRequired(all) => {
            all.iter().map(|(name, needs)| 1 + as_u64(name.len() / 64) + of_texts(needs)).sum()
        }
        Keyword::Properties(properties) => {
            3 + properties.patterns.iter().map(|(pattern, _)| of_pattern(pattern.states())).sum::<u64>()
        }
        Keyword::Names(_) => 3,
        Keyword::DependentSchemas(all) => all.iter().map(|(name, _)| 2 + as_u64(name.len() / 64)).sum(),
        Keyword::UnevaluatedMembers(_) | Keyword::UnevaluatedElements(_) => 3,
        Keyword::AnyOf(branches) | Keyword::OneOf(branches) => as_u64(branches.len()),
        _ => 0,
    }
}

/// Returns the steps of a pattern: it visits each of its states a few times for each of the 64
/// bytes of a part.
fn of_pattern(states: usize) -> u64 {
    2 + 25 * as_u64(states)
}

fn invalid(why: &str) -> SchemaError {
    SchemaError(format!("the schema is not valid JSON Schema: {why}"))
}

/// Returns the subschema that a reference within the document names.
pub(super) fn referenced<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
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

    #[test]
    fn references_may_be_percent_encoded() {
        let root = json!({ "$defs": { "a[b]": 1 } });
        assert_eq!(referenced(&root, "#/$defs/a%5Bb%5D"), Some(&json!(1)));
        assert_eq!(referenced(&root, "#anchor"), None);
    }
}
