//! Creates inputs from seeds without feedback from coverage: the same number makes the same input
//! on every machine.

/// The longest generated input, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Values at which code tends to fail.
const EDGES: [u8; 9] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\\', b'\n'];

/// Reproducible random numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Creates the generator for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the bound; 0 if the bound is 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
    }
}

/// Returns one of the seeds, changed in one to eight ways.
///
/// # Panics
/// If there are no seeds.
#[must_use]
pub fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        change(&mut input, seeds, random);
    }
    input.truncate(MAX_BYTES);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(16)).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = EDGES[random.below(EDGES.len())],
        2 => input.insert(at, EDGES[random.below(EDGES.len())]),
        3 if at < end => drop(input.drain(at..end)),
        4 if at < end => {
            let again = input[at..end].to_vec();
            drop(input.splice(at..at, again));
        }
        // Increments or decrements digits and lengths.
        5 if at < input.len() => {
            input[at] =
                if random.below(2) == 0 { input[at].wrapping_add(1) } else { input[at].wrapping_sub(1) };
        }
        // Inserts a piece of another seed.
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(64)).min(other.len());
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
    }
}
