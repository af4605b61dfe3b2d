//! The form in which a person types the answer to a question: one letter for a permission or a
//! boolean, a number for an enumeration, one field after another for an object, and JSON for
//! everything else.
//!
//! A form is fed line by line and touches no terminal. Names and values of the schema belong to a
//! stranger: they are shown as JSON or on marked lines.

use crate::terminal::output::{BOLD, DIM};
use crate::terminal::text::shown_line;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use tollgate_agent::gate::permissions::asks_to_permit;
use tollgate_agent::question::{MARK, continued, marked};
use tollgate_agent::run::DecisionAnswer;
use tollgate_agent::run::event::SuspendedCall;

/// An object with more properties than this is typed as JSON.
const MAX_FIELDS: usize = 24;
/// An enumeration with more values than this is typed as JSON.
const MAX_CHOICES: usize = 40;
/// The maximum number of characters of a value on its line.
const MAX_SHOWN: usize = 60;

/// The form for one question.
#[derive(Debug)]
pub(super) struct Form {
    shape: Shape,
    /// The schema of the answer in full, marked line by line.
    schema: Option<String>,
    entered: Map<String, Value>,
    /// The index of the field to be entered next.
    at: usize,
    /// The width of the terminal.
    columns: usize,
}

#[derive(Debug)]
enum Shape {
    /// A question of the permission rules.
    Permission,
    /// Yes or no to the call: no schema describes the answer.
    Confirmation,
    One(Input),
    Fields(Vec<Field>),
}

/// The way in which one value is typed.
#[derive(Debug, Clone, PartialEq)]
enum Input {
    YesNo,
    /// One of these values, by its number.
    Choice(Vec<Value>),
    Text,
    Number,
    Json,
}

#[derive(Debug)]
struct Field {
    name: String,
    description: Option<String>,
    is_required: bool,
    /// Whether `null` is a value. An empty line enters it if the field is required.
    is_nullable: bool,
    input: Input,
}

/// The consequence of a typed line.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// More is needed. Holds what is shown first, if anything.
    Again(Option<String>),
    /// The person decided.
    Done(DecisionAnswer),
    /// The person leaves the question open.
    Open,
}

impl Form {
    pub(super) fn new(suspended: &SuspendedCall, columns: usize) -> Self {
        let schema = suspended.ticket.response_schema.as_ref().filter(|schema| !schema.is_null());
        let shape = match schema {
            _ if asks_to_permit(suspended) => Shape::Permission,
            None => Shape::Confirmation,
            Some(schema) => match fields(schema) {
                Some(fields) => Shape::Fields(fields),
                None => Shape::One(input(schema)),
            },
        };
        let text =
            schema.map(|schema| marked(&serde_json::to_string_pretty(schema).unwrap_or_default(), columns));
        Self { shape, schema: text, entered: Map::new(), at: 0, columns }
    }

    /// Returns whether the answer is typed as JSON, for which its schema is needed.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.shape, Shape::One(Input::Json))
    }

    /// Starts over, because the answer does not fit.
    pub(super) fn restart(&mut self) {
        self.entered.clear();
        self.at = 0;
    }

    /// Returns the lines that ask for the next entry.
    pub(super) fn prompt(&self) -> String {
        let way_out =
            format!("{DIM}(`?` explains, `cancel` ends the call, Enter alone leaves it open){DIM:#}");
        match &self.shape {
            Shape::Permission => {
                format!(
                    "{}  {}  {}  {}  {way_out}",
                    key('o', "nce"),
                    key('t', "hread"),
                    key('a', "lways"),
                    key('n', "o")
                )
            }
            Shape::Confirmation => format!("{}  {way_out}", asked_for(&Input::YesNo, self.columns)),
            Shape::One(input) => format!("{}  {way_out}", asked_for(input, self.columns)),
            Shape::Fields(fields) => match fields.get(self.at) {
                Some(field) => field.prompt(self.at + 1, fields.len(), self.columns),
                None => String::new(),
            },
        }
    }

    /// Takes one typed line.
    pub(super) fn enter(&mut self, line: &str) -> Step {
        let line = line.trim();
        match line {
            "?" => return Step::Again(Some(self.explanation())),
            "cancel" => return Step::Done(DecisionAnswer::Cancel),
            _ => {}
        }
        match &self.shape {
            _ if line.is_empty() && !matches!(self.shape, Shape::Fields(_)) => Step::Open,
            Shape::Permission => permission(line),
            Shape::Confirmation => match read(&Input::YesNo, line) {
                Ok(Value::Bool(true)) => Step::Done(DecisionAnswer::Resume(json!(true))),
                Ok(_) => Step::Done(DecisionAnswer::Cancel),
                // Without a schema, any value is an answer.
                Err(why) => json_answer(line).map_or_else(|| again(why), Step::Done),
            },
            Shape::One(input) => match read(input, line) {
                Ok(value) => Step::Done(DecisionAnswer::Resume(value)),
                Err(why) => json_answer(line).map_or_else(|| again(why), Step::Done),
            },
            Shape::Fields(_) => self.enter_field(line),
        }
    }

    fn enter_field(&mut self, line: &str) -> Step {
        let Shape::Fields(fields) = &self.shape else { return Step::Open };
        if line.starts_with('{') && self.at == 0 {
            // The whole answer at once.
            return json_answer(line).map_or_else(|| again("not valid JSON".to_owned()), Step::Done);
        }
        if let Some(field) = fields.get(self.at) {
            match (line, field.is_required) {
                ("", true) if field.is_nullable => drop(self.entered.insert(field.name.clone(), Value::Null)),
                ("", true) => return Step::Open,
                ("", false) => {}
                (line, _) => match read(&field.input, line) {
                    Ok(value) => drop(self.entered.insert(field.name.clone(), value)),
                    Err(why) => return again(why),
                },
            }
            self.at += 1;
        }
        if self.at < fields.len() {
            return Step::Again(None);
        }
        Step::Done(DecisionAnswer::Resume(Value::Object(std::mem::take(&mut self.entered))))
    }

    fn explanation(&self) -> String {
        match &self.shape {
            Shape::Permission => format!(
                "o  this call, once\n\
                 t  the same call with the same arguments, in this thread\n\
                 a  the same, in every thread; it is written to tollgate.toml\n\
                 n  the call does not run\n\
                 More precise answers are JSON, such as {{\"remember\": \"run\"}} or \
                 {{\"remember\": \"thread\", \"for\": \"tool\"}}.\n\
                 {BOLD}schema of the answer{BOLD:#}\n{}",
                self.schema.as_deref().unwrap_or_default()
            ),
            Shape::Confirmation => "y  the call goes on\nn  the call is cancelled".to_owned(),
            Shape::One(_) | Shape::Fields(_) => {
                let schema = self.schema.as_deref().unwrap_or_default();
                let whole = match self.shape {
                    Shape::Fields(_) => {
                        "the answer can also be typed whole, as one line of JSON, at the first field\n"
                    }
                    _ => "",
                };
                format!("{whole}{BOLD}schema of the answer{BOLD:#}\n{schema}")
            }
        }
    }
}

impl Field {
    fn prompt(&self, number: usize, of: usize, columns: usize) -> String {
        let need = if self.is_required && !self.is_nullable {
            "required; `?` explains, `cancel` ends the call, Enter alone leaves it open"
        } else {
            "optional; Enter alone skips it"
        };
        let name = shown_line(&json!(self.name).to_string(), MAX_SHOWN);
        let described = match &self.description {
            Some(words) => format!("{name}: {}", shown_line(words, 400)),
            None => name,
        };
        format!(
            "{DIM}field {number} of {of}, {need}{DIM:#}\n{MARK}{}\n{}",
            continued(&described, MARK.len(), columns),
            asked_for(&self.input, columns)
        )
    }
}

/// Returns a word whose first letter answers.
fn key(letter: char, rest: &str) -> String {
    format!("[{BOLD}{letter}{BOLD:#}]{rest}")
}

/// Returns the host's words for the kind of value to type.
fn asked_for(input: &Input, columns: usize) -> String {
    match input {
        Input::YesNo => format!("{} / {}", key('y', "es"), key('n', "o")),
        Input::Choice(values) => {
            let mut lines: Vec<String> = (1..)
                .zip(values)
                .map(|(number, value)| {
                    let value = shown_line(&value.to_string(), MAX_SHOWN);
                    format!("{number:>4}  {}", continued(&value, 6, columns))
                })
                .collect();
            lines.push(format!("a number from 1 to {}:", values.len()));
            lines.join("\n")
        }
        Input::Text => "a text:".to_owned(),
        Input::Number => "a number:".to_owned(),
        Input::Json => "a value as JSON:".to_owned(),
    }
}

/// Returns the fields of an object that can be typed one after another.
fn fields(schema: &Value) -> Option<Vec<Field>> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let properties = schema.get("properties").and_then(Value::as_object)?;
    if !is_object || properties.is_empty() || properties.len() > MAX_FIELDS {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // A property that is required and not described could not be typed.
    if required.iter().any(|name| !properties.contains_key(*name)) {
        return None;
    }
    let field = |(name, schema): (&String, &Value)| {
        let described = |schema: &Value| schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let (inner, is_nullable) = without_null(schema);
        Field {
            name: name.clone(),
            description: described(schema).or_else(|| described(&inner)),
            is_required: required.contains(&name.as_str()),
            is_nullable,
            input: input_of(&inner),
        }
    };
    let (mut first, others): (Vec<_>, Vec<_>) =
        properties.iter().map(field).partition(|field| field.is_required);
    first.extend(others);
    Some(first)
}

fn input(schema: &Value) -> Input {
    input_of(&without_null(schema).0)
}

/// Returns the schema without `null`, and whether `null` is one of its values: `["string", "null"]`,
/// an alternative of `anyOf` or `oneOf`, or a value of `enum`.
fn without_null(schema: &Value) -> (Cow<'_, Value>, bool) {
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
    if let Some([one, other]) = alternatives.map(Vec::as_slice) {
        let is_null = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("null");
        return match (is_null(one), is_null(other)) {
            (false, true) => (Cow::Borrowed(one), true),
            (true, false) => (Cow::Borrowed(other), true),
            _ => (Cow::Borrowed(schema), false),
        };
    }
    let mut inner = Cow::Borrowed(schema);
    let types = schema.get("type").and_then(Value::as_array).map(Vec::as_slice);
    if let Some([one, other]) = types
        && (one == "null") != (other == "null")
    {
        inner.to_mut()["type"] = if one == "null" { other.clone() } else { one.clone() };
    }
    if let Some(values) = inner.get("enum").and_then(Value::as_array)
        && values.iter().any(Value::is_null)
    {
        let others: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
        inner.to_mut()["enum"] = Value::Array(others);
    }
    let is_nullable = matches!(inner, Cow::Owned(_));
    (inner, is_nullable)
}

fn input_of(schema: &Value) -> Input {
    let values = schema.get("enum").and_then(Value::as_array);
    if let Some(values) = values.filter(|values| !values.is_empty() && values.len() <= MAX_CHOICES) {
        return Input::Choice(values.clone());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => Input::YesNo,
        Some("string") => Input::Text,
        Some("integer" | "number") => Input::Number,
        _ => Input::Json,
    }
}

/// Reads one value, as it is typed for this input.
fn read(input: &Input, line: &str) -> Result<Value, String> {
    match input {
        Input::YesNo => match line.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(json!(true)),
            "n" | "no" | "false" => Ok(json!(false)),
            _ => Err("type y for yes or n for no".to_owned()),
        },
        Input::Choice(values) => {
            let by_number = line.parse::<usize>().ok().and_then(|number| values.get(number.checked_sub(1)?));
            let typed = || tollgate_agent::json::parse_exact(line).unwrap_or_else(|_| json!(line));
            let by_value = || values.iter().find(|value| **value == typed() || **value == json!(line));
            by_number
                .or_else(by_value)
                .cloned()
                .ok_or_else(|| format!("type a number from 1 to {}", values.len()))
        }
        // Quotes allow an empty text, and the words that are commands here.
        Input::Text => Ok(match tollgate_agent::json::parse_exact(line) {
            Ok(Value::String(text)) => json!(text),
            _ => json!(line),
        }),
        Input::Number => match tollgate_agent::json::parse_exact(line) {
            Ok(number @ Value::Number(_)) => Ok(number),
            _ => Err("type a number, such as 3 or 0.5".to_owned()),
        },
        Input::Json => tollgate_agent::json::parse_exact(line)
            .map_err(|e| format!("not valid JSON: {e}; a text needs its quotes")),
    }
}

fn permission(line: &str) -> Step {
    let answer = match line.to_ascii_lowercase().as_str() {
        "o" | "once" | "y" | "yes" | "true" => DecisionAnswer::Resume(json!(true)),
        "t" | "thread" => DecisionAnswer::Resume(json!({"remember": "thread"})),
        "a" | "always" => DecisionAnswer::Resume(json!({"remember": "always"})),
        "n" | "no" | "false" => DecisionAnswer::Cancel,
        _ => match json_answer(line) {
            Some(answer) => answer,
            None => return again("type o, t, a or n; `?` explains them".to_owned()),
        },
    };
    Step::Done(answer)
}

/// Returns an object that was typed as JSON as the answer: the run checks whether it fits.
fn json_answer(line: &str) -> Option<DecisionAnswer> {
    let value = tollgate_agent::json::parse_exact(line).ok()?;
    value.is_object().then_some(DecisionAnswer::Resume(value))
}

fn again(words: String) -> Step {
    Step::Again(Some(words))
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
