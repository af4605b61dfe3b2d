//! The documentation is in plain English: it avoids constructions that readers stumble over.

use crate::{assert_none, text_files};

/// A construction to avoid.
struct Pattern {
    /// The words in lower case, with a space between them.
    words: &'static str,
    /// Whether only the beginning of a sentence counts.
    opens: bool,
    /// What to write instead, or why.
    instead: &'static str,
}

const fn anywhere(words: &'static str, instead: &'static str) -> Pattern {
    Pattern { words, opens: false, instead }
}

const fn opening(words: &'static str, instead: &'static str) -> Pattern {
    Pattern { words, opens: true, instead }
}

const PATTERNS: [Pattern; 19] = [
    opening("what", "start with a noun, or name the actor and use a verb"),
    opening("who", "name the actor"),
    opening("whoever", "name the actor"),
    opening("of what", "name the subject"),
    anywhere("whoever", "name the actor"),
    anywhere("nobody", "`no one`, or name who does not"),
    anywhere("somebody", "`a person`, or name the actor"),
    anywhere("any more", "`no longer`"),
    anywhere("for ever", "`forever`"),
    anywhere("at most so many", "`at most N`"),
    anywhere("none where", "`none if`"),
    anywhere("where there is none", "`if there is none`"),
    anywhere("where it has none", "`if it has none`"),
    anywhere("is no json", "`is not JSON`"),
    anywhere("are no json", "`are not JSON`"),
    anywhere("is told", "`receives`, `is notified`"),
    anywhere("are told", "`receive`, `are notified`"),
    anywhere("it lies", "`it is`"),
    anywhere("that lies", "`that is`"),
];

#[test]
fn documents_are_in_plain_english() {
    let mut found = Vec::new();
    let mut read = 0;
    for file in text_files().iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text) in prose(&file.text) {
            read += 1;
            for pattern in PATTERNS.iter().filter(|pattern| occurs(pattern, &text)) {
                found.push(format!("{}:{line}: \"{}\"; {}", file.path, pattern.words, pattern.instead));
            }
        }
    }
    assert_none("Write these plainly:", found);
    assert!(read > 1_000, "only {read} lines were read");
}

#[test]
fn patterns_find_what_they_are_for() {
    let opens = opening("what", "");
    assert!(occurs(&opens, "What is stored is kept."));
    assert!(occurs(&opens, "- **What** runs"));
    assert!(occurs(&opens, "It ends. What is left stays."));
    assert!(!occurs(&opens, "What does it cost?"));
    assert!(!occurs(&opens, "It says what it does, whatever happens."));
    let inside = anywhere("is told", "");
    assert!(occurs(&inside, "The client is told."));
    assert!(!occurs(&inside, "This toldering"));
    let lines: Vec<String> =
        prose("One `nobody` two\n```sh\nnobody\n```\nthree").map(|(_, text)| text).collect();
    assert_eq!(lines, ["One  two", "three"]);
}

/// The lines of a document outside of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then(|| (at + 1, line.split('`').step_by(2).collect()))
    })
}

/// Whether a line has the construction. A question may open with any word.
fn occurs(pattern: &Pattern, line: &str) -> bool {
    let mut sentences = line.split_inclusive(['.', '?', '!']);
    sentences.any(|sentence| {
        let is_word = |c: char| c.is_alphanumeric() || c == '-';
        let words: Vec<&str> =
            sentence.split(|c| !is_word(c)).filter(|word| !word.trim_matches('-').is_empty()).collect();
        let wanted: Vec<&str> = pattern.words.split(' ').collect();
        let same = |found: &[&str]| found.iter().zip(&wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if pattern.opens {
            let capital = words.first().is_some_and(|word| word.starts_with(char::is_uppercase));
            return capital
                && !sentence.ends_with('?')
                && words.len() >= wanted.len()
                && same(&words[..wanted.len()]);
        }
        words.windows(wanted.len()).any(same)
    })
}
