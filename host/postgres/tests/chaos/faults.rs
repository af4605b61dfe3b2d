//! The faults of a host, drawn from a seed.

use std::time::Duration;

/// Random numbers, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below this one.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The one after Knuth.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = u64::try_from((most - least).as_millis()).unwrap();
        least + Duration::from_millis(self.below(span.max(1)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Killed, and started anew.
    Kill,
    /// Stopped, and continued after a while.
    Stop(Duration),
    /// Its connections break, and it cannot make new ones for a while.
    Cut(Duration),
    /// Its connections stand still for a while.
    Hold(Duration),
    /// It hears nothing from the server for a while, which hears it.
    HoldAnswers(Duration),
    /// The server answers slowly for a while.
    Delay(Duration),
    /// The answer to its next commit is lost.
    LoseCommit,
    /// The server ends its connections.
    Terminate,
    /// The pooler of the first host is killed, and started anew. Without a pooler, nothing happens.
    KillPooler,
    /// Its clock steps: it is this many seconds ahead of the others, or behind. Without libfaketime,
    /// nothing happens.
    Clock(i64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) host: usize,
    pub(crate) kind: Kind,
    /// The time until the next one.
    pub(crate) pause: Duration,
}

impl Fault {
    /// Draws a fault; the first of a story kills a host while it has work.
    pub(crate) fn draw(random: &mut Random, hosts: usize, lease: Duration, first: bool) -> Self {
        let while_ = |random: &mut Random| random.between(lease / 2, 3 * lease);
        let kind = match random.below(11) {
            _ if first => Kind::Kill,
            0 | 1 => Kind::Kill,
            2 => Kind::Stop(while_(random)),
            3 => Kind::Cut(while_(random)),
            4 => Kind::Hold(while_(random)),
            5 => Kind::HoldAnswers(while_(random)),
            6 => Kind::LoseCommit,
            7 => Kind::Terminate,
            8 => Kind::KillPooler,
            9 => Kind::Delay(while_(random)),
            _ => Kind::Clock(random.below(6 * 3_600).cast_signed() - 3 * 3_600),
        };
        let host = usize::try_from(random.below(hosts as u64)).unwrap();
        Self { host, kind, pause: random.between(Duration::from_millis(50), lease) }
    }
}
