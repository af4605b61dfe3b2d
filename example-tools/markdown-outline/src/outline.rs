//! The outline of a Markdown document (CommonMark with tables, footnotes, task
//! lists and front matter).

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, MetadataBlockKind, Options, Parser, Tag, TagEnd};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// The outline and figures of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// The first heading of level 1.
    pub title: Option<String>,
    /// The headings in order.
    pub headings: Vec<Heading>,
    /// The number of headings that are not listed.
    pub headings_left_out: usize,
    /// The number of words in the text, without code.
    pub words: usize,
    /// The number of links.
    pub links: usize,
    /// Links with a scheme, such as `https:`.
    pub external_links: usize,
    /// Images.
    pub images: usize,
    /// Tables.
    pub tables: usize,
    /// Code blocks by language; `text` if it is not named.
    pub code_blocks: Vec<CodeBlocks>,
    /// Finished and total items of task lists.
    pub tasks: Tasks,
}

/// A heading, and the size of the section below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Heading {
    /// The level, 1 to 6.
    pub level: u8,
    /// The text without markup.
    pub text: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The anchor for links within the document, as most sites generate it.
    pub anchor: String,
    /// The number of words up to the next heading of any level.
    pub words: usize,
}

/// The number of code blocks in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CodeBlocks {
    /// The first word of the fence.
    pub language: String,
    /// Their number.
    pub count: usize,
}

/// Items of task lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// Finished items.
    pub done: usize,
    /// All items.
    pub all: usize,
}

/// Outlines a document. Headings below `max_level` and those after the first
/// `max_headings` are omitted, but counted.
pub fn outline(markdown: &str, max_level: u8, max_headings: usize) -> Outline {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut survey = Survey::new(markdown);
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        survey.take(event, range);
    }
    survey.finish(max_level, max_headings)
}

/// The state of the pass over a document.
struct Survey<'a> {
    found: Outline,
    lines: LineNumbers<'a>,
    anchors: HashMap<String, usize>,
    /// Set inside a heading.
    heading: Option<Heading>,
    /// The text since the last heading.
    prose: String,
    /// Set inside code blocks and front matter, which are not prose.
    verbatim: bool,
}

impl<'a> Survey<'a> {
    fn new(markdown: &'a str) -> Self {
        Self {
            found: Outline::default(),
            lines: LineNumbers { markdown, offset: 0, line: 1 },
            anchors: HashMap::new(),
            heading: None,
            prose: String::new(),
            verbatim: false,
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Code(text) => self.text(&text),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            Event::TaskListMarker(done) => {
                self.found.tasks.all += 1;
                self.found.tasks.done += usize::from(done);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.end_heading(),
            TagEnd::CodeBlock | TagEnd::MetadataBlock(_) => self.verbatim = false,
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link => {}
            _ => self.text(" "),
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.end_section();
                self.heading = Some(Heading {
                    level: number(level),
                    text: String::new(),
                    line: self.lines.at(range.start),
                    anchor: String::new(),
                    words: 0,
                });
            }
            Tag::CodeBlock(kind) => {
                self.verbatim = true;
                self.code_block(&kind);
            }
            Tag::MetadataBlock(MetadataBlockKind::YamlStyle | MetadataBlockKind::PlusesStyle) => {
                self.verbatim = true;
            }
            Tag::Link { dest_url, .. } => {
                self.found.links += 1;
                self.found.external_links += usize::from(is_external(&dest_url));
            }
            Tag::Image { .. } => self.found.images += 1,
            Tag::Table(_) => self.found.tables += 1,
            _ => {}
        }
    }

    /// Handles text. One word may come in several pieces, as `snake_case` does.
    fn text(&mut self, text: &str) {
        match &mut self.heading {
            _ if self.verbatim => {}
            Some(heading) => heading.text.push_str(text),
            None => self.prose.push_str(text),
        }
    }

    fn end_section(&mut self) {
        let prose = std::mem::take(&mut self.prose);
        let words = prose.split_whitespace().filter(|word| has_letter(word)).count();
        self.found.words += words;
        if let Some(section) = self.found.headings.last_mut() {
            section.words = words;
        }
    }

    fn end_heading(&mut self) {
        let Some(mut heading) = self.heading.take() else {
            return;
        };
        heading.text = heading.text.trim().to_owned();
        heading.anchor = self.anchor(&heading.text);
        if heading.level == 1 && self.found.title.is_none() {
            self.found.title = Some(heading.text.clone());
        }
        self.found.headings.push(heading);
    }

    /// Returns an anchor; a repeated heading gets `-1`, `-2` and so on.
    fn anchor(&mut self, text: &str) -> String {
        let slug: String = text
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let seen = self.anchors.entry(slug.clone()).or_default();
        *seen += 1;
        match *seen {
            1 => slug,
            times => format!("{slug}-{}", times - 1),
        }
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) {
        let fence = match kind {
            CodeBlockKind::Fenced(fence) => fence.as_ref(),
            CodeBlockKind::Indented => "",
        };
        let separators = |c: char| c.is_whitespace() || matches!(c, ',' | '{');
        let language = match fence.split(separators).next() {
            None | Some("") => "text",
            Some(language) => language,
        };
        let blocks = &mut self.found.code_blocks;
        match blocks.iter_mut().find(|blocks| blocks.language == language) {
            Some(known) => known.count += 1,
            None => blocks.push(CodeBlocks { language: language.to_owned(), count: 1 }),
        }
    }

    fn finish(mut self, max_level: u8, max_headings: usize) -> Outline {
        self.end_section();
        let all = self.found.headings.len();
        self.found.headings.retain(|heading| heading.level <= max_level);
        self.found.headings.truncate(max_headings);
        self.found.headings_left_out = all - self.found.headings.len();
        self.found
    }
}

/// Computes the line numbers of increasing offsets in one pass.
struct LineNumbers<'a> {
    markdown: &'a str,
    offset: usize,
    line: usize,
}

impl LineNumbers<'_> {
    fn at(&mut self, offset: usize) -> usize {
        let between = self.markdown.as_bytes().get(self.offset..offset).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.offset = self.offset.max(offset);
        self.line
    }
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn has_letter(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Returns whether a URL has a scheme of at least two letters. (One letter is a
/// drive.)
fn is_external(url: &str) -> bool {
    url.starts_with("//")
        || url.split_once(':').is_some_and(|(scheme, _)| {
            scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DOCUMENT: &str = "\
---
title: not a heading
---
# The `tollgate` guide

It runs [tools](tools.md) from [anybody](https://example.com).

Set-up
------
```rust
# not a heading
```

- [x] done
- [ ] open

### Set-up

| a | b |
|---|---|
| 1 | 2 |

![picture](p.png)
";

    #[test]
    fn headings_have_level_text_line_anchor_and_words() {
        let found = outline(DOCUMENT, 6, 100);
        let headings: Vec<_> = found
            .headings
            .iter()
            .map(|h| (h.level, h.text.as_str(), h.line, h.anchor.as_str(), h.words))
            .collect();
        assert_eq!(
            headings,
            [
                (1, "The tollgate guide", 4, "the-tollgate-guide", 5),
                (2, "Set-up", 8, "set-up", 2),
                (3, "Set-up", 17, "set-up-1", 5),
            ]
        );
        assert_eq!(found.title.as_deref(), Some("The tollgate guide"));
    }

    #[test]
    fn what_is_no_text_is_counted() {
        let found = outline(DOCUMENT, 6, 100);
        assert_eq!((found.links, found.external_links), (2, 1));
        assert_eq!((found.images, found.tables), (1, 1));
        assert_eq!(found.code_blocks, [CodeBlocks { language: "rust".into(), count: 1 }]);
        assert_eq!(found.tasks, Tasks { done: 1, all: 2 });
    }

    #[test]
    fn a_word_with_markup_is_one_word() {
        let found = outline("# A\n\nsnake_case_name, *emp*hasis `x`s\n\n- one\n- two", 6, 100);
        assert_eq!((found.words, found.headings[0].words), (5, 5));
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let by_level = outline(DOCUMENT, 1, 100);
        assert_eq!((by_level.headings.len(), by_level.headings_left_out), (1, 2));
        let by_number = outline(DOCUMENT, 6, 2);
        assert_eq!((by_number.headings.len(), by_number.headings_left_out), (2, 1));
    }

    #[test]
    fn a_text_without_headings_has_an_empty_outline() {
        let found = outline("just words", 6, 100);
        assert_eq!((found.title, found.headings.len(), found.words), (None, 0, 2));
        assert_eq!(outline("", 6, 100), Outline::default());
    }

    #[test]
    fn languages_are_the_first_word_of_the_fence() {
        let found = outline("```rust,no_run\n```\n~~~\n~~~\n\n    indented\n", 6, 100);
        let blocks: Vec<_> = found.code_blocks.iter().map(|b| (b.language.as_str(), b.count)).collect();
        assert_eq!(blocks, [("rust", 1), ("text", 2)]);
    }
}
