//! Converts HTML to Markdown in one pass over the page's tokens: it builds no tree,
//! so no nesting is too deep.

use html5gum::emitters::default::{DefaultEmitter, StartTag};
use html5gum::{Token, Tokenizer};
use tollgate_sdk::http::Url;

/// A converted page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// The contents of its title element.
    pub title: Option<String>,
    /// Its text.
    pub markdown: String,
}

/// Elements that are not part of a page's text.
const SKIPPED: [&str; 12] = [
    "script", "style", "noscript", "template", "svg", "nav", "footer", "aside", "form", "iframe", "button",
    "select",
];

/// The deepest list that is indented.
const MAX_LIST_DEPTH: usize = 8;

/// Converts a page that was read from the address `base`.
pub fn convert(html: &str, base: &Url) -> Converted {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut writer = Writer { base: Some(base), ..Writer::default() };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                writer.start(&name, &tag);
            }
            Token::EndTag(tag) => writer.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    writer.finish()
}

#[derive(Default)]
struct Writer<'a> {
    base: Option<&'a Url>,
    out: String,
    title: Option<String>,
    in_title: bool,
    /// The skipped element, and the number of its open tags.
    skipped: Option<(String, usize)>,
    in_pre: bool,
    /// The open lists: the number of the next item, or `None` for unordered lists.
    lists: Vec<Option<u32>>,
    /// The target of the open link, and the position of its text.
    link: Option<(String, usize)>,
    cells: usize,
    /// Whether a space is due before the next word.
    blank: bool,
}

impl Writer<'_> {
    fn start(&mut self, name: &str, tag: &StartTag<()>) {
        if let Some((skipped, open)) = &mut self.skipped {
            *open += usize::from(skipped == name);
            return;
        }
        match name {
            _ if SKIPPED.contains(&name) && !tag.self_closing => self.skipped = Some((name.to_owned(), 1)),
            "title" => self.in_title = self.title.is_none(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.block();
                self.out.push_str(&"#".repeat(usize::from(name.as_bytes()[1] - b'0')));
                self.out.push(' ');
            }
            "p" | "div" | "section" | "article" | "main" | "header" | "table" | "figure" | "dl" => {
                self.block()
            }
            "blockquote" => {
                self.block();
                self.out.push_str("> ");
            }
            "br" | "dt" | "dd" => self.line(),
            "hr" => {
                self.block();
                self.out.push_str("---");
                self.block();
            }
            "pre" => {
                self.block();
                self.out.push_str("```\n");
                self.in_pre = true;
            }
            "ul" => self.open_list(None),
            "ol" => self.open_list(Some(1)),
            "li" => self.item(),
            "tr" => {
                self.line();
                self.cells = 0;
            }
            "td" | "th" => {
                let bar = if self.cells == 0 { "| " } else { " | " };
                self.out.push_str(bar);
                self.cells += 1;
                self.blank = false;
            }
            "strong" | "b" => self.mark("**"),
            "em" | "i" => self.mark("*"),
            "code" if !self.in_pre => self.mark("`"),
            "a" => self.open_link(tag),
            "img" => self.image(tag),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((skipped, open)) = &mut self.skipped {
            if skipped == name {
                *open -= 1;
                if *open == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "div" | "section" | "article" | "main"
            | "header" | "table" | "figure" | "dl" | "blockquote" => self.block(),
            "pre" if self.in_pre => {
                self.line();
                self.out.push_str("```");
                self.in_pre = false;
                self.block();
            }
            "ul" | "ol" => {
                self.lists.pop();
                if self.lists.is_empty() { self.block() } else { self.line() }
            }
            "tr" if self.cells > 0 => {
                self.out.push_str(" |");
                self.line();
            }
            "strong" | "b" => self.out.push_str("**"),
            "em" | "i" => self.out.push('*'),
            "code" if !self.in_pre => self.out.push('`'),
            "a" => self.close_link(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.in_title {
            let words: Vec<&str> = text.split_whitespace().collect();
            self.title = Some(words.join(" ")).filter(|title| !title.is_empty());
        } else if self.in_pre {
            self.out.push_str(text);
        } else {
            self.words(text);
        }
    }

    /// Adds words with single spaces between them, as a browser shows them.
    fn words(&mut self, text: &str) {
        self.blank |= text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            self.due_blank();
            self.out.push_str(word);
            self.blank = true;
        }
        self.blank = text.ends_with(char::is_whitespace);
    }

    fn due_blank(&mut self) {
        if std::mem::take(&mut self.blank) && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    fn mark(&mut self, mark: &str) {
        self.due_blank();
        self.out.push_str(mark);
    }

    fn line(&mut self) {
        self.blank = false;
        self.out.truncate(self.out.trim_end_matches(' ').len());
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn block(&mut self) {
        if !self.lists.is_empty() {
            return self.line_in_item();
        }
        self.line();
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Within an item, a block does not end the item's line before its first word.
    fn line_in_item(&mut self) {
        if !self.out.ends_with(' ') {
            self.line();
        }
    }

    fn open_list(&mut self, first: Option<u32>) {
        if self.lists.is_empty() {
            self.block()
        } else {
            self.line()
        }
        self.lists.push(first);
    }

    fn item(&mut self) {
        self.line();
        let depth = self.lists.len().saturating_sub(1).min(MAX_LIST_DEPTH);
        self.out.push_str(&"  ".repeat(depth));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                self.out.push_str(&format!("{number}. "));
                *number = number.saturating_add(1);
            }
            _ => self.out.push_str("- "),
        }
    }

    fn open_link(&mut self, tag: &StartTag<()>) {
        self.close_link();
        if let Some(to) = attribute(tag, "href").and_then(|href| self.base?.join(&href)) {
            self.due_blank();
            self.link = Some((to, self.out.len()));
            self.out.push('[');
        }
    }

    fn close_link(&mut self) {
        let Some((to, at)) = self.link.take() else { return };
        // A link without text is dropped; blocks within one may have moved its end.
        if self.out.len() <= at + 1 {
            self.out.truncate(at);
        } else {
            self.out.push_str(&format!("]({})", to.replace([' ', ')'], "")));
        }
    }

    fn image(&mut self, tag: &StartTag<()>) {
        let words = attribute(tag, "alt").unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        if !words.is_empty() {
            self.due_blank();
            self.out.push_str(&format!("(image: {})", words.join(" ")));
        }
    }

    fn finish(mut self) -> Converted {
        self.close_link();
        if self.in_pre {
            self.line();
            self.out.push_str("```");
        }
        Converted { title: self.title, markdown: self.out.trim().to_owned() }
    }
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.iter().find(|(known, _)| known.as_slice() == name.as_bytes())?.1;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn markdown(html: &str) -> String {
        convert(html, &Url::parse("https://a.test/docs/page").unwrap()).markdown
    }

    #[test]
    fn a_page_reads_as_its_author_wrote_it() {
        let html = "<html><head><title> The  guide </title><style>p { x }</style></head><body><nav>menu</nav>\
            <h1>Guide</h1><p>One <b>bold</b> and <em>soft</em>\n word, <a href='next'>a link</a>.</p>\
            <ul><li>first<li>second <ol><li>inner</ol></ul><pre>let  x = 1;\n  y</pre>\
            <table><tr><th>a<th>b</tr><tr><td>1<td>2</tr></table><script>alert('<p>no</p>')</script></body>";
        let converted = convert(html, &Url::parse("https://a.test/docs/page").unwrap());
        assert_eq!(converted.title.as_deref(), Some("The guide"));
        assert_eq!(
            converted.markdown,
            "# Guide\n\nOne **bold** and *soft* word, [a link](https://a.test/docs/next).\n\n\
             - first\n- second\n  1. inner\n\n```\nlet  x = 1;\n  y\n```\n\n| a | b |\n| 1 | 2 |"
        );
    }

    #[test]
    fn entities_are_characters_and_links_lead_to_pages() {
        assert_eq!(markdown("<p>a &lt;b&gt; &amp; &#252;</p>"), "a <b> & ü");
        assert_eq!(markdown("<a href='javascript:x()'>run</a>"), "run");
        assert_eq!(markdown("<a href='/x'></a><img alt='a cat' src='x'>"), "(image: a cat)");
    }

    #[test]
    fn what_is_broken_or_endless_still_ends() {
        assert_eq!(markdown("<p>one<p>two</b></ul><li>three"), "one\n\ntwo**\n\n- three");
        assert_eq!(
            markdown("<a href='/x'>one<a href='/y'>two"),
            "[one](https://a.test/x)[two](https://a.test/y)"
        );
        assert_eq!(markdown("<nav>gone"), "");
        let deep = "<div><ul><li>".repeat(20_000);
        assert!(markdown(&deep).len() < deep.len() * 3);
    }
}
