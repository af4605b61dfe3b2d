//! Doc comments: what a tool does, and what each parameter is.
//!
//! The first paragraph is the description. Parameters are described in one of
//! three ways: `:param name: text`, `name: text` under `Args:`, or a list of
//! `* name - text`.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// What a function's doc comment says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Description {
    /// The first paragraph, on one line.
    pub(crate) summary: String,
    /// Names with their texts, in their order.
    pub(crate) parameters: Vec<(String, String)>,
}

/// The lines of all doc comments of an item.
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
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if pair.path.is_ident("doc") => {
            let text = text.value();
            Some(if text.is_empty() {
                "\n".to_owned()
            } else {
                text
            })
        }
        _ => None,
    }
}

impl Description {
    /// Reads the lines of a doc comment. `is_parameter` tells a list of
    /// parameters from any other list.
    pub(crate) fn read(lines: &[String], is_parameter: impl Fn(&str) -> bool) -> Self {
        let mut reader = Reader {
            description: Self::default(),
            place: Place::Summary,
            indent: 0,
        };
        for line in lines {
            reader.line(line, &is_parameter);
        }
        reader.description
    }
}

/// Where in the doc comment the next line stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Summary,
    Parameter { in_section: bool },
    Section,
    Elsewhere,
}

struct Reader {
    description: Description,
    place: Place,
    /// How far the last parameter was indented: what goes on is further in.
    indent: usize,
}

impl Reader {
    fn line(&mut self, line: &str, is_parameter: &impl Fn(&str) -> bool) {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if text.is_empty() {
            self.place = self.after_blank();
        } else if let Some((name, text)) = param(text).or_else(|| listed(text, is_parameter)) {
            self.begin(
                name,
                text,
                indent,
                matches!(
                    self.place,
                    Place::Section | Place::Parameter { in_section: true }
                ),
            );
        } else if is_heading(text) {
            self.place = Place::Section;
        } else {
            self.other(text, indent, is_parameter);
        }
    }

    fn after_blank(&self) -> Place {
        match self.place {
            Place::Summary if self.description.summary.is_empty() => Place::Summary,
            Place::Section | Place::Parameter { in_section: true } => Place::Section,
            _ => Place::Elsewhere,
        }
    }

    fn begin(&mut self, name: &str, text: &str, indent: usize, in_section: bool) {
        self.description
            .parameters
            .push((name.to_owned(), text.to_owned()));
        self.place = Place::Parameter { in_section };
        self.indent = indent;
    }

    fn other(&mut self, text: &str, indent: usize, is_parameter: &impl Fn(&str) -> bool) {
        let in_section = matches!(
            self.place,
            Place::Section | Place::Parameter { in_section: true }
        );
        if in_section && let Some((name, rest)) = pair(text).filter(|(name, _)| is_parameter(name))
        {
            return self.begin(name, rest, indent, true);
        }
        match self.place {
            Place::Summary => append(&mut self.description.summary, text),
            Place::Parameter { .. } if indent > self.indent => {
                if let Some((_, last)) = self.description.parameters.last_mut() {
                    append(last, text);
                }
            }
            _ => self.place = Place::Elsewhere,
        }
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

/// `Args:`, `Arguments:`, `# Arguments`.
fn is_heading(text: &str) -> bool {
    matches!(
        text.trim_start_matches('#').trim().trim_end_matches(':'),
        "Args" | "Arguments" | "Parameters"
    ) && (text.ends_with(':') || text.starts_with('#'))
}

/// `:param name: text`
fn param(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.strip_prefix(":param ")?.split_once(':')?;
    Some((name.trim(), text.trim()))
}

/// `* name - text`
fn listed<'a>(text: &'a str, is_parameter: &impl Fn(&str) -> bool) -> Option<(&'a str, &'a str)> {
    let item = text
        .strip_prefix("* ")
        .or_else(|| text.strip_prefix("- "))?;
    let (name, text) = item.split_once(" - ").or_else(|| item.split_once(": "))?;
    let name = bare(name);
    is_parameter(name).then_some((name, text.trim()))
}

/// `name: text`, and `name (type): text`
fn pair(text: &str) -> Option<(&str, &str)> {
    let (name, text) = text.split_once(':')?;
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    Some((bare(name), text.trim()))
}

fn bare(name: &str) -> &str {
    name.trim().trim_matches('`')
}
