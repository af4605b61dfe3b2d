//! The nondeterministic inputs of a guest: the time, random numbers, and the results of its
//! waits. They are recorded as they are read. A replay plays back the record of an earlier
//! attempt. Reads beyond that record get made-up values, which are recorded, so that the two
//! attempts' records differ from there on.

pub(crate) mod clocks;
pub(crate) mod random;

use crate::grants::Power;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tollgate_agent::recorded_inputs::{Reading, RecordedInputs, Seed};

/// The inputs of one instance. Cloning is cheap; clones share them.
#[derive(Clone)]
pub(crate) struct Nondeterminism(Arc<Mutex<Notes>>);

struct Notes {
    taken: RecordedInputs,
    /// When the guest first asked for the monotonic time.
    began: Option<Instant>,
    played: Option<Playback>,
}

/// An earlier attempt's record, and the playback position.
struct Playback {
    notes: Arc<RecordedInputs>,
    at: usize,
    /// How often the reading at that position was returned.
    times: u32,
}

impl Nondeterminism {
    /// Creates real inputs, or those of an earlier attempt.
    pub(crate) fn new(replay: Option<Arc<RecordedInputs>>) -> Self {
        let played = replay.map(|notes| Playback { notes, at: 0, times: 0 });
        Self(Arc::new(Mutex::new(Notes { taken: RecordedInputs::default(), began: None, played })))
    }

    /// Returns the time of day, in milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self) -> u64 {
        let mut notes = self.notes();
        let ms = match notes.played(|reading| matches!(reading, Reading::Wall(_))) {
            Some(Some(Reading::Wall(ms))) => ms,
            Some(_) => {
                notes.last(|reading| if let Reading::Wall(ms) = reading { Some(*ms) } else { None }) + 1
            }
            None => {
                // A clock before 1970 reads as 1970.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }
        };
        notes.taken.read(Reading::Wall(ms));
        ms
    }

    /// Returns the milliseconds since the guest's first call.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        let mut notes = self.notes();
        let ms = match notes.played(|reading| matches!(reading, Reading::Monotonic(_))) {
            Some(Some(Reading::Monotonic(ms))) => ms,
            Some(_) => {
                notes.last(|reading| if let Reading::Monotonic(ms) = reading { Some(*ms) } else { None }) + 1
            }
            None => {
                let began = *notes.began.get_or_insert_with(Instant::now);
                u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
            }
        };
        notes.taken.read(Reading::Monotonic(ms));
        ms
    }

    /// Returns whether an earlier attempt's record is played back.
    pub(crate) fn is_played(&self) -> bool {
        self.notes().played.is_some()
    }

    /// Records the result of a wait.
    pub(crate) fn record_wait(&self, ready: &[u32]) {
        self.notes().taken.read(Reading::Ready(ready.to_vec()));
    }

    /// Returns the result of the next wait in the attempt that is played back; `None` if it did
    /// not wait there.
    pub(crate) fn played_wait(&self) -> Option<Vec<u32>> {
        let mut notes = self.notes();
        let ready = match notes.played(|reading| matches!(reading, Reading::Ready(_))) {
            Some(Some(Reading::Ready(ready))) => Some(ready),
            _ => None,
        };
        notes.taken.read(Reading::Ready(ready.clone().unwrap_or_default()));
        ready
    }

    /// Returns the seed of the guest's random numbers.
    pub(crate) fn seed(&self) -> Seed {
        let mut notes = self.notes();
        let recorded = notes.played.as_ref().and_then(|played| played.notes.seed);
        *notes.taken.seed.get_or_insert_with(|| recorded.unwrap_or_else(new_seed))
    }

    /// Records the use of a power whose results are not recorded.
    pub(crate) fn record_power(&self, power: Power) {
        self.notes().taken.record_power(power.as_str());
    }

    /// Returns the inputs read so far.
    pub(crate) fn recorded_inputs(&self) -> RecordedInputs {
        self.notes().taken.clone()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // A panic cannot leave the record half-updated.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a new unguessable seed.
fn new_seed() -> Seed {
    let mut bytes = [0; 32];
    // Fills all bytes at once; `random` would make each from a word.
    rand::fill(&mut bytes);
    Seed(bytes)
}

impl Notes {
    /// Returns the next reading in a replay if it is of that kind.
    #[expect(clippy::option_option, reason = "no replay, no such reading, or the reading")]
    fn played(&mut self, fits: impl Fn(&Reading) -> bool) -> Option<Option<Reading>> {
        let played = self.played.as_mut()?;
        let next = played.notes.readings.get(played.at).filter(|(reading, _)| fits(reading));
        let reading = next.map(|(reading, times)| {
            played.times += 1;
            if played.times >= *times {
                (played.at, played.times) = (played.at + 1, 0);
            }
            reading.clone()
        });
        Some(reading)
    }

    /// Returns the last reading of a kind, as the base for values beyond the record: time must
    /// advance, or a guest could wait forever.
    fn last(&self, of: impl Fn(&Reading) -> Option<u64>) -> u64 {
        self.taken.readings.iter().rev().find_map(|(reading, _)| of(reading)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_played_back_in_their_order() {
        let world = Nondeterminism::new(None);
        let seed = world.seed();
        let times = [world.wall_ms(), world.wall_ms(), world.monotonic_ms()];
        world.record_wait(&[1]);
        let notes = world.recorded_inputs();

        let again = Nondeterminism::new(Some(Arc::new(notes.clone())));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!([again.wall_ms(), again.wall_ms(), again.monotonic_ms()], times);
        assert_eq!((again.played_wait(), again.seed()), (Some(vec![1]), seed));
        assert_eq!(again.recorded_inputs(), notes);
    }

    #[test]
    fn what_is_asked_beyond_the_notes_is_made_up_and_shows() {
        let mut notes = RecordedInputs::default();
        notes.read(Reading::Wall(1_000));
        let again = Nondeterminism::new(Some(Arc::new(notes.clone())));
        assert_eq!((again.monotonic_ms(), again.wall_ms(), again.wall_ms()), (1, 1_000, 1_001));
        assert_ne!(again.recorded_inputs(), notes);
        assert!(Nondeterminism::new(Some(Arc::new(notes))).played_wait().is_none());
    }
}
