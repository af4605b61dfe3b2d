//! The checksums of a run's events. Each covers the event and the previous checksum, so a lost or
//! altered event is detected.

use sha2::{Digest, Sha256};

/// The bytes of a checksum: half of a SHA-256 digest. It detects accidents and is not a
/// signature.
pub const CHECKSUM_BYTES: usize = 16;

/// The stored row of an event.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// The event's number within its run.
    pub number: u64,
    /// When it was committed, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The event as JSON.
    pub body: String,
    /// The checksum. `None` for events of earlier versions.
    pub checksum: Option<Vec<u8>>,
}

/// Returns the checksum of an event; `before` is the previous event's checksum, if it has one.
#[must_use]
pub fn checksum(before: Option<&[u8]>, number: u64, at_ms: u64, body: &str) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(before.unwrap_or_default());
    hash.update(number.to_le_bytes());
    hash.update(at_ms.to_le_bytes());
    hash.update(body.as_bytes());
    let hash = hash.finalize();
    std::array::from_fn(|at| hash[at])
}

/// Checks the rows of a run that should hold the events after one number up to another. Returns
/// the number of the first bad event and a description. `before` is the checksum of the event
/// before the rows.
#[must_use]
pub fn first_damage(
    rows: &[EventRow],
    after: u64,
    until: u64,
    before: Option<&[u8]>,
) -> Option<(u64, &'static str)> {
    let mut before = before;
    for (row, expected) in rows.iter().zip(after.saturating_add(1)..) {
        if row.number != expected {
            return Some((expected, "it is missing"));
        }
        match (&row.checksum, before) {
            (None, None) => {}
            (None, Some(_)) => return Some((row.number, "it has no checksum")),
            (Some(known), _) => {
                if known[..] != checksum(before, row.number, row.at_ms, &row.body) {
                    return Some((row.number, "it was altered, or the one before it was"));
                }
            }
        }
        before = row.checksum.as_deref();
    }
    let next = after.saturating_add(rows.len() as u64 + 1);
    (next <= until).then_some((next, "it is missing"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rows() -> Vec<EventRow> {
        let mut before: Option<Vec<u8>> = None;
        (1..=4u64)
            .map(|number| {
                let body = format!("{{\"type\":\"step_started\",\"step\":{number}}}");
                let sum = checksum(before.as_deref(), number, 7, &body).to_vec();
                before = Some(sum.clone());
                EventRow { number, at_ms: 7, body, checksum: Some(sum) }
            })
            .collect()
    }

    #[test]
    fn each_flipped_bit_and_each_lost_event_shows() {
        let good = rows();
        assert_eq!(first_damage(&good, 0, 4, None), None);
        assert_eq!(first_damage(&good[2..], 2, 4, good[1].checksum.as_deref()), None);
        for lost in 0..4 {
            let mut rows = rows();
            rows.remove(lost);
            assert_eq!(first_damage(&rows, 0, 4, None).unwrap().0, lost as u64 + 1);
        }
        for at in 0..good[1].body.len() {
            for bit in 0..7 {
                let mut rows = rows();
                let mut bytes = rows[1].body.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                rows[1].body = String::from_utf8(bytes).unwrap();
                assert_eq!(first_damage(&rows, 0, 4, None).unwrap().0, 2, "byte {at}, bit {bit}");
            }
        }
        let mut moved = rows();
        moved[3].at_ms = 8;
        assert_eq!(first_damage(&moved, 0, 4, None).unwrap().0, 4);
    }

    #[test]
    fn events_of_earlier_versions_have_none_and_later_ones_begin_a_chain() {
        let mut rows = rows();
        for row in &mut rows[..2] {
            row.checksum = None;
        }
        rows[2].checksum = Some(checksum(None, 3, 7, &rows[2].body).to_vec());
        rows[3].checksum = Some(checksum(rows[2].checksum.as_deref(), 4, 7, &rows[3].body).to_vec());
        assert_eq!(first_damage(&rows, 0, 4, None), None);
        rows[3].checksum = None;
        assert_eq!(first_damage(&rows, 0, 4, None).unwrap().0, 4);
    }
}
