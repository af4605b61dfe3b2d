//! Doc comments: the descriptions of a tool and its parameters.
//!
//! The first paragraph is the description. Parameters are described in one of
//! three ways: `:param name: text`, `name: text` under `Args:`, or a list of
//! `* name - text`.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The contents of a function's doc comment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Description {
    /// The first paragraph, on one line.
    pub(crate) summary: String,
    /// The names of parameters with their descriptions, in order.
    pub(crate) parameters: Vec<(String, String)>,
}

/// Returns the lines of all doc comments of an item.
pub(crate) fn lines(attributes: &[Attribute]) -> Vec<String> {
    attributes
        .iter()
        .filter_map(doc)
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn doc(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
            let text = text.value();
            Some(if text.is_empty() { "\n".to_owned() } else { text })
        }
        _ => None,
    }
}

impl Description {
    /// Reads the lines of a doc comment. `is_parameter` distinguishes a list of
    /// parameters from other lists.
    pub(crate) fn read(lines: &[String], is_parameter: impl Fn(&str) -> bool) -> Self {
        let mut reader = Reader { description: Self::default(), place: Place::Summary, section: None };
        for line in lines {
            reader.line(line, &is_parameter);
        }
        reader.description
    }
}

/// The position of the next line in the doc comment.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Summary,
    /// After a parameter: the line continues its description.
    Parameter,
    Elsewhere,
}

struct Reader {
    description: Description,
    place: Place,
    /// Set under `Args:`; contains the indentation of its parameters once one is known.
    section: Option<Option<usize>>,
}

impl Reader {
    fn line(&mut self, line: &str, is_parameter: &impl Fn(&str) -> bool) {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if text.is_empty() {
            self.blank();
        } else if let Some((name, text)) = param(text).or_else(|| listed(text, is_parameter)) {
            self.begin(name, text);
        } else if is_args_heading(text) {
            self.section = Some(None);
            self.place = Place::Elsewhere;
        } else if is_heading(text) {
            self.section = None;
            self.place = Place::Elsewhere;
        } else if let Some((name, text)) = self.in_section(text, indent) {
            self.section = Some(Some(indent));
            self.begin(name, text);
        } else if item(text).is_some() && self.place == Place::Parameter {
            self.place = Place::Elsewhere;
        } else {
            self.go_on(text);
        }
    }

    fn blank(&mut self) {
        if self.place != Place::Summary || !self.description.summary.is_empty() {
            self.place = Place::Elsewhere;
        }
    }

    fn begin(&mut self, name: &str, text: &str) {
        self.description.parameters.push((name.to_owned(), text.to_owned()));
        self.place = Place::Parameter;
    }

    /// Parses `name: text` that is indented no further than the previous one. A line
    /// that is indented further continues that one.
    fn in_section<'a>(&self, text: &'a str, indent: usize) -> Option<(&'a str, &'a str)> {
        let known = self.section?;
        pair(text).filter(|_| known.is_none_or(|known| indent <= known))
    }

    fn go_on(&mut self, text: &str) {
        match self.place {
            Place::Summary => append(&mut self.description.summary, text),
            Place::Parameter => {
                if let Some((_, last)) = self.description.parameters.last_mut() {
                    append(last, text);
                }
            }
            Place::Elsewhere => {}
        }
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

/// Returns whether a line is `Args:` or `# Arguments`.
fn is_args_heading(text: &str) -> bool {
    heading(text).is_some_and(|text| matches!(text, "Args" | "Arguments" | "Parameters"))
}

/// Returns whether a line starts another section: `Returns:`, `# Errors`, `Raises:
/// KeyError`.
fn is_heading(text: &str) -> bool {
    let word = text.split_once(':').map_or(text, |(word, _)| word);
    text.starts_with('#')
        || text.starts_with(":return")
        || matches!(
            word,
            "Returns" | "Yields" | "Raises" | "Errors" | "Panics" | "Example" | "Examples" | "Note"
        ) && word.len() < text.len()
}

fn heading(text: &str) -> Option<&str> {
    match text.strip_suffix(':') {
        Some(text) => Some(text.trim_start_matches('#').trim()),
        None => text.strip_prefix('#').map(|text| text.trim_start_matches('#').trim()),
    }
}

/// Parses `:param name: text`.
fn param(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.strip_prefix(":param ")?.split_once(':')?;
    Some((name.trim(), text.trim()))
}

fn item(text: &str) -> Option<&str> {
    text.strip_prefix("* ").or_else(|| text.strip_prefix("- "))
}

/// Parses `* name - text`.
fn listed<'a>(text: &'a str, is_parameter: &impl Fn(&str) -> bool) -> Option<(&'a str, &'a str)> {
    let item = text.strip_prefix("* ").or_else(|| text.strip_prefix("- "))?;
    let (name, text) = item.split_once(" - ").or_else(|| item.split_once(": "))?;
    let name = bare(name);
    is_parameter(name).then_some((name, text.trim()))
}

/// Parses `name: text` and `name (type): text`.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.split_once(':')?;
    let name = bare(name.split_once(" (").map_or(name, |(name, _)| name));
    let is_word =
        !name.is_empty() && name.chars().all(|character| character.is_alphanumeric() || character == '_');
    is_word.then_some((name, text.trim()))
}

fn bare(name: &str) -> &str {
    name.trim().trim_matches('`')
}

#[cfg(test)]
#[path = "description_tests.rs"]
mod tests;
