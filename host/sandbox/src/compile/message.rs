//! The protocol between the host and its compiler process: one message in each direction, a
//! fixed-size header followed by as many bytes as it announces.

use crate::engine::{Compatibility, Layout};

/// The environment variable with the compiler process's processor time limit, in seconds.
pub(super) const CPU_SECONDS_VARIABLE: &str = "TOLLGATE_COMPILE_CPU_S";
/// The environment variable with the compiler process's limit on address space, in bytes.
pub(super) const MEMORY_VARIABLE: &str = "TOLLGATE_COMPILE_MEMORY_BYTES";
/// The maximum length of the compiler's message.
pub(super) const MAX_WORDS_BYTES: usize = 1_000;

/// Begins each message. A different mark means that the other end is another program or another
/// version of this one.
const MARK: &[u8; 16] = b"tollgate-code-2\n";

/// The task of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Compile the component that follows.
    Compile,
    /// Test how well this system confines the process; nothing follows.
    Check,
}

/// The header before a component on its way to the compiler.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) purpose: Purpose,
    pub(super) compatibility: Compatibility,
    pub(super) layout: Layout,
    pub(super) length: u64,
}

impl Request {
    pub(super) const BYTES: usize = MARK.len() + 1 + 32 + 1 + 8;

    pub(super) fn header(&self) -> [u8; Self::BYTES] {
        let purpose = match self.purpose {
            Purpose::Compile => 0,
            Purpose::Check => 1,
        };
        let layout = match self.layout {
            Layout::Guarded => 0,
            Layout::Compact => 1,
        };
        joined(&[MARK, &[purpose], &self.compatibility.0, &[layout], &self.length.to_le_bytes()])
    }

    pub(super) fn read(header: &[u8; Self::BYTES]) -> Option<Self> {
        let rest = header.strip_prefix(MARK)?;
        let ([purpose], rest) = rest.split_first_chunk::<1>()?;
        let (compatibility, rest) = rest.split_first_chunk::<32>()?;
        let ([layout], rest) = rest.split_first_chunk::<1>()?;
        Some(Self {
            purpose: match purpose {
                0 => Purpose::Compile,
                1 => Purpose::Check,
                _ => return None,
            },
            compatibility: Compatibility(*compatibility),
            layout: match layout {
                0 => Layout::Guarded,
                1 => Layout::Compact,
                _ => return None,
            },
            length: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// The header before the compiler's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnswerHeader {
    /// Whether an artifact follows; otherwise the message of a refusal follows.
    pub(super) compiled: bool,
    pub(super) length: u64,
}

impl AnswerHeader {
    pub(super) const BYTES: usize = MARK.len() + 1 + 8;

    pub(super) fn header(self) -> [u8; Self::BYTES] {
        joined(&[MARK, &[u8::from(self.compiled)], &self.length.to_le_bytes()])
    }

    pub(super) fn read(header: &[u8; Self::BYTES]) -> Option<Self> {
        let rest = header.strip_prefix(MARK)?;
        let ([compiled], rest) = rest.split_first_chunk::<1>()?;
        Some(Self { compiled: *compiled == 1, length: u64::from_le_bytes(rest.try_into().ok()?) })
    }
}

fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = parts.iter().flat_map(|part| part.iter().copied());
    std::array::from_fn(|_| bytes.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back() {
        for purpose in [Purpose::Compile, Purpose::Check] {
            let (compatibility, layout) = (Compatibility([7; 32]), Layout::Compact);
            let request = Request { purpose, compatibility, layout, length: 1 << 40 };
            assert_eq!(Request::read(&request.header()), Some(request));
        }
        let answer = AnswerHeader { compiled: true, length: 9 };
        assert_eq!(AnswerHeader::read(&answer.header()), Some(answer));
        assert_eq!(AnswerHeader::read(&[b'x'; AnswerHeader::BYTES]), None);
    }
}
