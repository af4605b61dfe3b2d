//! The forms of a secret: as it is, backwards, in hexadecimal or in base64. Each character of these
//! may be written literally or as an escape of URLs, JSON, HTML, mail or a programming language.

use std::iter::zip;

/// HTML's names of characters other than letters and digits.
const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("apos", '\''),
    ("ast", '*'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("comma", ','),
    ("commat", '@'),
    ("dollar", '$'),
    ("equals", '='),
    ("excl", '!'),
    ("grave", '`'),
    ("gt", '>'),
    ("hat", '^'),
    ("hyphen", '-'),
    ("lbrace", '{'),
    ("lbrack", '['),
    ("lcub", '{'),
    ("lowbar", '_'),
    ("lpar", '('),
    ("lsqb", '['),
    ("lt", '<'),
    ("nbsp", ' '),
    ("num", '#'),
    ("percnt", '%'),
    ("period", '.'),
    ("plus", '+'),
    ("quest", '?'),
    ("quot", '"'),
    ("rbrace", '}'),
    ("rbrack", ']'),
    ("rcub", '}'),
    ("rpar", ')'),
    ("rsqb", ']'),
    ("semi", ';'),
    ("sol", '/'),
    ("tab", '\t'),
    ("verbar", '|'),
    ("vert", '|'),
];

/// The most digits of a number in an escape; a longer number is not an escape.
const MAX_DIGITS: usize = 8;

/// One form of a secret. Letter case is ignored.
pub(super) struct Pattern {
    /// The characters of the form, in lower case.
    characters: Vec<char>,
    /// Bytes that may occur between two characters, such as line breaks.
    between: &'static [u8],
    /// Whether `-` and `_` are equivalent to `+` and `/`.
    is_base64: bool,
}

impl Pattern {
    /// Returns every form of a secret.
    pub(super) fn all_of(secret: &str) -> Vec<Self> {
        let bytes = secret.as_bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut patterns =
            vec![Self::new(secret.chars(), b"", false), Self::new(digits.chars(), b": -\r\n", false)];
        let backwards: String = secret.chars().rev().collect();
        if backwards != secret {
            patterns.push(Self::new(backwards.chars(), b"", false));
        }
        for offset in 0..3 {
            patterns.push(Self::new(base64_within(bytes, offset).chars(), b"\r\n", true));
        }
        patterns
    }

    fn new(characters: impl Iterator<Item = char>, between: &'static [u8], is_base64: bool) -> Self {
        let mut pattern = Self { characters: Vec::new(), between, is_base64 };
        pattern.characters = characters.map(|c| pattern.fold(c)).collect();
        pattern
    }

    pub(super) fn len(&self) -> usize {
        self.characters.len()
    }

    /// Returns the bytes with which the form can begin.
    pub(super) fn first_bytes(&self) -> impl Iterator<Item = u8> {
        let first = self.characters.first().copied().unwrap_or_default();
        let mut buffer = [0; 4];
        let byte = first.encode_utf8(&mut buffer).as_bytes()[0];
        let mut bytes = vec![byte, byte.to_ascii_uppercase(), b'%', b'=', b'\\', b'&'];
        match first {
            ' ' => bytes.push(b'+'),
            '+' if self.is_base64 => bytes.push(b'-'),
            '/' if self.is_base64 => bytes.push(b'_'),
            _ => {}
        }
        bytes.into_iter()
    }

    /// Reads character number `at` at the beginning of the text. Passes the length of each possible
    /// spelling to `length`. Returns whether the text ends within a spelling.
    pub(super) fn read(&self, at: usize, text: &[u8], mut length: impl FnMut(usize)) -> bool {
        let mut skipped = 0;
        // A line break has at most two bytes.
        while at > 0 && skipped < 2 && text.get(skipped).is_some_and(|byte| self.between.contains(byte)) {
            skipped += 1;
        }
        let Some(character) = self.characters.get(at) else { return false };
        let mut is_cut = self.read_character(*character, text, &mut length);
        if skipped > 0 {
            is_cut |= self.read_character(*character, &text[skipped..], &mut |n| length(skipped + n));
        }
        is_cut
    }

    fn read_character(&self, wanted: char, text: &[u8], length: &mut dyn FnMut(usize)) -> bool {
        let mut is_cut = false;
        let mut take = |read: Read| match read {
            Read::Not => {}
            Read::Cut => is_cut = true,
            Read::Character(c, bytes) if self.fold(c) == wanted => length(bytes),
            Read::Character(..) => {}
        };
        let Some(first) = text.first() else { return true };
        take(as_bytes(text));
        match first {
            b'+' if wanted == ' ' => take(Read::Character(' ', 1)),
            b'\\' => {
                take(after_backslash(text));
                take(utf16(text));
                take(braced(text));
            }
            b'&' => {
                for read in entity(text) {
                    take(read);
                }
            }
            _ => {}
        }
        // A byte that introduces an escape may also be literal.
        if let [b'%' | b'=', ..] | [b'\\'] | [b'\\', b'x' | b'X', ..] = text {
            take(Read::Character(char::from(*first), 1));
        }
        is_cut
    }

    fn fold(&self, c: char) -> char {
        match c {
            '-' if self.is_base64 => '+',
            '_' if self.is_base64 => '/',
            _ => c.to_ascii_lowercase(),
        }
    }
}

/// The result of reading one character at the beginning of a text.
#[derive(Clone, Copy)]
enum Read {
    Not,
    /// The text ends before the character is complete.
    Cut,
    /// The character and the number of bytes it takes.
    Character(char, usize),
}

/// Reads a character whose bytes are literal or written as `%41`, `=41` or `\x41`.
fn as_bytes(text: &[u8]) -> Read {
    let (first, mut length) = match byte(text) {
        Ok(read) => read,
        Err(read) => return read,
    };
    let all = match first {
        0..=0x7f => return Read::Character(char::from(first), length),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Read::Not,
    };
    let mut bytes = [first, 0, 0, 0];
    for place in &mut bytes[1..all] {
        match byte(&text[length..]) {
            Ok((next, more)) => {
                *place = next;
                length += more;
            }
            Err(read) => return read,
        }
    }
    let character = std::str::from_utf8(&bytes[..all]).ok().and_then(|text| text.chars().next());
    character.map_or(Read::Not, |character| Read::Character(character, length))
}

/// Reads one byte and returns it with its length as written.
fn byte(text: &[u8]) -> Result<(u8, usize), Read> {
    let lead: &[u8] = match text {
        [] => return Err(Read::Cut),
        [b'%', ..] => b"%",
        [b'=', ..] => b"=",
        [b'\\'] => return Err(Read::Cut),
        [b'\\', b'x' | b'X', ..] => b"\\x",
        [byte, ..] => return Ok((*byte, 1)),
    };
    let digits = &text[lead.len()..];
    match digits {
        [high, low, ..] => match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => Ok(((high << 4 | low) as u8, lead.len() + 2)),
            _ => Err(Read::Not),
        },
        _ if digits.iter().all(u8::is_ascii_hexdigit) => Err(Read::Cut),
        _ => Err(Read::Not),
    }
}

/// Reads `\"`, `\/` and the like.
fn after_backslash(text: &[u8]) -> Read {
    match text {
        [_] => Read::Cut,
        [_, b't', ..] => Read::Character('\t', 2),
        [_, c, ..] if c.is_ascii_punctuation() => Read::Character(char::from(*c), 2),
        _ => Read::Not,
    }
}

/// Reads `\u0041`, or two such escapes for a character beyond 16 bits.
fn utf16(text: &[u8]) -> Read {
    let high = match unit(text) {
        Ok(unit) => unit,
        Err(read) => return read,
    };
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high).map_or(Read::Not, |c| Read::Character(c, 6));
    }
    match unit(&text[6..]) {
        Ok(low @ 0xdc00..0xe000) => {
            let value = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            char::from_u32(value).map_or(Read::Not, |c| Read::Character(c, 12))
        }
        Ok(_) => Read::Not,
        Err(read) => read,
    }
}

fn unit(text: &[u8]) -> Result<u32, Read> {
    for (at, byte) in text.iter().take(6).enumerate() {
        let fits = match at {
            0 => *byte == b'\\',
            1 => byte.eq_ignore_ascii_case(&b'u'),
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            return Err(Read::Not);
        }
    }
    text.get(2..6).map(|digits| number(digits, 16)).ok_or(Read::Cut)
}

/// Reads `\u{41}`.
fn braced(text: &[u8]) -> Read {
    let lead = b"\\u{";
    if !zip(text, lead).all(|(byte, wanted)| byte.eq_ignore_ascii_case(wanted)) {
        return Read::Not;
    }
    let Some(rest) = text.get(lead.len()..) else { return Read::Cut };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match rest.get(digits) {
        _ if digits > MAX_DIGITS => Read::Not,
        None => Read::Cut,
        Some(b'}') => char::from_u32(number(&rest[..digits], 16))
            .map_or(Read::Not, |c| Read::Character(c, lead.len() + digits + 1)),
        Some(_) => Read::Not,
    }
}

/// Reads `&#65;`, `&#x41;` or `&quot;`, and the same without the semicolon.
fn entity(text: &[u8]) -> [Read; 2] {
    let (lead, base) = match text {
        [_] | [_, b'#'] => return [Read::Cut, Read::Not],
        [_, b'#', b'x' | b'X', ..] => (3, 16),
        [_, b'#', ..] => (2, 10),
        _ => return named(text),
    };
    let rest = &text[lead..];
    let digits = rest.iter().take_while(|byte| char::from(**byte).is_digit(base)).count();
    if digits > MAX_DIGITS || digits == 0 && !rest.is_empty() {
        return [Read::Not, Read::Not];
    }
    let character = char::from_u32(number(&rest[..digits], base));
    ending(character.filter(|_| digits > 0), rest.get(digits), lead + digits)
}

fn named(text: &[u8]) -> [Read; 2] {
    let name = text[1..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let given = &text[1..=name];
    let after = text.get(1 + name);
    let known = ENTITIES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(given));
    match known {
        Some((_, character)) => ending(Some(*character), after, 1 + name),
        None if after.is_none() && ENTITIES.iter().any(|(known, _)| begins(known, given)) => {
            [Read::Cut, Read::Not]
        }
        None => [Read::Not, Read::Not],
    }
}

fn begins(name: &str, with: &[u8]) -> bool {
    name.as_bytes().get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// Returns the readings of an entity without its semicolon and, if it has one, with it.
fn ending(character: Option<char>, after: Option<&u8>, length: usize) -> [Read; 2] {
    let read = |length| character.map_or(Read::Not, |c| Read::Character(c, length));
    let with = match after {
        None => Read::Cut,
        Some(b';') => read(length + 1),
        Some(_) => Read::Not,
    };
    [read(length), with]
}

fn hex(digit: u8) -> Option<u32> {
    char::from(digit).to_digit(16)
}

/// Parses the digits, of which there are at most [`MAX_DIGITS`].
fn number(digits: &[u8], base: u32) -> u32 {
    let digit = |byte: &u8| char::from(*byte).to_digit(base).unwrap_or_default();
    digits.iter().fold(0, |number: u32, byte| number.wrapping_mul(base).wrapping_add(digit(byte)))
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
