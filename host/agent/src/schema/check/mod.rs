//! Checks a value against a compiled schema, in counted steps.
//!
//! Violations are collected only for subschemas that must all fit. For a subschema that may fail,
//! such as a branch of `anyOf`, the check stops at the first violation.
//! found, at the first reason.

mod arrays;
mod objects;
#[cfg(test)]
mod tests;

use super::compare::{compare, equal, hash, is_integer, is_multiple};
use super::meter::{Meter, Stop, as_u64, bound, parts};
use super::node::{Enum, If, Keyword, Limit, Node, NodeId, Type, Types};
use super::pattern::{Pattern, Search};
use super::report::{self, MAX_VIOLATIONS, Violation};
use serde_json::Value;

/// The deepest recursion of a check, through schema and value together.
const MAX_NESTING: u32 = 1_000;

/// The state of one check.
pub(super) struct Check<'s> {
    nodes: &'s [Node],
    meter: Meter,
    search: Search,
    nesting: u32,
    pub(super) found: Vec<Violation>,
}

/// The position of a part within the checked value.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    Whole,
    Member(&'p Place<'p>, &'p str),
    Element(&'p Place<'p>, usize),
}

/// A part to check, with its position.
#[derive(Clone, Copy)]
struct LocatedPart<'p> {
    value: &'p Value,
    place: &'p Place<'p>,
    /// Whether violations are collected.
    collects: bool,
}

/// For each member or element of a value, whether a keyword has evaluated it.
type EvaluatedParts = Vec<bool>;
type Answer = Result<bool, Stop>;

impl<'s> Check<'s> {
    /// Creates a check that takes at most `most_steps` steps, and no more than the value allows.
    pub(super) fn new(nodes: &'s [Node], value: &Value, most_steps: u64) -> Self {
        let meter = Meter::with_steps(bound(parts(value)).min(most_steps));
        Self { nodes, meter, search: Search::default(), nesting: 0, found: Vec::new() }
    }

    /// Checks the whole value.
    pub(super) fn run(&mut self, value: &Value) -> Answer {
        self.apply(0, LocatedPart { value, place: &Place::Whole, collects: true }, None)
    }

    pub(super) fn steps_taken(&self) -> u64 {
        self.meter.steps_taken()
    }

    /// Returns whether a part fits a subschema, and marks in `seen` the members or elements that
    /// the subschema evaluates.
    fn apply(&mut self, node: NodeId, at: LocatedPart<'_>, seen: Option<&mut EvaluatedParts>) -> Answer {
        self.meter.step()?;
        match &self.nodes[node] {
            Node::Any => Ok(true),
            Node::Nothing => {
                self.fail(at, || format!("False schema does not allow {}", report::shown(at.value)))
            }
            Node::Keywords(keywords) => {
                self.nesting += 1;
                if self.nesting > MAX_NESTING {
                    return Err(Stop::TooMuchWork);
                }
                let fits = self.keywords(keywords, at, seen);
                self.nesting -= 1;
                fits
            }
        }
    }

    fn keywords(
        &mut self,
        keywords: &'s [Keyword],
        at: LocatedPart<'_>,
        seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let looks_at_rest =
            matches!(keywords.last(), Some(Keyword::UnevaluatedMembers(_) | Keyword::UnevaluatedElements(_)));
        if !looks_at_rest {
            return self.each(keywords, at, seen);
        }
        // Only the members or elements that this subschema itself has evaluated.
        let mut own = self.nothing_seen(at.value)?;
        let fits = self.each(keywords, at, Some(&mut own))?;
        if let Some(seen) = seen {
            add(seen, &own);
        }
        Ok(fits)
    }

    fn each(
        &mut self,
        keywords: &'s [Keyword],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut fits = true;
        for keyword in keywords {
            fits &= self.keyword(keyword, at, seen.as_deref_mut())?;
            if !fits && !at.collects {
                break;
            }
        }
        Ok(fits)
    }

    fn keyword(
        &mut self,
        keyword: &'s Keyword,
        at: LocatedPart<'_>,
        seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        match (keyword, at.value) {
            (Keyword::Ref(node), _) => self.apply(*node, at, seen),
            (Keyword::AllOf(branches), _) => self.all_of(branches, at, seen),
            (Keyword::AnyOf(branches), _) => self.any_of(branches, at, seen),
            (Keyword::OneOf(branches), _) => self.one_of(branches, at, seen),
            (Keyword::Not(node), _) => self.not(*node, at),
            (Keyword::If(branches), _) => self.branch(branches, at, seen),
            (keyword, Value::Object(members)) => self.of_object(keyword, members, at, seen),
            (keyword, Value::Array(elements)) => self.of_array(keyword, elements, at, seen),
            (keyword, _) => self.of_scalar(keyword, at),
        }
    }

    fn of_scalar(&mut self, keyword: &'s Keyword, at: LocatedPart<'_>) -> Answer {
        match (keyword, at.value) {
            (Keyword::Type(types), value) => self.of_type(types, value, at),
            (Keyword::Const(expected), value) => {
                let equal = equal(expected, value, &mut self.meter)?;
                self.holds(equal, at, || format!("{} was expected", report::shown(expected)))
            }
            (Keyword::Enum(options), value) => {
                let among = self.is_among(options, value)?;
                self.holds(among, at, || report::not_among(value, options))
            }
            (Keyword::Limit(limit, bound), Value::Number(number)) => {
                let order = compare(number, bound);
                let within = match limit {
                    Limit::Minimum => order.is_ge(),
                    Limit::Maximum => order.is_le(),
                    Limit::ExclusiveMinimum => order.is_gt(),
                    Limit::ExclusiveMaximum => order.is_lt(),
                };
                self.holds(within, at, || report::beyond(at.value, *limit, bound))
            }
            (Keyword::MultipleOf(of), Value::Number(number)) => {
                self.holds(is_multiple(number, of), at, || format!("{number} is not a multiple of {of}"))
            }
            (Keyword::Length(least, most), Value::String(text)) => {
                self.meter.bytes(text.len())?;
                let words = ("is shorter than", "is longer than");
                self.counted(
                    as_u64(text.chars().count()),
                    (*least, *most),
                    at,
                    words,
                    ("character", "characters"),
                )
            }
            (Keyword::Pattern(pattern), Value::String(text)) => {
                let matches = self.matches(pattern, text)?;
                self.holds(matches, at, || {
                    format!(
                        "{} does not match \"{}\"",
                        report::shown(at.value),
                        report::beginning(&pattern.text)
                    )
                })
            }
            _ => Ok(true),
        }
    }

    fn of_type(&mut self, types: &Types, value: &Value, at: LocatedPart<'_>) -> Answer {
        let is = |kind: &Type| match (kind, value) {
            (Type::Null, Value::Null)
            | (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_))
            | (Type::String, Value::String(_))
            | (Type::Array, Value::Array(_))
            | (Type::Object, Value::Object(_)) => true,
            (Type::Integer, Value::Number(number)) => is_integer(number),
            _ => false,
        };
        self.holds(types.names.iter().any(is), at, || report::wrong_type(value, types))
    }

    fn is_among(&mut self, options: &'s Enum, value: &Value) -> Answer {
        if matches!(value, Value::Array(_) | Value::Object(_)) {
            let counted = parts(value);
            self.meter.steps(counted)?;
            if counted > options.most_parts {
                return Ok(false);
            }
        }
        let hash = hash(value, &mut self.meter)?;
        let first = options.hashes.partition_point(|(known, _)| *known < hash);
        for (known, place) in &options.hashes[first..] {
            if *known != hash {
                break;
            }
            if equal(&options.options[*place], value, &mut self.meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn all_of(
        &mut self,
        branches: &'s [NodeId],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut fits = true;
        for branch in branches {
            fits &= self.apply(*branch, at, seen.as_deref_mut())?;
            if !fits && !at.collects {
                break;
            }
        }
        Ok(fits)
    }

    fn any_of(
        &mut self,
        branches: &'s [NodeId],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut fits = false;
        for branch in branches {
            fits |= self.tried(*branch, at, seen.as_deref_mut())?;
            if fits && seen.is_none() {
                break;
            }
        }
        self.holds(fits, at, || none_fits(at.value, "anyOf"))
    }

    fn one_of(
        &mut self,
        branches: &'s [NodeId],
        at: LocatedPart<'_>,
        seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut fitting = 0;
        let mut own = match &seen {
            Some(_) => Some(self.nothing_seen(at.value)?),
            None => None,
        };
        for branch in branches {
            fitting += u32::from(self.tried(*branch, at, own.as_mut())?);
            if fitting > 1 {
                return self.fail(at, || {
                    format!(
                        "{} is valid under more than one of the schemas listed in the 'oneOf' keyword",
                        report::shown(at.value)
                    )
                });
            }
        }
        if let (Some(seen), Some(own)) = (seen, own) {
            add(seen, &own);
        }
        self.holds(fitting == 1, at, || none_fits(at.value, "oneOf"))
    }

    fn not(&mut self, node: NodeId, at: LocatedPart<'_>) -> Answer {
        let fits = self.apply(node, quiet(at.value), None)?;
        self.holds(!fits, at, || {
            format!("{} fits the schema of the 'not' keyword, which is not allowed", report::shown(at.value))
        })
    }

    fn branch(
        &mut self,
        branches: &'s If,
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let If { condition, then, otherwise } = branches;
        let next = match self.tried(*condition, at, seen.as_deref_mut())? {
            true => then,
            false => otherwise,
        };
        match next {
            Some(node) => self.apply(*node, at, seen),
            None => Ok(true),
        }
    }

    /// Returns whether the value fits a subschema that may fail. The elements that the subschema
    /// evaluated are marked only if it fits.
    fn tried(&mut self, node: NodeId, at: LocatedPart<'_>, seen: Option<&mut EvaluatedParts>) -> Answer {
        let Some(seen) = seen else { return self.apply(node, quiet(at.value), None) };
        let mut own = self.nothing_seen(at.value)?;
        let fits = self.apply(node, quiet(at.value), Some(&mut own))?;
        if fits {
            add(seen, &own);
        }
        Ok(fits)
    }

    /// Returns a mark for each member or element of this value, all unset.
    fn nothing_seen(&mut self, value: &Value) -> Result<EvaluatedParts, Stop> {
        let count = match value {
            Value::Array(elements) => elements.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        // Its memory matters more than the time to fill it.
        self.meter.steps(as_u64(count) / 4)?;
        Ok(vec![false; count])
    }

    fn matches(&mut self, pattern: &Pattern, text: &str) -> Answer {
        self.meter.step()?;
        pattern.is_match(text, &mut self.search, &mut self.meter)
    }

    fn counted(
        &mut self,
        count: u64,
        (least, most): (Option<u64>, Option<u64>),
        at: LocatedPart<'_>,
        words: (&str, &str),
        of: (&str, &str),
    ) -> Answer {
        let enough = match least {
            Some(least) => {
                self.holds(count >= least, at, || report::too_few(at.value, words.0, least, of))?
            }
            None => true,
        };
        let not_too_many = match most {
            Some(most) => self.holds(count <= most, at, || report::too_few(at.value, words.1, most, of))?,
            None => true,
        };
        Ok(enough && not_too_many)
    }

    fn holds(&mut self, holds: bool, at: LocatedPart<'_>, problem: impl FnOnce() -> String) -> Answer {
        if holds { Ok(true) } else { self.fail(at, problem) }
    }

    fn fail(&mut self, at: LocatedPart<'_>, problem: impl FnOnce() -> String) -> Answer {
        if at.collects {
            self.found.push(Violation { pointer: at.place.pointer(), problem: report::problem(&problem()) });
            if self.found.len() >= MAX_VIOLATIONS {
                return Err(Stop::EnoughFound);
            }
        }
        Ok(false)
    }
}

fn none_fits(value: &Value, keyword: &str) -> String {
    format!(
        "{} is not valid under any of the schemas listed in the '{keyword}' keyword",
        report::shown(value)
    )
}

/// Refers to a part without collecting its violations.
fn quiet(value: &Value) -> LocatedPart<'_> {
    LocatedPart { value, place: &Place::Whole, collects: false }
}

fn mark_seen(seen: &mut Option<&mut EvaluatedParts>, index: usize) {
    if let Some(seen) = seen {
        seen[index] = true;
    }
}

fn add(seen: &mut EvaluatedParts, more: &EvaluatedParts) {
    seen.iter_mut().zip(more).for_each(|(seen, more)| *seen |= more);
}

impl Place<'_> {
    /// Returns the position as a JSON Pointer (RFC 6901). Long names and deep positions are cut.
    fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut place = self;
        loop {
            match place {
                Place::Whole => break,
                Place::Member(outer, name) => {
                    steps.push(report::beginning(name).replace('~', "~0").replace('/', "~1"));
                    place = outer;
                }
                Place::Element(outer, index) => {
                    steps.push(index.to_string());
                    place = outer;
                }
            }
        }
        let pointer: String = steps.iter().rev().map(|step| format!("/{step}")).collect();
        report::place(pointer)
    }
}
