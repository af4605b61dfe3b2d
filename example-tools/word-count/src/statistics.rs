//! The figures of a text. Words, sentences and characters are those of Unicode (UAX
//! #29), so `don't` is one word and a flag is one character.

use document::cut;
use serde::Serialize;
use std::collections::HashMap;
use unicode_segmentation::UnicodeSegmentation;

/// The speed of silent reading, in words per minute.
const READING_WORDS_PER_MINUTE: usize = 238;

/// The longest word that a result quotes, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// The figures of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Characters as a reader perceives them (grapheme clusters).
    pub characters: usize,
    /// Words.
    pub words: usize,
    /// Distinct words, ignoring case.
    pub unique_words: usize,
    /// Sentences.
    pub sentences: usize,
    /// Lines, including a last one without a line end.
    pub lines: usize,
    /// Blocks of lines that are not blank.
    pub paragraphs: usize,
    /// Characters per word, to two decimals; 0 if there are no words.
    pub average_word_length: f64,
    /// The longest word; the first if there are several.
    pub longest_word: Option<String>,
    /// The reading time in minutes, rounded up.
    pub reading_minutes: usize,
    /// The most frequent words, in lower case, most frequent first.
    pub frequent_words: Vec<Frequency>,
}

/// A word with the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Frequency {
    /// The word in lower case.
    pub word: String,
    /// The number of its occurrences.
    pub count: usize,
}

/// Computes the figures. `top` limits the list of frequent words, which omits words
/// shorter than `min_letters`.
pub fn statistics(text: &str, top: usize, min_letters: usize) -> Statistics {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let (mut words, mut letters) = (0, 0);
    let mut longest: Option<(usize, &str)> = None;
    for word in text.unicode_words() {
        let length = word.graphemes(true).count();
        words += 1;
        letters += length;
        if longest.is_none_or(|(most, _)| length > most) {
            longest = Some((length, word));
        }
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let paragraphs = paragraphs(text);
    Statistics {
        characters: text.graphemes(true).count(),
        words,
        unique_words: counts.len(),
        sentences: sentences(&paragraphs),
        lines: text.lines().count(),
        paragraphs: paragraphs.len(),
        average_word_length: two_decimals(letters, words),
        longest_word: longest.map(|(_, word)| cut(word, MAX_QUOTED_CHARS)),
        reading_minutes: words.div_ceil(READING_WORDS_PER_MINUTE),
        frequent_words: most_frequent(counts, top, min_letters),
    }
}

/// Words with the same count are in alphabetical order, so that the same text always
/// has the same answer.
fn most_frequent(counts: HashMap<String, usize>, top: usize, min_letters: usize) -> Vec<Frequency> {
    let mut frequent: Vec<(String, usize)> =
        counts.into_iter().filter(|(word, _)| word.graphemes(true).count() >= min_letters).collect();
    frequent.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    frequent.truncate(top);
    let listed = |(word, count): (String, usize)| Frequency { word: cut(&word, MAX_QUOTED_CHARS), count };
    frequent.into_iter().map(listed).collect()
}

/// Returns the paragraphs, each on one line: a line end within a paragraph does not
/// end a sentence.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut blank_before = true;
    for line in text.lines().map(str::trim) {
        match paragraphs.last_mut() {
            _ if line.is_empty() => {}
            Some(paragraph) if !blank_before => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            _ => paragraphs.push(line.to_owned()),
        }
        blank_before = line.is_empty();
    }
    paragraphs
}

fn sentences(paragraphs: &[String]) -> usize {
    let count = |paragraph: &String| paragraph.unicode_sentences().count();
    paragraphs.iter().map(count).sum()
}

fn two_decimals(sum: usize, count: usize) -> f64 {
    if count == 0 {
        return 0.0;
    }
    (sum as f64 / count as f64 * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_small_text_is_counted() {
        let text = "The cat sat. The dog didn't!\n\nA new paragraph here.\n";
        let found = statistics(text, 2, 1);
        assert_eq!((found.words, found.unique_words), (10, 9));
        assert_eq!((found.sentences, found.lines, found.paragraphs), (3, 3, 2));
        assert_eq!(found.longest_word.as_deref(), Some("paragraph"));
        assert_eq!(found.reading_minutes, 1);
        let top: Vec<_> = found.frequent_words.iter().map(|f| (f.word.as_str(), f.count)).collect();
        assert_eq!(top, [("the", 2), ("a", 1)]);
    }

    #[test]
    fn nothing_is_counted_in_an_empty_text() {
        let found = statistics("", 10, 1);
        assert_eq!((found.characters, found.words, found.sentences), (0, 0, 0));
        assert_eq!((found.lines, found.paragraphs, found.reading_minutes), (0, 0, 0));
        assert_eq!(found.average_word_length, 0.0);
        assert_eq!(found.longest_word, None);
    }

    #[test]
    fn a_sentence_may_span_lines() {
        let found = statistics("One sentence\non two lines. Another\none.\n\nA third", 0, 1);
        assert_eq!((found.sentences, found.lines, found.paragraphs), (3, 5, 2));
    }

    #[test]
    fn characters_are_what_a_reader_sees() {
        let found = statistics("🇨🇭 e\u{301}té 日本", 10, 1);
        assert_eq!(found.characters, 8);
        assert!(found.frequent_words.iter().any(|f| f.word == "e\u{301}té"));
    }

    #[test]
    fn short_words_can_be_left_out_of_the_frequent_ones() {
        let found = statistics("a a a of of state", 10, 3);
        assert_eq!(found.frequent_words, [Frequency { word: "state".into(), count: 1 }]);
        assert_eq!(found.words, 6);
    }

    #[test]
    fn endless_words_are_cut() {
        let found = statistics(&"a".repeat(1000), 1, 1);
        assert_eq!(found.longest_word.unwrap().chars().count(), MAX_QUOTED_CHARS + 1);
        assert_eq!(found.frequent_words[0].word.chars().count(), MAX_QUOTED_CHARS + 1);
    }

    #[test]
    fn average_is_rounded_to_two_decimals() {
        assert_eq!(statistics("a bb bb", 0, 1).average_word_length, 1.67);
    }
}
