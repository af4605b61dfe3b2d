//! Splits a text into parts and reports on each.

use document::cut;
use serde::Serialize;
use std::collections::HashMap;
use unicode_segmentation::UnicodeSegmentation;

/// Shorter words say little about the topic of a part.
const MIN_KEYWORD_CHARS: usize = 5;

/// Longer words are cut.
const MAX_KEYWORD_CHARS: usize = 40;

/// The most keywords of a part.
const MAX_KEYWORDS: usize = 3;

/// The longest sentence that is quoted, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// The report on one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The part's first line, counted from 1.
    pub first_line: usize,
    /// The part's last line.
    pub last_line: usize,
    /// Words.
    pub words: usize,
    /// Sentences.
    pub sentences: usize,
    /// The longest sentence by number of words.
    pub longest_sentence: String,
    /// The most frequent long words.
    pub keywords: Vec<String>,
}

/// Splits a text into `parts` with about the same number of lines. A short text has
/// fewer.
pub fn split(text: &str, parts: usize) -> Vec<(usize, Vec<&str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let size = lines.len().div_ceil(parts.max(1)).max(1);
    lines.chunks(size).enumerate().map(|(index, chunk)| (index * size + 1, chunk.to_vec())).collect()
}

/// Analyses one part, which begins at `first_line`.
pub fn read(first_line: usize, lines: &[&str]) -> Part {
    let text = flowing(lines);
    let sentences: Vec<&str> = text.unicode_sentences().collect();
    let words = |text: &str| text.unicode_words().count();
    let longest = sentences.iter().copied().max_by_key(|sentence| words(sentence));
    Part {
        first_line,
        last_line: first_line + lines.len().saturating_sub(1),
        words: words(&text),
        sentences: sentences.len(),
        longest_sentence: quoted(longest.unwrap_or_default()),
        keywords: keywords(&text),
    }
}

/// Joins lines: a line end within a paragraph does not end a sentence, a blank line
/// does.
fn flowing(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let end = if line.trim().is_empty() { "\n" } else { " " };
        text.push_str(line.trim());
        text.push_str(end);
    }
    text
}

impl Part {
    /// Returns the part as a paragraph of Markdown.
    pub fn markdown(&self) -> String {
        let Self { first_line, last_line, words, sentences, .. } = self;
        let keywords = match self.keywords.as_slice() {
            [] => "none".to_owned(),
            keywords => keywords.join(", "),
        };
        format!(
            "## Lines {first_line} to {last_line}\n\n\
             Words: {words}. Sentences: {sentences}. Keywords: {keywords}. \
             Longest sentence: \u{201c}{}\u{201d}\n\n",
            self.longest_sentence
        )
    }
}

/// Returns the keywords: most frequent first, equally frequent ones in alphabetical
/// order.
fn keywords(text: &str) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let long = |word: &&str| word.chars().count() >= MIN_KEYWORD_CHARS;
    for word in text.unicode_words().filter(long) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let frequent = counts.into_iter().take(MAX_KEYWORDS);
    frequent.map(|(word, _)| cut(&word, MAX_KEYWORD_CHARS)).collect()
}

/// Quotes a sentence on one line.
fn quoted(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    cut(&words.join(" "), MAX_QUOTED_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_parts_of_about_one_size() {
        let text = "1\n2\n3\n4\n5\n6\n7\n";
        let sizes = |parts| split(text, parts).iter().map(|(_, lines)| lines.len()).collect::<Vec<_>>();
        assert_eq!(sizes(3), [3, 3, 1]);
        assert_eq!(sizes(1), [7]);
        assert_eq!(sizes(20), [1; 7]);
        assert_eq!(split(text, 3)[2], (7, vec!["7"]));
        assert!(split("", 3).is_empty());
    }

    #[test]
    fn a_part_says_what_it_is_about() {
        let lines = ["Guests propose.", "The host commits what guests", "have proposed to the guests."];
        let part = read(10, &lines);
        assert_eq!((part.first_line, part.last_line), (10, 12));
        assert_eq!((part.words, part.sentences), (12, 2));
        assert_eq!(part.longest_sentence, "The host commits what guests have proposed to the guests.");
        assert_eq!(part.keywords, ["guests", "commits", "propose"]);
        let markdown = "## Lines 10 to 12\n\nWords: 12. Sentences: 2. Keywords: guests, commits";
        assert!(part.markdown().starts_with(markdown));
    }

    #[test]
    fn an_empty_part_is_no_trouble() {
        let part = read(1, &[""]);
        assert_eq!((part.words, part.sentences), (0, 0));
        assert!(part.markdown().contains("Keywords: none."));
    }

    #[test]
    fn long_sentences_are_cut() {
        assert_eq!(quoted(&"ä ".repeat(500)).chars().count(), MAX_QUOTED_CHARS + 1);
    }
}
