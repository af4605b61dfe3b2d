//! The memory that a server's messages take once parsed, estimated while their lines arrive. A
//! message that takes too much ends the connection before it is parsed.

use super::reserved_keys::ReservedKeys;
use tollgate_agent::code::Code;
use tollgate_agent::json::MAX_NODES;
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
use tollgate_agent::outcome::Fault;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// Bytes of memory for each value of a message: the average of one value, in all copies that the
/// message parser makes.
pub(super) const VALUE_BYTES: u64 = 512;

/// The reason why the rest of a message is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyTooHeavy {
    /// It has too many values.
    Values,
    /// The host's memory is in use by others.
    Budget(&'static LimitPlaces),
}

impl ReplyTooHeavy {
    /// Returns the fault of a call whose answer the message may have been.
    pub(super) fn fault(self, server: &str) -> Fault {
        match self {
            ReplyTooHeavy::Values => Fault::new(
                Code::MalformedOutput,
                format!("The server '{server}' sent a message of more than {MAX_NODES} JSON values."),
            ),
            ReplyTooHeavy::Budget(places) => Fault::new(
                Code::Overloaded,
                // The tool has run, so nothing advises to repeat the call.
                format!(
                    "The host has no memory for what the server '{server}' answered, so the answer is lost. The call may \
                     have had effects."
                ),
            )
            .with_detail(format!(
                "the limit is memory_budget_bytes; an operator can raise it{}",
                places.of(LimitScope::Host)
            )),
        }
    }
}

/// The weight of the current line so far.
pub(super) struct LineWeight {
    budget: MemoryBudget,
    /// Held for the current message, until the next one begins.
    memory: Option<Reservation>,
    bytes: u64,
    values: usize,
    at: ScanPosition,
    reserved: ReservedKeys,
    /// The line is complete; the next byte begins another.
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanPosition {
    Between,
    Scalar,
    Text,
    Escape,
}

impl LineWeight {
    pub(super) fn new(budget: MemoryBudget) -> Self {
        Self {
            budget,
            memory: None,
            bytes: 0,
            values: 0,
            at: ScanPosition::Between,
            reserved: ReservedKeys::default(),
            ended: false,
        }
    }

    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// The message that they belong to must not be parsed.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), ReplyTooHeavy> {
        // Several lines may have arrived at once; they are parsed one after another.
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.ended {
                (self.bytes, self.values, self.ended) = (0, 0, false);
                self.reserved.begin_message();
            }
            for byte in part {
                self.step(*byte);
                if self.values > MAX_NODES {
                    return Err(ReplyTooHeavy::Values);
                }
            }
            self.reserve()?;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) {
        self.bytes += 1;
        self.at = match (self.at, byte) {
            // A JSON string never contains a line end.
            (_, b'\n') => {
                self.ended = true;
                ScanPosition::Between
            }
            (ScanPosition::Text, b'"') => {
                self.reserved.end_string();
                ScanPosition::Between
            }
            (ScanPosition::Escape | ScanPosition::Text, _) => {
                self.values += self.reserved.read(&[byte]);
                match (self.at, byte) {
                    (ScanPosition::Text, b'\\') => ScanPosition::Escape,
                    _ => ScanPosition::Text,
                }
            }
            (_, b' ' | b'\t' | b'\r' | b',' | b']' | b'}') => ScanPosition::Between,
            // The string before it was a key.
            (_, b':') => {
                self.values = self.values.saturating_sub(1);
                ScanPosition::Between
            }
            (_, b'[' | b'{') => {
                self.values += 1;
                ScanPosition::Between
            }
            (_, b'"') => {
                self.values += 1;
                self.reserved.begin_string();
                ScanPosition::Text
            }
            (ScanPosition::Scalar, _) => ScanPosition::Scalar,
            (ScanPosition::Between, _) => {
                self.values += 1;
                ScanPosition::Scalar
            }
        };
    }

    fn reserve(&mut self) -> Result<(), ReplyTooHeavy> {
        let needed = 2 * self.bytes + self.values as u64 * VALUE_BYTES;
        let exhausted = ReplyTooHeavy::Budget(self.budget.limit_places());
        let memory = match &mut self.memory {
            Some(memory) => memory,
            None => self.memory.insert(self.budget.try_reserve(0).ok_or(exhausted)?),
        };
        match needed.checked_sub(memory.bytes()) {
            Some(0) | None => {
                memory.shrink_to(needed);
                Ok(())
            }
            Some(missing) => {
                if memory.try_grow(missing) {
                    Ok(())
                } else {
                    Err(exhausted)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(values: usize) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}0]}}\n", r#"{"a,\":[":true},"#.repeat(values))
    }

    #[test]
    fn z3_the_values_of_each_line_are_counted_however_it_is_split() {
        for size in [1, 7, 1 << 20] {
            let mut weight = LineWeight::new(MemoryBudget::new(1 << 30));
            // Two for each object, and six around them.
            for _ in 0..3 {
                message(249_997).as_bytes().chunks(size).for_each(|chunk| weight.add(chunk).unwrap());
            }
            let mut all = message(250_001).into_bytes();
            all.truncate(all.len() - 5);
            assert_eq!(
                all.chunks(size).find_map(|chunk| weight.add(chunk).err()),
                Some(ReplyTooHeavy::Values)
            );
        }
    }

    /// The parser reads the string of such a key as JSON.
    #[test]
    fn z3_json_within_the_string_of_a_reserved_key_is_counted() {
        let message = |key: &str| {
            let hidden = "{},".repeat(200_000);
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"{key}\":\"[{hidden}0]\"}}}}\n")
        };
        for (key, is_counted) in [
            ("text", false),
            ("$serde_json::private::RawValue", true),
            ("\\u0024serde_json::private::RawValue", true),
        ] {
            let mut weight = LineWeight::new(MemoryBudget::new(1 << 30));
            let refused = message(key).as_bytes().chunks(7).find_map(|chunk| weight.add(chunk).err());
            assert_eq!(refused == Some(ReplyTooHeavy::Values), is_counted, "{key}");
            let mut weight = LineWeight::new(MemoryBudget::new(1 << 30));
            weight.add(b"{\"$serde_json::\":0}\n").unwrap();
            assert_eq!(weight.add(message("text").as_bytes()), Ok(()), "it is another message");
        }
    }

    #[test]
    fn z3_a_message_holds_memory_until_the_next_and_none_is_read_without() {
        let budget = MemoryBudget::new(64 << 20);
        let mut weight = LineWeight::new(budget.clone());
        weight.add(message(10_000).as_bytes()).unwrap();
        assert!(budget.reserved_bytes() > 0);
        weight.add(b"{}").unwrap();
        assert!(budget.reserved_bytes() <= 4 << 10);
        let others = budget.try_reserve(60 << 20).unwrap();
        assert_eq!(
            weight.add(&message(100_000).as_bytes()[..1 << 20]),
            Err(ReplyTooHeavy::Budget(&LimitPlaces::NONE))
        );
        drop((others, weight));
        assert_eq!(budget.reserved_bytes(), 0);
    }
}
