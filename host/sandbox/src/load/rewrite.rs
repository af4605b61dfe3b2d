//! Writes a component again without what must not reach the compiler.
//!
//! Two changes are made, and neither changes what the component does. Custom sections,
//! which carry debug information, are left out. The offset of a data segment gets zero
//! added to it, after which the compiler does not take it for known and makes no image of
//! the memory: the data is copied into each instance instead.

use super::census::{Census, is_names};

/// `i32.const 0`, `i32.add`.
const ADD_ZERO: [u8; 3] = [0x41, 0x00, 0x6a];
/// The version of a module and the layer of modules, which follow the magic number.
const OF_MODULE: [u8; 4] = [1, 0, 0, 0];
/// The magic number and what follows it.
const HEADER_BYTES: usize = 8;
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// The changes to a component.
pub(super) struct Changes<'a> {
    custom: Custom,
    /// Where expressions end to which zero is added, sorted.
    add_zero: &'a [usize],
}

/// Which custom sections stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Custom {
    All,
    Names,
    None,
}

impl<'a> Changes<'a> {
    /// Those that a component needs so that at most this many bytes of its custom sections
    /// reach the compiler, and its modules without images have none. Names of functions stay
    /// if there is room for them.
    pub(super) fn of(census: &'a Census, most_custom_bytes: u64) -> Self {
        let custom = match (census.custom_bytes, census.name_bytes) {
            (all, _) if all <= most_custom_bytes => Custom::All,
            (_, names) if names <= most_custom_bytes => Custom::Names,
            _ => Custom::None,
        };
        Self { custom, add_zero: &census.without_image }
    }

    /// The component with these changes; `None` if there are none. Bytes that are not a
    /// valid component stay as they are from there on.
    pub(super) fn make(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.custom == Custom::All && self.add_zero.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.rewrite(&mut out, bytes, 0);
        Some(out)
    }

    /// The places of zeros to add within a range.
    fn within(&self, begins: usize, ends: usize) -> &[usize] {
        let first = self.add_zero.partition_point(|place| *place < begins);
        let end = self.add_zero.partition_point(|place| *place < ends);
        self.add_zero.get(first..end).unwrap_or_default()
    }

    fn leaves_out(&self, custom: &[u8]) -> bool {
        match self.custom {
            Custom::All => false,
            // The name has its length before it, as a section has.
            Custom::Names => !name(custom).is_some_and(is_names),
            Custom::None => true,
        }
    }

    /// Writes a module or component, whose first byte has this place in the whole. They
    /// are nested as deep as the census accepts, and no deeper.
    fn rewrite(&self, out: &mut Vec<u8>, binary: &[u8], place: usize) {
        let Some((header, mut rest)) = binary.split_at_checked(HEADER_BYTES) else {
            return out.extend_from_slice(binary);
        };
        out.extend_from_slice(header);
        let is_module = header.ends_with(&OF_MODULE);
        while let Some((id, content, after)) = section(rest) {
            let length = rest.len() - after.len();
            let section_place = place + (binary.len() - rest.len());
            let content_place = section_place + (length - content.len());
            let zeros = self.within(section_place, section_place + length);
            match id {
                CUSTOM if self.leaves_out(content) => {}
                CORE_MODULE | COMPONENT
                    if !is_module && (self.custom != Custom::All || !zeros.is_empty()) =>
                {
                    let mut nested = Vec::with_capacity(content.len());
                    self.rewrite(&mut nested, content, content_place);
                    write_section(out, id, &nested);
                }
                _ if zeros.is_empty() => out.extend_from_slice(&rest[..length]),
                _ => write_section(out, id, &with_zeros_added(content, content_place, zeros)),
            }
            rest = after;
        }
        out.extend_from_slice(rest);
    }
}

fn with_zeros_added(content: &[u8], place: usize, zeros: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + zeros.len() * ADD_ZERO.len());
    let mut done = 0;
    for end in zeros {
        let upto = end.saturating_sub(place).clamp(done, content.len());
        out.extend_from_slice(&content[done..upto]);
        out.extend_from_slice(&ADD_ZERO);
        done = upto;
    }
    out.extend_from_slice(&content[done..]);
    out
}

/// The id and content of the first section, and what follows it.
fn section(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (id, rest) = bytes.split_first()?;
    let (content, after) = sized(rest)?;
    Some((*id, content, after))
}

/// The name of a custom section with this content.
fn name(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(sized(content)?.0).ok()
}

/// As many bytes as the number before them says, and what follows.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut size = 0_usize;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        size |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes.get(at + 1..)?.split_at_checked(size);
        }
    }
    None
}

fn write_section(out: &mut Vec<u8>, id: u8, content: &[u8]) {
    out.push(id);
    let mut size = content.len();
    loop {
        let low = u8::try_from(size & 0x7f).unwrap_or_default();
        size >>= 7;
        out.push(if size == 0 { low } else { low | 0x80 });
        if size == 0 {
            break;
        }
    }
    out.extend_from_slice(content);
}
