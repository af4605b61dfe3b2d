//! `wasi:random`: the output of a stream cipher, from one seed per attempt. Each seed is new and
//! unguessable, and is recorded on first use; it reproduces the same numbers. The cipher is fixed
//! here instead of left to a library's choice, because records outlive libraries.

use super::Nondeterminism;
use rand::rngs::ChaCha12Rng;
use rand::{Rng, SeedableRng, TryRng};
use std::convert::Infallible;

/// The stream of `wasi:random/random`.
pub(crate) const SECURE: u64 = 0;
/// The stream of `wasi:random/insecure`: equally good, but different.
pub(crate) const INSECURE: u64 = 1;
/// The stream of `wasi:random/insecure-seed`, which is constant during the attempt.
pub(crate) const INSECURE_SEED: u64 = 2;

/// Returns one of the streams that an attempt's seed determines.
pub(crate) fn stream(world: &Nondeterminism, stream: u64) -> Box<dyn Rng + Send> {
    Box::new(SeededRandom { world: world.clone(), stream, numbers: None })
}

/// Created at first use, which most guests never reach.
struct SeededRandom {
    world: Nondeterminism,
    stream: u64,
    numbers: Option<ChaCha12Rng>,
}

impl SeededRandom {
    fn numbers(&mut self) -> &mut ChaCha12Rng {
        self.numbers.get_or_insert_with(|| numbers(&self.world, self.stream))
    }
}

/// Returns the numbers of one of the streams from its beginning.
pub(crate) fn numbers(world: &Nondeterminism, stream: u64) -> ChaCha12Rng {
    let mut numbers = ChaCha12Rng::from_seed(world.seed().0);
    numbers.set_stream(stream);
    numbers
}

impl TryRng for SeededRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.numbers().next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.numbers().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.numbers().fill_bytes(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tollgate_agent::recorded_inputs::{RecordedInputs, Seed};

    fn three(world: &Nondeterminism) -> [u64; 3] {
        [SECURE, INSECURE, INSECURE_SEED].map(|stream| numbers(world, stream).next_u64())
    }

    #[test]
    fn a_seed_gives_the_same_numbers_on_every_machine_for_ever() {
        let taken = RecordedInputs { seed: Some(Seed([7; 32])), ..RecordedInputs::default() };
        let world = Nondeterminism::new(Some(Arc::new(taken)));
        let numbers = [2_363_194_108_971_422_454, 6_306_438_559_307_962_806, 15_203_462_170_932_221_866];
        assert_eq!(three(&world), numbers);
    }

    #[test]
    fn each_attempt_has_numbers_of_its_own_and_its_streams_differ() {
        let (one, other) = (Nondeterminism::new(None), Nondeterminism::new(None));
        let mut all: Vec<u64> = three(&one).into_iter().chain(three(&other)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert!(
            one.recorded_inputs().seed.is_some()
                && one.recorded_inputs().seed != other.recorded_inputs().seed
        );
    }
}
