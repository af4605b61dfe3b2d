//! Forms made from the schema of a question's answer, and the conversion of their entries into the
//! answer. The whole schema is checked afterwards; a form only makes answers easy to give.

use serde_json::{Map, Value};
use tollgate_agent::gate::permissions::asks_to_permit;
use tollgate_agent::json::parse_exact;
use tollgate_agent::run::event::SuspendedCall;

/// The maximum number of fields of a form; the answer of a larger schema is entered as JSON.
const MAX_FIELDS: usize = 40;
/// The maximum number of values to choose from; more are entered as JSON.
const MAX_CHOICES: usize = 200;
/// The number of levels of objects with fields of their own below the answer.
const MAX_NESTED: usize = 1;

/// The name of the entry of a single field, and the beginning of the names of all others.
pub(super) const ROOT: &str = "f";

/// Returns the name of the entry of a property. It does not contain the property's own name,
/// which a tool chose.
pub(super) fn entry_key(parent: &str, index: usize) -> String {
    format!("{parent}.{index}")
}

/// The form of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// Any answer fits; yes is `true`.
    Anything,
    /// The permission rules ask.
    Permission,
    /// One field is the whole answer.
    Single(Box<Property>),
    /// Each property has a field.
    Object(Vec<Property>),
    /// The answer is entered as JSON.
    Json,
}

/// A value with a field of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Property {
    /// The property's name, which is also the end of its pointer; empty for a single field.
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) required: bool,
    pub(super) default: Option<Value>,
    pub(super) field: Field,
}

/// A kind of field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Text {
        min: u64,
        max: Option<u64>,
        format: Option<String>,
    },
    Number {
        whole: bool,
        min: Option<Value>,
        max: Option<Value>,
    },
    Boolean,
    /// One of these values.
    Choice(Vec<Value>),
    /// Any of these values, as a list.
    Choices(Vec<Value>),
    Constant(Value),
    Group(Vec<Property>),
    Json,
}

/// An entry that cannot be part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryError {
    /// The JSON pointer of the value; empty for the whole answer.
    pub(super) pointer: String,
    /// The problem, in words.
    pub(super) problem: String,
}

/// The entries of a form as the browser sends them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries(Vec<(String, String)>);

impl Entries {
    /// Reads a body of the type `application/x-www-form-urlencoded`, or the query of an address.
    pub(crate) fn read(body: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(body).into_owned().collect())
    }

    /// Returns the first entry of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first entry of this name without surrounding white space; empty if there is
    /// none.
    pub(super) fn word(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default().trim()
    }

    /// Returns all entries of this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the fields of a group are all blank.
    fn is_blank_below(&self, key: &str) -> bool {
        let is_below = |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        self.0.iter().filter(|(name, _)| is_below(name)).all(|(_, value)| value.trim().is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Form {
    /// Returns the form for a question.
    pub(super) fn of(asked: &SuspendedCall) -> Self {
        if asks_to_permit(asked) {
            return Form::Permission;
        }
        asked.ticket.response_schema.as_ref().map_or(Form::Anything, Self::of_schema)
    }

    /// Returns the form for a schema, such as that of a tool's arguments.
    pub(super) fn of_schema(schema: &Value) -> Self {
        let mut fields_left = MAX_FIELDS;
        match field_of(schema, 0, &mut fields_left) {
            Some(Field::Group(properties)) => Form::Object(properties),
            Some(Field::Json) | None => match schema {
                Value::Bool(true) => Form::Anything,
                Value::Object(keywords) if keywords.is_empty() => Form::Anything,
                _ => Form::Json,
            },
            Some(field) => Form::Single(Box::new(Property::new("", schema, true, field))),
        }
    }

    /// Returns the answer that these entries make.
    ///
    /// # Errors
    /// Some entries cannot be part of an answer.
    pub(super) fn value(&self, entries: &Entries) -> Result<Value, Vec<EntryError>> {
        let mut errors = Vec::new();
        let value = match self {
            Form::Permission => permission(entries),
            Form::Anything if entries.word("json").is_empty() => Ok(Value::Bool(true)),
            Form::Anything | Form::Json => json_of(entries.word("json"), ""),
            Form::Single(property) => match property.value(entries, ROOT, "", &mut errors) {
                Some(value) => Ok(value),
                None => Err(EntryError { pointer: String::new(), problem: "enter an answer".to_owned() }),
            },
            Form::Object(properties) => Ok(Value::Object(group(properties, entries, ROOT, "", &mut errors))),
        };
        match value {
            Ok(value) if errors.is_empty() => Ok(value),
            Ok(_) => Err(errors),
            Err(error) => Err(if errors.is_empty() { vec![error] } else { errors }),
        }
    }

    /// Returns the entries that give this answer, as a browser sends them; the inverse of
    /// [`value`](Self::value) for answers that fit the form.
    #[cfg(test)]
    pub(super) fn entries_of(&self, value: &Value) -> Entries {
        let mut entries = Vec::new();
        match self {
            Form::Single(property) => property.enter(value, ROOT, &mut entries),
            Form::Object(properties) => enter_group(properties, value, ROOT, &mut entries),
            _ => entries.push(("json".to_owned(), value.to_string())),
        }
        Entries(entries)
    }
}

impl Property {
    fn new(name: &str, schema: &Value, required: bool, field: Field) -> Self {
        let text = |word: &str| schema.get(word).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            required,
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            field,
        }
    }

    /// Returns the pointer of the value below this one.
    pub(super) fn pointer(&self, below: &str) -> String {
        if self.name.is_empty() {
            return below.to_owned();
        }
        format!("{below}/{}", self.name.replace('~', "~0").replace('/', "~1"))
    }

    /// Returns the value of the entry; `None` if it is left out.
    fn value(
        &self,
        entries: &Entries,
        key: &str,
        below: &str,
        errors: &mut Vec<EntryError>,
    ) -> Option<Value> {
        let pointer = self.pointer(below);
        let mut fail = |problem: &str| {
            errors.push(EntryError { pointer: pointer.clone(), problem: problem.to_owned() });
            None
        };
        let missing = if self.required { "choose or enter a value" } else { "" };
        let none = |fail: &mut dyn FnMut(&str) -> Option<Value>| {
            if missing.is_empty() { None } else { fail(missing) }
        };
        match &self.field {
            Field::Text { .. } => {
                let text = entries.get(key).unwrap_or_default().replace("\r\n", "\n");
                (self.required || !text.is_empty()).then_some(Value::String(text))
            }
            Field::Number { whole, .. } => match entries.word(key) {
                "" => none(&mut fail),
                word => match parse_exact(word) {
                    Ok(number) if number.is_number() && (!whole || is_whole(&number)) => Some(number),
                    _ if *whole => fail("enter a whole number"),
                    _ => fail("enter a number, such as 2.5"),
                },
            },
            Field::Boolean => match entries.word(key) {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                _ => none(&mut fail),
            },
            Field::Choice(values) => match entries.word(key) {
                "" => none(&mut fail),
                index => match chosen(values, index) {
                    Some(value) => Some(value.clone()),
                    None => fail("choose one of the values"),
                },
            },
            Field::Choices(values) => {
                let chosen: Option<Vec<Value>> =
                    entries.all(key).map(|index| chosen(values, index).cloned()).collect();
                match chosen {
                    Some(chosen) if chosen.is_empty() && !self.required => None,
                    Some(chosen) => Some(Value::Array(chosen)),
                    None => fail("choose from the values"),
                }
            }
            Field::Constant(value) => (self.required || entries.word(key) == "on").then(|| value.clone()),
            Field::Group(_) if !self.required && entries.is_blank_below(key) => None,
            Field::Group(properties) => {
                let group = group(properties, entries, key, &pointer, errors);
                (self.required || !group.is_empty()).then_some(Value::Object(group))
            }
            Field::Json => match entries.word(key) {
                "" => none(&mut fail),
                text => json_of(text, &pointer).map_err(|error| errors.push(error)).ok(),
            },
        }
    }

    #[cfg(test)]
    fn enter(&self, value: &Value, key: &str, entries: &mut Vec<(String, String)>) {
        let mut push = |text: String| entries.push((key.to_owned(), text));
        let index = |values: &[Value], value: &Value| {
            values.iter().position(|known| known == value).unwrap_or(usize::MAX)
        };
        match &self.field {
            Field::Text { .. } => push(value.as_str().unwrap_or_default().replace('\n', "\r\n")),
            Field::Choice(values) => push(index(values, value).to_string()),
            Field::Choices(values) => {
                value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .for_each(|value| push(index(values, value).to_string()));
            }
            Field::Constant(_) => push("on".to_owned()),
            Field::Group(properties) => enter_group(properties, value, key, entries),
            Field::Number { .. } | Field::Boolean | Field::Json => push(value.to_string()),
        }
    }
}

#[cfg(test)]
fn enter_group(properties: &[Property], value: &Value, key: &str, entries: &mut Vec<(String, String)>) {
    for (index, property) in properties.iter().enumerate() {
        if let Some(value) = value.get(&property.name) {
            property.enter(value, &entry_key(key, index), entries);
        }
    }
}

fn group(
    properties: &[Property],
    entries: &Entries,
    key: &str,
    below: &str,
    errors: &mut Vec<EntryError>,
) -> Map<String, Value> {
    let values = properties.iter().enumerate().filter_map(|(index, property)| {
        let value = property.value(entries, &entry_key(key, index), below, errors)?;
        Some((property.name.clone(), value))
    });
    values.collect()
}

/// Returns the answer to a question of the permission rules.
fn permission(entries: &Entries) -> Result<Value, EntryError> {
    let about = if entries.word("for") == "tool" { "tool" } else { "arguments" };
    match entries.word("permit") {
        "once" => Ok(Value::Bool(true)),
        scope @ ("run" | "thread" | "always") => Ok(serde_json::json!({"remember": scope, "for": about})),
        _ => Err(EntryError {
            pointer: String::new(),
            problem: "choose how long the permission holds".to_owned(),
        }),
    }
}

fn json_of(text: &str, pointer: &str) -> Result<Value, EntryError> {
    parse_exact(text).map_err(|why| EntryError {
        pointer: pointer.to_owned(),
        problem: format!("this is not valid JSON: {why}"),
    })
}

fn chosen<'a>(values: &'a [Value], index: &str) -> Option<&'a Value> {
    values.get(index.parse::<usize>().ok()?)
}

fn is_whole(number: &Value) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Returns the field for a schema below `depth` objects; `None` if the form would have too many.
fn field_of(schema: &Value, depth: usize, fields_left: &mut usize) -> Option<Field> {
    let keywords = schema.as_object()?;
    *fields_left = fields_left.checked_sub(1)?;
    let combined = ["$ref", "anyOf", "oneOf", "allOf", "not", "if"];
    if combined.iter().any(|word| keywords.contains_key(*word)) {
        return Some(Field::Json);
    }
    if let Some(value) = keywords.get("const") {
        return Some(Field::Constant(value.clone()));
    }
    if let Some(values) = keywords.get("enum") {
        return Some(choices(values).map_or(Field::Json, Field::Choice));
    }
    let length = |word: &str| keywords.get(word).and_then(Value::as_u64);
    let Some(kind) = keywords.get("type").and_then(kind_of) else { return Some(Field::Json) };
    Some(match kind {
        "string" => Field::Text {
            min: length("minLength").unwrap_or(0),
            max: length("maxLength"),
            format: keywords.get("format").and_then(Value::as_str).map(str::to_owned),
        },
        kind @ ("number" | "integer") => Field::Number {
            whole: kind == "integer",
            min: keywords.get("minimum").cloned(),
            max: keywords.get("maximum").cloned(),
        },
        "boolean" => Field::Boolean,
        "array" => match keywords.get("items").and_then(|items| items.get("enum")).and_then(choices) {
            Some(values) => Field::Choices(values),
            None => Field::Json,
        },
        "object" => return object(keywords, depth, fields_left),
        _ => Field::Json,
    })
}

/// Returns the fields of an object. One that is nested too deeply is entered as JSON.
fn object(keywords: &Map<String, Value>, depth: usize, fields_left: &mut usize) -> Option<Field> {
    let Some(properties) =
        keywords.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        return Some(Field::Json);
    };
    if depth > MAX_NESTED {
        return Some(Field::Json);
    }
    let required = keywords.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|known| known == name));
    let mut fields = Vec::with_capacity(properties.len());
    for (name, schema) in properties {
        let field = match schema {
            Value::Bool(true) => Field::Json,
            schema => field_of(schema, depth + 1, fields_left)?,
        };
        fields.push(Property::new(name, schema, is_required(name), field));
    }
    Some(Field::Group(fields))
}

/// Returns the one type besides `null`; `None` if there are several.
fn kind_of(kind: &Value) -> Option<&str> {
    match kind {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let only = kinds.next()?;
            kinds.next().is_none().then_some(only)
        }
        _ => None,
    }
}

/// Returns the values to choose from; `None` if they are too many for a form.
fn choices(values: &Value) -> Option<Vec<Value>> {
    values.as_array().filter(|values| !values.is_empty() && values.len() <= MAX_CHOICES).cloned()
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
