//! Regular expressions, compiled within memory limits and matched in counted steps.
//!
//! A match follows all states of the automaton at once. That is slower than a table of combined
//! states, but needs no growing cache, and every visited state can be counted.

mod classes;

use super::error::SchemaError;
use super::meter::{Meter, Stop, as_u64};
use classes::{Classes, with_bounded_classes};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most bytes of one compiled pattern, including the memory to search with it.
pub const MAX_PATTERN_BYTES: usize = 256 * 1024;
/// The most distinct patterns in one schema.
pub const MAX_PATTERNS: usize = 64;
/// The most bytes of text of all distinct patterns in one schema.
pub const MAX_PATTERN_TEXT_BYTES: usize = 16 * 1024;
/// The most wide character classes in one schema: each `\p{...}`, and each `[...]` in a pattern
/// with the flag `i`. Compiling one can take milliseconds.
pub const MAX_WIDE_CLASSES: usize = 64;
/// The most escapes such as `\w` in one schema. Each is replaced by a class of up to 150 bytes.
pub const MAX_CLASS_ESCAPES: usize = 1_024;
/// The bytes that a search needs for each state: its position in two sets and on the stack.
const SEARCH_BYTES_PER_STATE: usize = 20;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The pattern as written in the schema.
    pub(super) text: Box<str>,
    automaton: NFA,
}

/// The patterns of one schema while it is compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: BTreeMap<Box<str>, Arc<Pattern>>,
    text_bytes: usize,
    wide_classes: usize,
    class_escapes: usize,
    /// The size of all compiled patterns, in bytes.
    pub(super) bytes: usize,
}

impl Patterns {
    /// Returns the compiled form of a pattern. Equal patterns are compiled once.
    pub(super) fn compile(&mut self, text: &str, most_bytes: usize) -> Result<Arc<Pattern>, SchemaError> {
        if let Some(pattern) = self.known.get(text) {
            return Ok(Arc::clone(pattern));
        }
        self.take(text)?;
        let left = most_bytes.saturating_sub(self.bytes);
        let automaton = automaton(text, MAX_PATTERN_BYTES.min(left)).map_err(|why| match why {
            AutomatonError::Invalid(why) => {
                SchemaError(format!("the pattern \"{}\" of the schema is {why}", shown(text)))
            }
            AutomatonError::TooLarge if left < MAX_PATTERN_BYTES => SchemaError(format!(
                "the compiled patterns of the schema need more than the {most_bytes} bytes that are left for the patterns of one component; use fewer or simpler patterns"
            )),
            AutomatonError::TooLarge => SchemaError(format!(
                "the pattern \"{}\" of the schema needs more than {MAX_PATTERN_BYTES} bytes when it is compiled; repeat less, or use maxLength",
                shown(text)
            )),
        })?;
        let pattern = Arc::new(Pattern { text: text.into(), automaton });
        self.bytes += pattern.bytes();
        self.known.insert(text.into(), Arc::clone(&pattern));
        Ok(pattern)
    }

    /// Counts a pattern towards the limits before it is compiled.
    fn take(&mut self, text: &str) -> Result<(), SchemaError> {
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        if self.known.len() >= MAX_PATTERNS || self.text_bytes > MAX_PATTERN_TEXT_BYTES {
            return Err(SchemaError(format!(
                "the schema has too many patterns; at most {MAX_PATTERNS} with {MAX_PATTERN_TEXT_BYTES} bytes of text are compiled"
            )));
        }
        let classes = Classes::of(text);
        self.wide_classes += classes.unicode + if classes.ignores_case { classes.brackets } else { 0 };
        self.class_escapes += classes.escapes;
        if self.wide_classes > MAX_WIDE_CLASSES || self.class_escapes > MAX_CLASS_ESCAPES {
            return Err(SchemaError(format!(
                "the patterns of the schema have too many character classes; at most {MAX_CLASS_ESCAPES} like \"\\w\", and {MAX_WIDE_CLASSES} like \"\\p{{L}}\" or \"[...]\" without regard to case, are compiled"
            )));
        }
        Ok(())
    }
}

impl Pattern {
    /// Returns its size in bytes, including the memory to search with it.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.automaton)
    }

    /// Returns its number of states.
    pub(super) fn states(&self) -> usize {
        self.automaton.states().len()
    }

    /// Returns whether the pattern matches anywhere in the text.
    pub(super) fn is_match(&self, text: &str, search: &mut Search, meter: &mut Meter) -> Result<bool, Stop> {
        let text = text.as_bytes();
        search.make_room(self.states());
        let Search { now, next, stack } = search;
        now.clear();
        if self.reach(self.automaton.start_unanchored(), text, 0, now, stack, meter)? {
            return Ok(true);
        }
        for (at, byte) in text.iter().enumerate() {
            if now.members.is_empty() {
                return Ok(false);
            }
            next.clear();
            for state in &now.members {
                let follows = match self.automaton.state(*state) {
                    State::ByteRange { trans } => trans.matches_byte(*byte).then_some(trans.next),
                    State::Sparse(sparse) => {
                        meter.visit(as_u64(sparse.transitions.len()) / 8)?;
                        sparse.matches_byte(*byte)
                    }
                    State::Dense(dense) => dense.matches_byte(*byte),
                    _ => None,
                };
                meter.visit(1)?;
                if let Some(state) = follows
                    && self.reach(state, text, at + 1, next, stack, meter)?
                {
                    return Ok(true);
                }
            }
            std::mem::swap(now, next);
        }
        Ok(false)
    }

    /// Adds a state and all states that it reaches without another byte. Returns whether a match is
    /// among them.
    fn reach(
        &self,
        from: StateID,
        text: &[u8],
        at: usize,
        states: &mut States,
        stack: &mut Vec<StateID>,
        meter: &mut Meter,
    ) -> Result<bool, Stop> {
        stack.clear();
        stack.push(from);
        while let Some(state) = stack.pop() {
            meter.visit(1)?;
            if !states.insert(state) {
                continue;
            }
            match self.automaton.state(state) {
                State::Match { .. } => return Ok(true),
                State::Look { look, next } => {
                    if self.automaton.look_matcher().matches(*look, text, at) {
                        stack.push(*next);
                    }
                }
                State::Union { alternates } => {
                    meter.visit(as_u64(alternates.len()))?;
                    stack.extend(alternates.iter().rev());
                }
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt2, *alt1]),
                State::Capture { next, .. } => stack.push(*next),
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Fail => {}
            }
        }
        Ok(false)
    }
}

/// The memory of a search, reused by the next one.
#[derive(Debug, Default)]
pub(super) struct Search {
    now: States,
    next: States,
    stack: Vec<StateID>,
}

impl Search {
    fn make_room(&mut self, states: usize) {
        self.now.make_room(states);
        self.next.make_room(states);
    }
}

/// A set of states that can be cleared in constant time.
#[derive(Debug, Default)]
struct States {
    members: Vec<StateID>,
    /// The index in `members` at which each state would be.
    places: Vec<u32>,
}

impl States {
    fn make_room(&mut self, states: usize) {
        if self.places.len() < states {
            self.places.resize(states, 0);
        }
    }

    fn clear(&mut self) {
        self.members.clear();
    }

    fn insert(&mut self, state: StateID) -> bool {
        let place = &mut self.places[state.as_usize()];
        if self.members.get(*place as usize) == Some(&state) {
            return false;
        }
        *place = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        self.members.push(state);
        true
    }
}

enum AutomatonError {
    Invalid(String),
    TooLarge,
}

fn automaton(text: &str, most_bytes: usize) -> Result<NFA, AutomatonError> {
    let bounded = with_bounded_classes(text);
    let invalid = || AutomatonError::Invalid("not a supported regular expression".to_owned());
    let translated = jsonschema_regex::to_rust_regex(&bounded).map_err(|()| invalid())?;
    let config = thompson::Config::new().which_captures(WhichCaptures::None).nfa_size_limit(Some(most_bytes));
    let automaton = thompson::Compiler::new().configure(config).build(&translated).map_err(|why| {
        if why.size_limit().is_some() {
            return AutomatonError::TooLarge;
        }
        let mut source: &dyn std::error::Error = &why;
        while let Some(deeper) = source.source() {
            source = deeper;
        }
        // The reason is in the last line of such an error, below a drawing.
        let why = source.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        AutomatonError::Invalid(format!("not valid: {}", crate::text::clean(why, 200)))
    })?;
    match bytes_of(&automaton) <= most_bytes {
        true => Ok(automaton),
        false => Err(AutomatonError::TooLarge),
    }
}

fn bytes_of(automaton: &NFA) -> usize {
    automaton.memory_usage() + automaton.states().len() * SEARCH_BYTES_PER_STATE
}

fn shown(text: &str) -> String {
    crate::text::clean(text, 100)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    fn compiled(text: &str) -> Result<Arc<Pattern>, String> {
        Patterns::default().compile(text, usize::MAX).map_err(|e| e.to_string())
    }

    fn matches(pattern: &str, text: &str) -> bool {
        let mut meter = Meter::for_value(&Value::from(text));
        compiled(pattern).unwrap().is_match(text, &mut Search::default(), &mut meter).unwrap()
    }

    #[test]
    fn patterns_match_as_the_validator_library_matches_them() {
        let texts = [
            "",
            "a",
            "ab",
            "abc-9",
            "A9_",
            "\u{e4}\u{f6}",
            "a\nb",
            " x ",
            "\u{a0}",
            "12.5",
            "\u{1}",
            "a.b",
            "[&&]",
            "k\u{212a}",
            "word two",
        ];
        for pattern in [
            "",
            "^$",
            "a",
            "^a$",
            "^[a-z]{1,3}(-[0-9])?$",
            r"^\w+$",
            r"\W",
            r"^\d+(\.\d+)?$",
            r"^\s|\s$",
            r"\S+",
            r"^\p{L}+$",
            r"\P{L}",
            r"\ca",
            r"[\w-]+$",
            r"[^\s]$",
            r"\bword\b",
            r"^.{2}$",
            "(?i)^K+$",
            "x*",
            "[&&]",
            r"[[&]+",
            "(a|ab)(c|-)*",
            r"^(?:a|\w){0,2}$",
        ] {
            let schema = serde_json::json!({"pattern": pattern});
            let library = jsonschema::draft202012::options()
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .build(&schema)
                .unwrap();
            for text in texts {
                let expected = library.is_valid(&Value::from(text));
                assert_eq!(matches(pattern, text), expected, "{pattern:?} on {text:?}");
            }
        }
    }

    #[test]
    fn z2_a_compiled_pattern_is_bounded() {
        for bomb in [
            r"(\w{1000}){1000}",
            r"((\w{1000}){1000}){1000}",
            r"\p{L}{1000}",
            r"(?i)(\p{L}|\p{N}){1,500}",
            "((a{1000}){1000}){1000}",
            "(((|a){1000}){1000}){1000}",
            r"(\ba){60000}",
            "[\u{0}-\u{10ffff}]{9999}",
        ] {
            let why = compiled(bomb).unwrap_err();
            assert!(why.contains("262144 bytes"), "{bomb}: {why}");
        }
        for honest in
            [r"^[a-zA-Z0-9._%+-]{1,64}@[a-zA-Z0-9.-]{1,253}\.[a-z]{2,24}$", r"^\p{L}[\p{L}\p{N} '-]{0,9}$"]
        {
            let pattern = compiled(honest).unwrap();
            assert!(pattern.bytes() <= MAX_PATTERN_BYTES, "{honest} takes {}", pattern.bytes());
        }
    }

    #[test]
    fn z2_classes_that_take_long_to_compile_are_counted_before() {
        for (unit, count) in
            [(r"\p{L}", 65), ("\\w", 1_025), ("(?i)[\u{0}-\u{10ffff}]", 65), (r"(?i:[^a])", 65)]
        {
            let why = compiled(&unit.repeat(count)).unwrap_err();
            assert!(why.contains("character classes"), "{unit}: {why}");
        }
        let plain = "[a-z][0-9]".repeat(500);
        assert!(compiled(&plain).is_ok());
        assert!(compiled(&r"\cA".repeat(5_000)).is_ok());
    }

    #[test]
    fn z2_patterns_of_a_schema_are_bounded() {
        let mut patterns = Patterns::default();
        for number in 0..MAX_PATTERNS {
            patterns.compile(&format!("^a{number}$"), usize::MAX).unwrap();
            patterns.compile("^a0$", usize::MAX).unwrap();
        }
        assert!(patterns.compile("^b$", usize::MAX).is_err());
        let mut patterns = Patterns::default();
        assert!(patterns.compile(&"a".repeat(MAX_PATTERN_TEXT_BYTES + 1), usize::MAX).is_err());
        let why = Patterns::default().compile("[a-z]{1,100}", 1_000).unwrap_err().to_string();
        assert!(why.contains("1000 bytes"), "{why}");
    }

    #[test]
    fn z1_matching_is_counted_by_the_states_that_are_visited() {
        let pattern = compiled("(a?){300}b").unwrap();
        let text = "a".repeat(20_000);
        let mut meter = Meter::for_value(&Value::from(text.as_str()));
        let found = pattern.is_match(&text, &mut Search::default(), &mut meter);
        assert_eq!(found, Err(Stop::TooMuchWork));
        assert!(!matches("^[a-z ]+$", &"words and ".repeat(100_000).to_uppercase()));
        assert!(matches("^[a-z ]+$", &"words and ".repeat(100_000)));
    }

    #[test]
    fn what_rust_does_not_understand_is_refused() {
        for pattern in [r"(a)\1", "(?=a)", "(", "[a", r"\a", "a{2,1}"] {
            assert!(compiled(pattern).is_err(), "{pattern}");
        }
    }
}
