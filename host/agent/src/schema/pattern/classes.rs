//! Character classes in the text of a pattern, which cost more to compile than they are long.

/// What a pattern's text says about the work of compiling it.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// `\w`, `\d`, `\s` and their opposites.
    pub(super) escapes: usize,
    /// `\p{...}` and `\P{...}`.
    pub(super) unicode: usize,
    /// Every `[`.
    pub(super) brackets: usize,
    /// Whether the flag `i` is set somewhere.
    pub(super) ignores_case: bool,
}

impl Classes {
    pub(super) fn of(text: &str) -> Self {
        let mut classes = Self::default();
        let mut rest = text.chars();
        while let Some(char) = rest.next() {
            match char {
                '\\' => match rest.next() {
                    Some('w' | 'W' | 'd' | 'D' | 's' | 'S') => classes.escapes += 1,
                    Some('p' | 'P') => classes.unicode += 1,
                    _ => {}
                },
                '[' => classes.brackets += 1,
                '(' => {
                    if let Some(flags) = rest.as_str().strip_prefix('?') {
                        let mut flags = flags.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-');
                        classes.ignores_case |= flags.any(|flag| flag == 'i');
                    }
                }
                _ => {}
            }
        }
        classes
    }
}

/// Puts each class such as `\w` into brackets and writes `\cA` as `\x01`. The translation to
/// Rust's syntax parses the whole text again for each of those that it meets otherwise.
pub(super) fn with_bounded_classes(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 16);
    let (mut in_class, mut rest) = (false, text.chars());
    while let Some(char) = rest.next() {
        match char {
            '\\' => match rest.next() {
                Some(class @ ('w' | 'W' | 'd' | 'D' | 's' | 'S')) if !in_class => {
                    written.extend(['[', '\\', class, ']']);
                }
                Some('c') => match rest.clone().next() {
                    Some(letter) if letter.is_ascii_alphabetic() => {
                        rest.next();
                        written.push_str(&format!("\\x{:02x}", letter as u32 % 32));
                    }
                    _ => written.push_str("\\c"),
                },
                Some(other) => written.extend(['\\', other]),
                None => written.push('\\'),
            },
            '[' => {
                in_class = true;
                written.push('[');
            }
            ']' => {
                in_class = false;
                written.push(']');
            }
            other => written.push(other),
        }
    }
    written
}
