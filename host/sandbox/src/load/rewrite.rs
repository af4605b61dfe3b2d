//! Rewrites a component without the parts that must not reach the compiler.
//!
//! There are two changes, and neither affects the component's behavior. Custom sections, which
//! carry debug information, are left out. The offset of a data segment gets zero added to it, so
//! that the compiler no longer recognizes a constant and makes no image of the memory: the data
//! is copied into each instance instead.

use super::census::{Census, is_names};

/// `i32.const 0`, `i32.add`.
const ADD_ZERO: [u8; 3] = [0x41, 0x00, 0x6a];
/// A module's version and layer, which follow the magic number.
const OF_MODULE: [u8; 4] = [1, 0, 0, 0];
/// The length of the magic number and the fields after it.
const HEADER_BYTES: usize = 8;
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// The changes to a component.
pub(super) struct Changes<'a> {
    custom: KeptSections,
    /// The ends of the expressions to which zero is added, sorted.
    add_zero: &'a [usize],
}

/// The custom sections to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptSections {
    All,
    Names,
    None,
}

impl<'a> Changes<'a> {
    /// Determines the changes that a component needs so that at most this many bytes of its
    /// custom sections reach the compiler, and its modules without images have none. Function
    /// names are kept if there is room for them.
    pub(super) fn of(census: &'a Census, most_custom_bytes: u64) -> Self {
        let custom = match (census.custom_bytes, census.name_bytes) {
            (all, _) if all <= most_custom_bytes => KeptSections::All,
            (_, names) if names <= most_custom_bytes => KeptSections::Names,
            _ => KeptSections::None,
        };
        Self { custom, add_zero: &census.without_image }
    }

    /// Returns the component with these changes; `None` if there are none. Bytes that are not a
    /// valid component are unchanged from the first invalid one on.
    pub(super) fn make(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.custom == KeptSections::All && self.add_zero.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.rewrite(&mut out, bytes, 0);
        Some(out)
    }

    /// Returns the places of zeros to add within a range.
    fn within(&self, begins: usize, ends: usize) -> &[usize] {
        let first = self.add_zero.partition_point(|place| *place < begins);
        let end = self.add_zero.partition_point(|place| *place < ends);
        self.add_zero.get(first..end).unwrap_or_default()
    }

    fn leaves_out(&self, custom: &[u8]) -> bool {
        match self.custom {
            KeptSections::All => false,
            // The name is preceded by its length, like a section.
            KeptSections::Names => !name(custom).is_some_and(is_names),
            KeptSections::None => true,
        }
    }

    /// Writes a module or component whose first byte has this position in the whole. The census
    /// limits the nesting depth.
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
                    if !is_module && (self.custom != KeptSections::All || !zeros.is_empty()) =>
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

/// Returns the id and content of the first section, and the rest.
fn section(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (id, rest) = bytes.split_first()?;
    let (content, after) = sized(rest)?;
    Some((*id, content, after))
}

/// Returns the name of a custom section with this content.
fn name(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(sized(content)?.0).ok()
}

/// Returns the bytes counted by the leading number, and the rest.
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
