//! Finds the character classes in a pattern, because their compilation cost exceeds their length.

/// The constructs in a pattern's text that are expensive to compile.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// The number of `\w`, `\d`, `\s` and their opposites.
    pub(super) escapes: usize,
    /// The number of `\p{...}` and `\P{...}`.
    pub(super) unicode: usize,
    /// The number of `[`.
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

/// Puts each class such as `\w` into brackets and writes `\cA` as `\x01`. For each one outside
/// brackets, the translation to Rust's syntax would parse the whole text again.
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
