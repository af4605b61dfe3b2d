//! Documentation, comments and error messages are in plain English: they avoid constructions that readers
//! stumble over.

use crate::{TextFile, assert_none, text_files};

/// A construction to avoid.
struct Pattern {
    /// Words in lower case, separated by spaces.
    words: &'static str,
    /// Whether the pattern matches only the beginning of a sentence.
    opens: bool,
    /// The wording to use instead.
    instead: &'static str,
    /// A word after which the pattern does not match.
    unless_next: &'static str,
}

const fn anywhere(words: &'static str, instead: &'static str) -> Pattern {
    Pattern { words, opens: false, instead, unless_next: "" }
}

const fn opening(words: &'static str, instead: &'static str) -> Pattern {
    Pattern { words, opens: true, instead, unless_next: "" }
}

/// `It is no tool`, but not `it is no longer`.
const fn negated(words: &'static str) -> Pattern {
    Pattern { words, opens: false, instead: "`is not a`", unless_next: "longer" }
}

/// `It stands there`, but not `it stands for`.
const fn standing(words: &'static str) -> Pattern {
    Pattern { words, opens: false, instead: "`is`, `exists`", unless_next: "for" }
}

/// A thing that speaks, such as `the message says`.
const fn saying(words: &'static str) -> Pattern {
    anywhere(words, "`names`, `has`, `records`, `states`")
}

const PATTERNS: [Pattern; 40] = [
    opening("what", "start with a noun, or name the actor and use a verb"),
    opening("who", "name the actor"),
    opening("whoever", "name the actor"),
    opening("where", "`if` for a condition; otherwise start with a noun"),
    opening("of what", "name the subject"),
    anywhere("whoever", "name the actor"),
    anywhere("nobody", "`no one`, or name who does not"),
    anywhere("somebody", "`a person`, or name the actor"),
    anywhere("any more", "`no longer`"),
    anywhere("for ever", "`forever`"),
    anywhere("so many", "`this many`, `at most N`"),
    anywhere("none where", "`none if`"),
    anywhere("where there is none", "`if there is none`"),
    anywhere("where it has none", "`if it has none`"),
    anywhere("is no json", "`is not JSON`"),
    anywhere("are no json", "`are not JSON`"),
    negated("it is no"),
    negated("that is no"),
    negated("this is no"),
    negated("which is no"),
    anywhere("is told", "`receives`, `is notified`"),
    anywhere("are told", "`receive`, `are notified`"),
    anywhere("was told", "`received`, `was notified`"),
    anywhere("were told", "`received`, `were notified`"),
    anywhere("told of", "`notified of`"),
    anywhere("is no text", "`is not text`"),
    anywhere("is no number", "`is not a number`"),
    anywhere("it lies", "`it is`"),
    anywhere("that lies", "`that is`"),
    standing("it stands"),
    standing("that stands"),
    standing("which stands"),
    saying("message says"),
    saying("error says"),
    saying("record says"),
    saying("record tells"),
    saying("entry says"),
    saying("manifest says"),
    saying("header says"),
    saying("file says"),
];

/// Plain sentences in which a pattern occurs.
const EXCEPT: [&str; 2] =
    ["There is no text to measure.", "Where each component came from and who signed it."];

#[test]
fn documents_are_in_plain_english() {
    let mut found = Vec::new();
    let mut read = 0;
    for file in text_files().iter().filter(|file| file.path.ends_with(".md")) {
        read += check(&file.path, &file.text, &mut found);
    }
    assert_none("Write these plainly:", found);
    assert!(read > 1_000, "only {read} lines were read");
}

/// Covers doc comments (and so the help texts that clap makes of them), comments and `#[error]` messages.
#[test]
fn comments_are_in_plain_english() {
    let mut found = Vec::new();
    let mut read = 0;
    for file in text_files().iter().filter(|file| file.is_rust() && !file.path.contains("/fixtures/")) {
        read += check(&file.path, &comments(&file.text), &mut found);
    }
    assert_none("Write these plainly:", found);
    assert!(read > 1_000, "only {read} lines were read");
}

/// Covers the messages, help texts and schemas that the programs and the guest SDK print.
#[test]
fn texts_in_code_are_in_plain_english() {
    let mut found = Vec::new();
    let mut read = 0;
    let is_covered = |file: &&TextFile| {
        let is_ours = file.path.starts_with("host/") || file.path.starts_with("guest-sdk/");
        file.is_rust() && !file.is_test() && is_ours && file.path.contains("/src/")
    };
    for file in text_files().iter().filter(is_covered) {
        let code = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        read += check(&file.path, &strings(code), &mut found);
    }
    assert_none("Write these plainly:", found);
    assert!(read > 1_000, "only {read} lines were read");
}

/// Covers the contract, and the libraries, templates and examples in languages other than Rust. Their code
/// is read too, because it contains hardly any words but those of comments and messages.
#[test]
fn other_languages_are_in_plain_english() {
    const LANGUAGES: [&str; 8] = [".wit", ".c", ".h", ".go", ".js", ".ts", ".py", ".wat"];
    const DIRECTORIES: [&str; 4] =
        ["wit/", "guest-sdk/", "example-tools/", "host/cli/src/project/templates/"];
    let mut found = Vec::new();
    let mut read = 0;
    for file in text_files() {
        let path = file.path.strip_suffix(".txt").unwrap_or(&file.path);
        let is_covered = DIRECTORIES.iter().any(|directory| path.starts_with(directory))
            && LANGUAGES.iter().any(|ending| path.ends_with(ending));
        if is_covered && !file.is_test() && !path.contains("_test") {
            read += check(&file.path, &file.text, &mut found);
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
    assert!(!occurs(&opening("where", ""), "WHERE run_id = 1"));
    assert!(!occurs(&opens, "It says what it does, whatever happens."));
    let inside = anywhere("is told", "");
    assert!(occurs(&inside, "The client is told."));
    assert!(!occurs(&inside, "This toldering"));
    assert!(occurs(&negated("it is no"), "Perhaps it is no tool."));
    assert!(!occurs(&negated("it is no"), "Perhaps it is no longer a tool."));
    assert!(occurs(&standing("it stands"), "It is read where it stands."));
    assert!(!occurs(&standing("it stands"), "It stands for any characters."));
    assert!(occurs(&saying("message says"), "It fails; the message says why."));
    assert!(!occurs(&saying("message says"), "A message that says why"));
    let lines: Vec<String> =
        prose("One `nobody` two\n```sh\nnobody\n```\nthree").map(|(_, text)| text).collect();
    assert_eq!(lines, ["One  two", "three"]);
}

#[test]
fn comments_and_error_messages_are_read() {
    let source = concat!(
        "/// One `two`\nlet a = 1; // three\n#[error(\"four\")]\n",
        "#[error(\n    \"five\"\n)]\nlet b = \"http://six\";"
    );
    assert_eq!(comments(source), "One `two`\nthree\n\"four\")]\n\n\"five\"\n)]\n");
}

#[test]
fn texts_in_code_are_read() {
    let source = "let a = \"one \\\"two\\\"\"; // \"three\"\nlet b = '\"';\nlet c = \"four \\\n    five\";\nsix(\"seven eight\", 'e');\nnine(\"ten\");";
    let read: Vec<String> = strings(source).lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(read, ["one \\\"two\\\"", "", "four \\", "five", "seven eight", ""]);
}

/// Adds the patterns that occur in a text to `found`, and returns the number of lines read.
fn check(path: &str, text: &str, found: &mut Vec<String>) -> usize {
    let mut read = 0;
    for (line, text) in prose(text) {
        read += 1;
        let text = EXCEPT.iter().fold(text, |text, plain| text.replace(plain, ""));
        for pattern in PATTERNS.iter().filter(|pattern| occurs(pattern, &text)) {
            found.push(format!("{path}:{line}: \"{}\"; {}", pattern.words, pattern.instead));
        }
    }
    read
}

/// Returns the comments and `#[error]` messages of a Rust source, each on its own line; all other lines are
/// empty.
fn comments(source: &str) -> String {
    let mut in_error = false;
    let lines = source.lines().map(|line| {
        let line = line.trim();
        let error = line.strip_prefix("#[error(");
        in_error |= error.is_some();
        if in_error {
            in_error = !line.ends_with(")]");
            return error.unwrap_or(line);
        }
        match line.split_once("//") {
            Some((code, text)) if code.is_empty() || code.ends_with(' ') => {
                text.trim_start_matches(['/', '!', ' '])
            }
            _ => "",
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the string literals of a Rust source by line; everything else, and single words, are left out.
fn strings(source: &str) -> String {
    let source = source.replace("'\"'", "");
    let (mut texts, mut in_string) = (String::new(), false);
    for line in source.lines() {
        let begins = texts.len();
        let (mut is_escaped, mut before) = (false, ' ');
        for next in line.chars() {
            match next {
                '"' if !is_escaped => in_string = !in_string,
                '/' if before == '/' && !in_string => break,
                _ if in_string => texts.push(next),
                _ => {}
            }
            is_escaped = in_string && next == '\\' && !is_escaped;
            before = next;
        }
        // A single word is a key or a heading.
        if !texts[begins..].contains(' ') {
            texts.truncate(begins);
        }
        texts.push('\n');
    }
    texts
}

/// Returns the lines of a document outside code, with their numbers.
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

/// Returns whether a line contains the pattern. A question may open with any word.
fn occurs(pattern: &Pattern, line: &str) -> bool {
    let mut sentences = line.split_inclusive(['.', '?', '!']);
    sentences.any(|sentence| {
        let is_word = |c: char| c.is_alphanumeric() || c == '-';
        let words: Vec<&str> =
            sentence.split(|c| !is_word(c)).filter(|word| !word.trim_matches('-').is_empty()).collect();
        let wanted: Vec<&str> = pattern.words.split(' ').collect();
        let same = |found: &[&str]| found.iter().zip(&wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if pattern.opens {
            // A word in capital letters is SQL.
            let capital = words.first().is_some_and(|word| {
                word.starts_with(char::is_uppercase) && word.chars().skip(1).all(char::is_lowercase)
            });
            return capital
                && !sentence.ends_with('?')
                && words.len() >= wanted.len()
                && same(&words[..wanted.len()]);
        }
        let next = |at: usize| words.get(at + wanted.len()).copied().unwrap_or_default();
        let matches =
            |(at, found)| same(found) && (pattern.unless_next.is_empty() || next(at) != pattern.unless_next);
        words.windows(wanted.len()).enumerate().any(matches)
    })
}
