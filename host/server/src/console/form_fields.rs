//! The fields of a form as HTML.

use super::form::{Entries, EntryError, Field, Form, Property, ROOT, entry_key};
use super::text;
use maud::{Markup, html};
use serde_json::Value;
use tollgate_agent::text::cleaned;

/// The surroundings of a form's fields.
pub(super) struct Context<'a> {
    /// The beginning of the fields' ids, unique on the page.
    pub(super) id: &'a str,
    /// The entries of a form that is shown again.
    pub(super) entries: &'a Entries,
    pub(super) errors: &'a [EntryError],
}

impl Context<'_> {
    fn error(&self, pointer: &str) -> Option<&str> {
        self.errors.iter().find(|error| error.pointer == pointer).map(|error| error.problem.as_str())
    }
}

/// A field with everything that its parts share.
struct FieldContext<'a> {
    context: &'a Context<'a>,
    key: &'a str,
    id: String,
    error: Option<&'a str>,
    /// Whether the value may not be left out.
    is_required: bool,
}

/// Renders the fields of a form.
pub(super) fn of_form(form: &Form, context: &Context<'_>) -> Markup {
    match form {
        Form::Permission | Form::Anything => html! {},
        Form::Json => json_field(context),
        Form::Single(property) => of_property(property, ROOT, "", true, context),
        Form::Object(properties) => html! {
            @for (index, property) in properties.iter().enumerate() {
                (of_property(property, &entry_key(ROOT, index), "", true, context))
            }
        },
    }
}

/// Renders a field for an answer as JSON.
pub(super) fn json_field(context: &Context<'_>) -> Markup {
    let id = format!("{}-json", context.id);
    let error = context.error("");
    html! {
        div.field {
            label for=(id) { "Answer as JSON" }
            (error_of(&id, error))
            textarea.mono id=(id) name="json" rows="4" spellcheck="false" aria-describedby=[described(&id, error)]
                aria-invalid=[error.map(|_| "true")] { (context.entries.get("json").unwrap_or_default()) }
        }
    }
}

/// Renders the field of a property. The fields of a group that may be left out are not required.
fn of_property(
    property: &Property,
    key: &str,
    below: &str,
    in_required: bool,
    context: &Context<'_>,
) -> Markup {
    let pointer = property.pointer(below);
    let id = format!("{}-{}", context.id, key.replace('.', "-"));
    let is_required = in_required && property.required;
    let place = FieldContext { context, key, error: context.error(&pointer), id, is_required };
    match &property.field {
        Field::Group(properties) => html! {
            fieldset {
                legend { (label(property)) }
                (hint(property))
                (error_of(&place.id, place.error))
                @for (index, inner) in properties.iter().enumerate() {
                    (of_property(inner, &entry_key(key, index), &pointer, is_required, context))
                }
            }
        },
        Field::Boolean => place.radios(property, &[("true", "Yes".to_owned()), ("false", "No".to_owned())]),
        Field::Choice(values) if values.len() <= 4 => {
            let options: Vec<(String, String)> = indexed(values);
            let options: Vec<(&str, String)> =
                options.iter().map(|(at, word)| (at.as_str(), word.clone())).collect();
            place.radios(property, &options)
        }
        Field::Choice(values) => place.select(property, values),
        Field::Choices(values) => place.boxes(property, values),
        Field::Constant(value) => place.constant(property, value),
        Field::Text { .. } | Field::Number { .. } | Field::Json => place.input(property),
    }
}

impl FieldContext<'_> {
    /// Returns the entry to show: the last one, or the default.
    fn shown(&self, property: &Property) -> String {
        let default = || match &property.default {
            // A default with characters that a person does not see is not sent unseen.
            Some(Value::String(text)) if cleaned(text, usize::MAX) != *text => String::new(),
            Some(Value::String(text)) if !matches!(property.field, Field::Json) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        self.context.entries.get(self.key).map_or_else(default, str::to_owned)
    }

    fn input(&self, property: &Property) -> Markup {
        let shown = self.shown(property);
        let (described, invalid) = (described_by(&self.id, property, self.error), self.error.map(|_| "true"));
        let control = match &property.field {
            Field::Text { min, max, format } if max.is_none_or(|max| max > 120) && format.is_none() => {
                html! {
                    textarea id=(self.id) name=(self.key) rows="1" required[self.is_required && *min > 0]
                        maxlength=[*max] aria-describedby=[described] aria-invalid=[invalid] { "\n" (shown) }
                }
            }
            Field::Text { min, max, format } => html! {
                input id=(self.id) name=(self.key) type=(input_type(format.as_deref())) value=(shown)
                    required[self.is_required && *min > 0] maxlength=[*max]
                    aria-describedby=[described] aria-invalid=[invalid];
            },
            Field::Number { whole, min, max } => html! {
                input.short id=(self.id) name=(self.key) type="number" value=(shown) required[self.is_required]
                    step=(if *whole { "1" } else { "any" }) min=[min.as_ref().map(Value::to_string)]
                    max=[max.as_ref().map(Value::to_string)]
                    aria-describedby=[described] aria-invalid=[invalid];
            },
            _ => html! {
                textarea.mono id=(self.id) name=(self.key) rows="3" spellcheck="false"
                    aria-describedby=[described] aria-invalid=[invalid] { "\n" (shown) }
            },
        };
        html! {
            div.field {
                label for=(self.id) { (label(property)) @if matches!(property.field, Field::Json) { " (JSON)" } }
                span #{ (self.id) "-hint" } { (hint(property)) }
                (error_of(&self.id, self.error))
                (control)
            }
        }
    }

    fn radios(&self, property: &Property, options: &[(&str, String)]) -> Markup {
        let entered = self.context.entries.get(self.key).map(str::to_owned);
        let chosen = entered.or_else(|| default_option(property));
        html! {
            fieldset.choice aria-describedby=[described(&self.id, self.error)] {
                legend { (label(property)) }
                (hint(property))
                (error_of(&self.id, self.error))
                div.options { @for (value, words) in options {
                    label.option {
                        input type="radio" name=(self.key) value=(value) required[self.is_required]
                            checked[chosen.as_deref() == Some(*value)];
                        span { (text::line(words, 200)) }
                    }
                } }
            }
        }
    }

    fn select(&self, property: &Property, values: &[Value]) -> Markup {
        let entered = self.context.entries.get(self.key).map(str::to_owned);
        let chosen = entered.or_else(|| default_option(property)).unwrap_or_default();
        html! {
            div.field {
                label for=(self.id) { (label(property)) }
                span #{ (self.id) "-hint" } { (hint(property)) }
                (error_of(&self.id, self.error))
                select id=(self.id) name=(self.key) required[self.is_required]
                    aria-describedby=[described_by(&self.id, property, self.error)] {
                    option value="" { "choose" }
                    @for (index, words) in indexed(values) {
                        option value=(index) selected[index == chosen] { (text::line(&words, 200)) }
                    }
                }
            }
        }
    }

    fn boxes(&self, property: &Property, values: &[Value]) -> Markup {
        let entries = self.context.entries;
        let entered: Vec<&str> = entries.all(self.key).collect();
        let defaults = property.default.as_ref().and_then(Value::as_array).filter(|_| entries.is_empty());
        html! {
            fieldset.choice aria-describedby=[described(&self.id, self.error)] {
                legend { (label(property)) }
                (hint(property))
                (error_of(&self.id, self.error))
                div.options { @for (at, (index, words)) in indexed(values).into_iter().enumerate() {
                    label.option {
                        input type="checkbox" name=(self.key) value=(index)
                            checked[entered.contains(&index.as_str()) || defaults.is_some_and(|all| all.contains(&values[at]))];
                        span { (text::line(&words, 200)) }
                    }
                } }
            }
        }
    }

    fn constant(&self, property: &Property, value: &Value) -> Markup {
        let words = html! { (label(property)) @if !property.name.is_empty() { ": " } code { (text::short_json(value, 400)) } };
        html! {
            @if property.required { p.field { (words) } (hint(property)) } @else {
                label.option {
                    input type="checkbox" name=(self.key) value="on" checked[self.context.entries.word(self.key) == "on"];
                    span { (words) }
                }
            }
        }
    }
}

fn label(property: &Property) -> Markup {
    let name = property.title.as_deref().unwrap_or(&property.name);
    html! {
        @if name.is_empty() { "Answer" } @else { (text::line(name, 120)) }
        @if !property.required { span.optional { " optional" } }
    }
}

fn hint(property: &Property) -> Markup {
    html! { @if let Some(words) = &property.description { span.hint { (text::line(words, 400)) } } }
}

fn error_of(id: &str, error: Option<&str>) -> Markup {
    html! { @if let Some(problem) = error { p.error #{ (id) "-error" } { (text::line(problem, 400)) } } }
}

fn described(id: &str, error: Option<&str>) -> Option<String> {
    error.map(|_| format!("{id}-error"))
}

fn described_by(id: &str, property: &Property, error: Option<&str>) -> Option<String> {
    let hint = property.description.as_ref().map(|_| format!("{id}-hint"));
    let ids: Vec<String> = hint.into_iter().chain(described(id, error)).collect();
    (!ids.is_empty()).then(|| ids.join(" "))
}

fn default_option(property: &Property) -> Option<String> {
    let default = property.default.as_ref()?;
    match &property.field {
        Field::Choice(values) => {
            values.iter().position(|value| value == default).map(|index| index.to_string())
        }
        _ => Some(default.to_string()),
    }
}

fn indexed(values: &[Value]) -> Vec<(String, String)> {
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.iter().enumerate().map(|(index, value)| (index.to_string(), words(value))).collect()
}

fn input_type(format: Option<&str>) -> &'static str {
    match format {
        Some("email") => "email",
        Some("date") => "date",
        _ => "text",
    }
}
