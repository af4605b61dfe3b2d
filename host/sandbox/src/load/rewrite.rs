//! Writes a component again without what must not reach the compiler.
//!
//! Two changes are made, and neither changes what the component does. Custom sections,
//! which carry debug information, are left out. The offset of a data segment gets zero
//! added to it, after which the compiler does not take it for known and makes no image of
//! the memory: the data is copied into each instance instead.

use super::census::Census;

/// `i32.const 0`, `i32.add`.
const ADD_ZERO: [u8; 3] = [0x41, 0x00, 0x6a];
/// The version of a module and the layer of modules, which follow the magic number.
const OF_MODULE: [u8; 4] = [1, 0, 0, 0];
/// The magic number and what follows it.
const HEADER_BYTES: usize = 8;
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// The changes, by place, sorted.
pub(super) struct Changes {
    places: Vec<(usize, Change)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Leaves out the custom section whose content begins here.
    LeaveOut,
    /// Adds zero to the expression that ends here.
    AddZero,
}

impl Changes {
    /// Those that a component needs: its modules without images, and with `strip` no custom
    /// sections but those with names, if these have at most so many bytes.
    pub(super) fn of(census: &Census, strip: bool, most_name_bytes: u64) -> Self {
        let names = census.custom.iter().filter(|custom| custom.is_names);
        let name_bytes: u64 = names.map(|custom| custom.content.len() as u64).sum();
        let keeps_names = name_bytes <= most_name_bytes;
        let left_out = census
            .custom
            .iter()
            .filter(|custom| strip && !(custom.is_names && keeps_names))
            .map(|custom| (custom.content.start, Change::LeaveOut));
        let copied = census.without_image.iter().map(|end| (*end, Change::AddZero));
        let mut places: Vec<_> = left_out.chain(copied).collect();
        places.sort_unstable();
        Self { places }
    }

    /// The component with these changes; `None` if there are none. Bytes that are not a
    /// valid component stay as they are from there on.
    pub(super) fn make(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.places.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.rewrite(&mut out, bytes, 0);
        Some(out)
    }

    /// Those within a range of places.
    fn within(&self, begins: usize, ends: usize) -> &[(usize, Change)] {
        let first = self.places.partition_point(|(place, _)| *place < begins);
        let end = self.places.partition_point(|(place, _)| *place < ends);
        self.places.get(first..end).unwrap_or_default()
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
            let changes = self.within(section_place, section_place + length);
            match id {
                _ if changes.is_empty() => out.extend_from_slice(&rest[..length]),
                CUSTOM => {}
                CORE_MODULE | COMPONENT if !is_module => {
                    let mut nested = Vec::with_capacity(content.len());
                    self.rewrite(&mut nested, content, content_place);
                    write_section(out, id, &nested);
                }
                _ => write_section(out, id, &with_zeros_added(content, content_place, changes)),
            }
            rest = after;
        }
        out.extend_from_slice(rest);
    }
}

fn with_zeros_added(content: &[u8], place: usize, changes: &[(usize, Change)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + changes.len() * ADD_ZERO.len());
    let mut done = 0;
    for (end, _) in changes {
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
    let mut size = 0_usize;
    for (at, byte) in rest.iter().take(5).enumerate() {
        size |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let (content, after) = rest.get(at + 1..)?.split_at_checked(size)?;
            return Some((*id, content, after));
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
