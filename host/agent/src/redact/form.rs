//! The forms of a secret: as it is, backwards, in hexadecimal or in base64. Letter case is ignored.

use super::spelling::{INTRODUCERS, can_continue, is_literal};
use std::iter::zip;

/// The same form of all secrets, searched for together.
pub(super) struct Form {
    /// The characters of each secret in this form, in lower case and in order. Patterns with a
    /// common beginning are adjacent, so that they are searched for as one.
    patterns: Vec<Vec<char>>,
    /// Bytes that may occur between two characters, such as line breaks.
    between: &'static [u8],
    /// Whether `-` and `_` are equivalent to `+` and `/`.
    is_base64: bool,
}

/// The patterns of a form that agree with the text so far: `patterns[from..to]` have the same first
/// `read` characters.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct FormProgress {
    from: usize,
    to: usize,
    read: usize,
}

impl Form {
    /// Returns the forms of these secrets.
    pub(super) fn all_of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut forms = vec![
            Self { patterns: Vec::new(), between: b"", is_base64: false },
            Self { patterns: Vec::new(), between: b": -\r\n", is_base64: false },
            Self { patterns: Vec::new(), between: b"\r\n", is_base64: true },
        ];
        for secret in secrets {
            let bytes = secret.as_bytes();
            forms[0].add(secret.chars());
            forms[0].add(secret.chars().rev());
            forms[1].add(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit));
            for offset in 0..3 {
                forms[2].add(base64_within(bytes, offset).chars());
            }
        }
        for form in &mut forms {
            form.patterns.sort_unstable();
            form.patterns.dedup();
        }
        forms.retain(|form| !form.patterns.is_empty());
        forms
    }

    fn add(&mut self, characters: impl Iterator<Item = char>) {
        let pattern: Vec<char> = characters.map(|c| self.fold(c)).collect();
        if !pattern.is_empty() {
            self.patterns.push(pattern);
        }
    }

    /// Returns the progress before the first character.
    pub(super) fn start(&self) -> FormProgress {
        FormProgress { from: 0, to: self.patterns.len(), read: 0 }
    }

    /// Returns the progress after one more character, or `None` if no pattern continues with it.
    pub(super) fn step(&self, progress: FormProgress, character: char) -> Option<FormProgress> {
        let FormProgress { from, to, read } = progress;
        let wanted = Some(self.fold(character));
        let next = |pattern: &Vec<char>| pattern.get(read).copied();
        let patterns = &self.patterns[from..to];
        if let [only] = patterns {
            return (next(only) == wanted).then_some(FormProgress { from, to, read: read + 1 });
        }
        let start = patterns.partition_point(|pattern| next(pattern) < wanted);
        let count = patterns[start..].partition_point(|pattern| next(pattern) == wanted);
        (count > 0).then_some(FormProgress { from: from + start, to: from + start + count, read: read + 1 })
    }

    /// Reads on while the text has literal characters and a single pattern has all but its last
    /// one. This is the usual case, and it needs no list of matches.
    pub(super) fn read_literals(&self, progress: &mut FormProgress, end: &mut usize, text: &[u8]) {
        if progress.to - progress.from != 1 {
            return;
        }
        let pattern = &self.patterns[progress.from];
        let rest = pattern.get(progress.read..pattern.len() - 1).unwrap_or_default();
        let is_same =
            |(wanted, byte): &(&char, &u8)| is_literal(**byte) && self.fold(char::from(**byte)) == **wanted;
        let same = zip(rest, &text[*end..]).take_while(is_same).count();
        progress.read += same;
        *end += same;
    }

    /// Returns whether a whole pattern was read.
    pub(super) fn is_whole(&self, progress: FormProgress) -> bool {
        // In the order, a pattern comes before its continuations.
        self.patterns[progress.from].len() == progress.read
    }

    /// Returns whether a pattern continues.
    pub(super) fn continues(&self, progress: FormProgress) -> bool {
        self.patterns[progress.to - 1].len() > progress.read
    }

    /// Returns how many bytes of the text separate two characters. A line break has at most two.
    pub(super) fn separators(&self, progress: FormProgress, text: &[u8]) -> usize {
        match progress.read {
            0 => 0,
            _ => text.iter().take(2).take_while(|byte| self.between.contains(byte)).count(),
        }
    }

    fn fold(&self, c: char) -> char {
        match c {
            '-' if self.is_base64 => '+',
            '_' if self.is_base64 => '/',
            _ => c.to_ascii_lowercase(),
        }
    }

    /// Returns the first byte of each way to write the character without an escape.
    fn literals(&self, c: char) -> impl Iterator<Item = u8> {
        let byte = c.encode_utf8(&mut [0; 4]).as_bytes()[0];
        let also = match c {
            ' ' => b'+',
            '+' if self.is_base64 => b'-',
            '/' if self.is_base64 => b'_',
            _ => byte,
        };
        [byte, byte.to_ascii_uppercase(), also].into_iter()
    }
}

/// The characters and bytes with which a secret can begin.
pub(super) struct SecretStarts {
    /// A bit for each ASCII character that can be the first one.
    characters: u128,
    /// For each byte, a bit for each byte that can follow it at the beginning.
    pairs: Box<[[u64; 4]; 256]>,
}

impl SecretStarts {
    pub(super) fn of(forms: &[Form]) -> Self {
        let mut all = Self { characters: 0, pairs: Box::new([[0; 4]; 256]) };
        for introducer in INTRODUCERS {
            (0..=u8::MAX)
                .filter(|byte| can_continue(*introducer, *byte))
                .for_each(|b| all.add(*introducer, b));
        }
        for form in forms {
            for pattern in &form.patterns {
                for first in form.literals(pattern[0]) {
                    all.characters |= 1_u128.checked_shl(u32::from(first)).unwrap_or_default();
                    match pattern.get(1) {
                        Some(second) if pattern[0].is_ascii() => {
                            let others = INTRODUCERS.iter().chain(form.between).copied();
                            form.literals(*second).chain(others).for_each(|byte| all.add(first, byte));
                        }
                        _ => all.pairs[usize::from(first)] = [u64::MAX; 4],
                    }
                }
            }
        }
        all
    }

    fn add(&mut self, first: u8, second: u8) {
        self.pairs[usize::from(first)][usize::from(second >> 6)] |= 1 << (second & 63);
    }

    fn contains(&self, first: u8, second: u8) -> bool {
        self.pairs[usize::from(first)][usize::from(second >> 6)] >> (second & 63) & 1 == 1
    }

    /// Returns whether a secret can begin with the character.
    #[inline]
    pub(super) fn has(&self, character: char) -> bool {
        !character.is_ascii() || self.characters >> u32::from(character) & 1 == 1
    }

    /// Returns the first position, from `at` on, where a secret may begin.
    pub(super) fn next(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let pair = rest.windows(2).position(|pair| self.contains(pair[0], pair[1]));
        // A secret may also begin with the last byte, whose successor is not known yet.
        let begins_any = |byte: &&u8| self.pairs[usize::from(**byte)] != [0; 4];
        let last = || rest.last().filter(begins_any).map(|_| rest.len() - 1);
        pair.or_else(last).map(|found| at + found)
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or_default()
}

/// Returns the base64 characters that depend on the secret alone if it occurs at this offset
/// (modulo three) of a longer text.
fn base64_within(secret: &[u8], offset: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| {
        let at = at.checked_sub(offset * 8)?;
        secret.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1)
    };
    let digits = ((offset + secret.len()) * 8).div_ceil(6);
    (0..digits)
        .filter_map(|digit| {
            let index = (0..6).try_fold(0_u8, |index, n| Some(index << 1 | bit(digit * 6 + n)?))?;
            Some(char::from(DIGITS[usize::from(index)]))
        })
        .collect()
}
