//! The spellings of a character: literal, or an escape of URLs, JSON, HTML, mail or a programming
//! language. Reading one takes time that does not depend on the length of the text.

use std::iter::zip;

/// HTML's names of characters other than letters and digits, in order.
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

/// The length of the longest name.
const MAX_NAME: usize = 6;
/// The most digits of a number in an escape; a longer number is not an escape.
const MAX_DIGITS: usize = 8;

/// [`ENTITIES`] as numbers, in the same order.
const KEYS: [u64; ENTITIES.len()] = {
    let mut keys = [0; ENTITIES.len()];
    let mut at = 0;
    while at < keys.len() {
        keys[at] = key(ENTITIES[at].0.as_bytes());
        at += 1;
    }
    keys
};

/// The bytes that begin an escape.
pub(super) const INTRODUCERS: &[u8] = b"%=\\&";

/// Returns whether the byte can only be read as the ASCII character that it is.
pub(super) fn is_literal(byte: u8) -> bool {
    byte.is_ascii() && byte != b'+' && !INTRODUCERS.contains(&byte)
}

/// Returns whether the second byte can continue an escape that the first one begins.
pub(super) fn can_continue(introducer: u8, second: u8) -> bool {
    match introducer {
        b'%' | b'=' => second.is_ascii_hexdigit(),
        b'\\' => second.is_ascii_punctuation() || b"tuUxX".contains(&second),
        b'&' => second == b'#' || second.is_ascii_alphabetic(),
        _ => false,
    }
}

/// Reads the character at the beginning of the text. Passes each possible reading and its length
/// in bytes to `each`. Returns whether the text ends within a spelling.
pub(super) fn read_character(text: &[u8], mut each: impl FnMut(char, usize)) -> bool {
    let Some(first) = text.first() else { return true };
    let mut is_cut = false;
    let mut take = |read: CharacterRead| match read {
        CharacterRead::Not => {}
        CharacterRead::Cut => is_cut = true,
        CharacterRead::Character(c, bytes) => each(c, bytes),
    };
    let literal = CharacterRead::Character(char::from(*first), 1);
    match first {
        b'%' | b'=' => {
            take(as_bytes(text));
            take(literal);
        }
        b'+' => {
            take(literal);
            take(CharacterRead::Character(' ', 1));
        }
        b'\\' => {
            take(literal);
            match text.get(1) {
                None => take(CharacterRead::Cut),
                Some(b'x' | b'X') => take(as_bytes(text)),
                Some(b'u' | b'U') => {
                    take(utf16(text));
                    take(braced(text));
                }
                Some(_) => take(after_backslash(text)),
            }
        }
        b'&' => {
            take(literal);
            for read in entity(text) {
                take(read);
            }
        }
        0..=0x7f => take(literal),
        _ => take(as_bytes(text)),
    }
    is_cut
}

/// The result of reading one character at the beginning of a text.
#[derive(Clone, Copy)]
enum CharacterRead {
    Not,
    /// The text ends before the character is complete.
    Cut,
    /// The character and the number of bytes it takes.
    Character(char, usize),
}

/// Reads a character whose bytes are literal or written as `%41`, `=41` or `\x41`.
fn as_bytes(text: &[u8]) -> CharacterRead {
    let (first, mut length) = match byte(text) {
        Ok(read) => read,
        Err(read) => return read,
    };
    let all = match first {
        0..=0x7f => return CharacterRead::Character(char::from(first), length),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return CharacterRead::Not,
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
    character.map_or(CharacterRead::Not, |character| CharacterRead::Character(character, length))
}

/// Reads one byte and returns it with its length as written.
fn byte(text: &[u8]) -> Result<(u8, usize), CharacterRead> {
    let lead: &[u8] = match text {
        [] => return Err(CharacterRead::Cut),
        [b'%', ..] => b"%",
        [b'=', ..] => b"=",
        [b'\\'] => return Err(CharacterRead::Cut),
        [b'\\', b'x' | b'X', ..] => b"\\x",
        [byte, ..] => return Ok((*byte, 1)),
    };
    let digits = &text[lead.len()..];
    match digits {
        [high, low, ..] => match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => Ok(((high << 4 | low) as u8, lead.len() + 2)),
            _ => Err(CharacterRead::Not),
        },
        _ if digits.iter().all(u8::is_ascii_hexdigit) => Err(CharacterRead::Cut),
        _ => Err(CharacterRead::Not),
    }
}

/// Reads `\"`, `\/` and the like.
fn after_backslash(text: &[u8]) -> CharacterRead {
    match text {
        [_] => CharacterRead::Cut,
        [_, b't', ..] => CharacterRead::Character('\t', 2),
        [_, c, ..] if c.is_ascii_punctuation() => CharacterRead::Character(char::from(*c), 2),
        _ => CharacterRead::Not,
    }
}

/// Reads `\u0041`, or two such escapes for a character beyond 16 bits.
fn utf16(text: &[u8]) -> CharacterRead {
    let high = match unit(text) {
        Ok(unit) => unit,
        Err(read) => return read,
    };
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high).map_or(CharacterRead::Not, |c| CharacterRead::Character(c, 6));
    }
    match unit(&text[6..]) {
        Ok(low @ 0xdc00..0xe000) => {
            let value = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            char::from_u32(value).map_or(CharacterRead::Not, |c| CharacterRead::Character(c, 12))
        }
        Ok(_) => CharacterRead::Not,
        Err(read) => read,
    }
}

fn unit(text: &[u8]) -> Result<u32, CharacterRead> {
    for (at, byte) in text.iter().take(6).enumerate() {
        let fits = match at {
            0 => *byte == b'\\',
            1 => byte.eq_ignore_ascii_case(&b'u'),
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            return Err(CharacterRead::Not);
        }
    }
    text.get(2..6).map(|digits| number(digits, 16)).ok_or(CharacterRead::Cut)
}

/// Reads `\u{41}`.
fn braced(text: &[u8]) -> CharacterRead {
    let lead = b"\\u{";
    if !zip(text, lead).all(|(byte, wanted)| byte.eq_ignore_ascii_case(wanted)) {
        return CharacterRead::Not;
    }
    let Some(rest) = text.get(lead.len()..) else { return CharacterRead::Cut };
    let digits = rest.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    match rest.get(digits) {
        _ if digits > MAX_DIGITS => CharacterRead::Not,
        None => CharacterRead::Cut,
        Some(b'}') => char::from_u32(number(&rest[..digits], 16))
            .map_or(CharacterRead::Not, |c| CharacterRead::Character(c, lead.len() + digits + 1)),
        Some(_) => CharacterRead::Not,
    }
}

/// Reads `&#65;`, `&#x41;` or `&quot;`, and the same without the semicolon.
fn entity(text: &[u8]) -> [CharacterRead; 2] {
    let (lead, base) = match text {
        [_] | [_, b'#'] => return [CharacterRead::Cut, CharacterRead::Not],
        [_, b'#', b'x' | b'X', ..] => (3, 16),
        [_, b'#', ..] => (2, 10),
        _ => return named(text),
    };
    let rest = &text[lead..];
    let digits =
        rest.iter().take(MAX_DIGITS + 1).take_while(|byte| char::from(**byte).is_digit(base)).count();
    if digits > MAX_DIGITS || digits == 0 && !rest.is_empty() {
        return [CharacterRead::Not, CharacterRead::Not];
    }
    let character = char::from_u32(number(&rest[..digits], base));
    ending(character.filter(|_| digits > 0), rest.get(digits), lead + digits)
}

fn named(text: &[u8]) -> [CharacterRead; 2] {
    let name = text[1..].iter().take(MAX_NAME + 1).take_while(|byte| byte.is_ascii_alphabetic()).count();
    if name == 0 || name > MAX_NAME {
        return [CharacterRead::Not, CharacterRead::Not];
    }
    let given = key(&text[1..=name]);
    let after = text.get(1 + name);
    match KEYS.binary_search(&given) {
        Ok(at) => ending(Some(ENTITIES[at].1), after, 1 + name),
        // The names that begin with these letters follow in the order.
        Err(at) if after.is_none() && KEYS.get(at).is_some_and(|known| begins(*known, given, name)) => {
            [CharacterRead::Cut, CharacterRead::Not]
        }
        Err(_) => [CharacterRead::Not, CharacterRead::Not],
    }
}

/// Returns a number for a name of at most eight letters, whatever their case. Numbers have the
/// order of their names.
const fn key(name: &[u8]) -> u64 {
    let (mut key, mut at) = (0, 0);
    while at < 8 {
        let letter = if at < name.len() { name[at].to_ascii_lowercase() } else { 0 };
        key = key << 8 | letter as u64;
        at += 1;
    }
    key
}

/// Returns whether the first `letters` letters of two names are the same.
fn begins(name: u64, with: u64, letters: usize) -> bool {
    (name ^ with) >> (64 - 8 * letters) == 0
}

/// Returns the readings of an entity without its semicolon and, if it has one, with it.
fn ending(character: Option<char>, after: Option<&u8>, length: usize) -> [CharacterRead; 2] {
    let read = |length| character.map_or(CharacterRead::Not, |c| CharacterRead::Character(c, length));
    let with = match after {
        None => CharacterRead::Cut,
        Some(b';') => read(length + 1),
        Some(_) => CharacterRead::Not,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_names_is_in_order_and_within_its_limit() {
        assert!(KEYS.is_sorted());
        assert_eq!(ENTITIES.iter().map(|(name, _)| name.len()).max(), Some(MAX_NAME));
    }
}
