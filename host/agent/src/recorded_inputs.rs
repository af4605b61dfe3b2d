//! The inputs that an attempt takes from the outside world, recorded for replay: random numbers,
//! clock readings and the outcome of waits. With them and its record, a call can be run again and must
//! have the same outcome. Inputs that are not recorded, such as HTTP responses, are named instead.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write as _;

/// The maximum number of clock readings that are kept of one attempt. Equal readings in a row count once.
pub const MAX_READINGS: usize = 1_024;
/// The maximum number of ready items of one wait for which its reading is kept.
const MAX_READY: usize = 16;

/// The inputs that one attempt took from the world besides its call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedInputs {
    /// The seed of its random numbers; `None` if it requested none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The answers of clocks and waits, in order, each with the number of times in a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<(Reading, u32)>,
    /// The number of readings beyond [`MAX_READINGS`], which are not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_readings: u64,
    /// The powers that it used, as the configuration spells them. Their answers are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub powers: Vec<String>,
}

/// One answer of a clock, or of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The time of day, in milliseconds since the Unix epoch.
    Wall(u64),
    /// Milliseconds since the attempt first read a monotonic clock.
    Monotonic(u64),
    /// The answer of a wait: the indices of the ready items among those waited for.
    Ready(Vec<u32>),
}

/// The seed of the random numbers of one attempt. Records contain it in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl RecordedInputs {
    /// Returns whether nothing was taken, so that there is nothing to record.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a reading, or counts it if it cannot be kept. After the first reading that is not kept,
    /// none is.
    pub fn read(&mut self, reading: Reading) {
        if self.lost_readings == 0 {
            if let Some((last, times)) = self.readings.last_mut()
                && *last == reading
                && *times < u32::MAX
            {
                *times += 1;
                return;
            }
            let is_short = !matches!(&reading, Reading::Ready(places) if places.len() > MAX_READY);
            if is_short && self.readings.len() < MAX_READINGS {
                return self.readings.push((reading, 1));
            }
        }
        self.lost_readings += 1;
    }

    /// Records that a power was used.
    pub fn record_power(&mut self, power: &str) {
        if !self.powers.iter().any(|known| known == power) {
            self.powers.push(power.to_owned());
        }
    }

    /// Returns why no record can reproduce these inputs; `None` if one can.
    #[must_use]
    pub fn beyond_record(&self) -> Option<String> {
        if !self.powers.is_empty() {
            return Some(format!("it used {}, whose answers are not recorded", self.powers.join(" and ")));
        }
        (self.lost_readings > 0).then(|| {
            format!(
                "it read the clocks {} times more often than is recorded ({MAX_READINGS} different readings)",
                self.lost_readings
            )
        })
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(reader)?;
        let mut seed = [0; 32];
        let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
        match digits {
            Some(digits) if digits.len() == 64 => {
                for (byte, pair) in seed.iter_mut().zip(digits.chunks(2)) {
                    *byte = u8::try_from(pair[0] * 16 + pair[1]).unwrap_or(0);
                }
                Ok(Self(seed))
            }
            _ => Err(serde::de::Error::custom("a seed is 64 hexadecimal digits")),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_taken_reads_back_as_it_was_written() {
        let mut taken = RecordedInputs { seed: Some(Seed([0xa5; 32])), ..RecordedInputs::default() };
        for reading in [Reading::Wall(7), Reading::Wall(7), Reading::Monotonic(1), Reading::Ready(vec![0, 2])]
        {
            taken.read(reading);
        }
        taken.record_power("files");
        taken.record_power("files");
        let text = serde_json::to_string(&taken).unwrap();
        assert_eq!(serde_json::from_str::<RecordedInputs>(&text).unwrap(), taken);
        assert!(text.contains(r#"[{"wall":7},2]"#) && text.contains(r#""powers":["files"]"#), "{text}");
        assert_eq!(serde_json::to_string(&RecordedInputs::default()).unwrap(), "{}");
        assert!(serde_json::from_str::<RecordedInputs>(r#"{"seed":"a5"}"#).is_err());
    }

    #[test]
    fn readings_beyond_the_bound_are_counted_and_none_after_them_is_kept() {
        let mut taken = RecordedInputs::default();
        (0..MAX_READINGS as u64 + 2).for_each(|ms| taken.read(Reading::Wall(ms)));
        taken.read(Reading::Wall(MAX_READINGS as u64 - 1));
        assert_eq!((taken.readings.len(), taken.lost_readings), (MAX_READINGS, 3));
        assert!(taken.beyond_record().unwrap().contains("1024"));
        let mut wide = RecordedInputs::default();
        wide.read(Reading::Ready(vec![0; 1_000]));
        assert_eq!((wide.readings.len(), wide.lost_readings), (0, 1));
    }
}
