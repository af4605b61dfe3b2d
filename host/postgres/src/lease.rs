//! The rules of leases, without a clock or I/O.
//!
//! A host may keep its runs for as long as it renews its row. Others judge the row by two clocks:
//! by the database's, the lease must have run out, and by their own, the row must not have changed
//! for a while. The second rule protects hosts that renew in time when the database's clock steps
//! forward. Fencing keeps records correct whatever the clocks do; these rules only decide how
//! soon a run is taken over, and how soon a late host stops by itself.

use std::collections::HashMap;
use std::time::Duration;

/// The renewals within one lease.
const RENEWALS: u32 = 4;

/// The interval between renewals.
pub(crate) fn interval(lease: Duration) -> Duration {
    lease / RENEWALS
}

/// The time after which a host gives up an exchange on the connection with which it renews its lease. The rest
/// of the lease is for a new connection.
pub(crate) fn longest_exchange(lease: Duration) -> Duration {
    lease / 3
}

/// The row of another host, as it was just read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostLease {
    pub(crate) id: String,
    /// The number of its renewals, which changes with each.
    pub(crate) renewals: i64,
    /// Its lease.
    pub(crate) lease: Duration,
    /// The time until its lease runs out by the database's clock; negative if it has run out, in
    /// milliseconds.
    pub(crate) left_ms: i64,
}

impl HostLease {
    /// Returns whether the database's clock says that the lease is not valid: it has run out, or
    /// it ends later than any renewal could have set it, because the clock has stepped back.
    fn is_over(&self) -> bool {
        let most = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        self.left_ms <= 0 || self.left_ms > most
    }
}

/// One host's view of the others.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// The longest time between two looks that counts. If this host could not read for longer, the
    /// others may not have been able to renew.
    longest: Duration,
    /// When the rows were last read.
    looked: Duration,
    /// The renewals last seen of each host, and when they were first seen, by this host's clock.
    known: HashMap<String, (i64, Duration)>,
}

impl Watcher {
    /// Creates the view of a host that looks four times within its own lease.
    pub(crate) fn new(own: Duration) -> Self {
        Self { longest: interval(own) * 3 / 2, looked: Duration::ZERO, known: HashMap::new() }
    }

    /// Takes in the rows that were read at `now`, by this host's monotonic clock, and returns the
    /// hosts whose runs may be taken over.
    pub(crate) fn see(&mut self, now: Duration, rows: &[HostLease]) -> Vec<HostLease> {
        if now.saturating_sub(self.looked) > self.longest {
            self.known.clear();
        }
        self.looked = now;
        self.known.retain(|id, _| rows.iter().any(|row| row.id == *id));
        let mut silent = Vec::new();
        for row in rows {
            let first_seen = match self.known.get(&row.id) {
                Some((renewals, since)) if *renewals == row.renewals => *since,
                _ => now,
            };
            self.known.insert(row.id.clone(), (row.renewals, first_seen));
            let unchanged = now.saturating_sub(first_seen);
            if row.is_over() && unchanged >= 2 * interval(row.lease) {
                silent.push(row.clone());
            }
        }
        silent
    }
}

/// A host's view of its own lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnLease {
    lease: Duration,
    /// When the last answered renewal was sent, by a clock that also counts while the machine
    /// sleeps.
    sent: Option<Duration>,
}

impl OwnLease {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, sent: None }
    }

    /// Records that a renewal that was sent at this time was answered.
    pub(crate) fn record_renewal(&mut self, sent: Duration) {
        self.sent = Some(sent);
    }

    /// Records that the host was declared dead.
    pub(crate) fn lost(&mut self) {
        self.sent = None;
    }

    /// Returns whether the host may start something new. It stops a fifth of the lease before
    /// another host may take over.
    pub(crate) fn may_start(&self, now: Duration) -> bool {
        self.sent.is_some_and(|sent| now.saturating_sub(sent) < self.lease - self.lease / 5)
    }

    /// Returns the time until the lease runs out and other hosts may take over the runs; `None` without a lease.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        self.sent.map(|sent| (sent + self.lease).saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn row(renewals: i64, left_ms: i64) -> HostLease {
        HostLease { id: "a".to_owned(), renewals, lease: LEASE, left_ms }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_host_is_silent_once_its_lease_is_over_and_its_row_stood_still() {
        let mut watcher = Watcher::new(LEASE);
        assert!(watcher.see(at(0), &[row(1, 5_000)]).is_empty());
        assert!(watcher.see(at(3), &[row(1, 2_001)]).is_empty());
        assert!(watcher.see(at(5), &[row(1, 1)]).is_empty(), "its lease is valid");
        assert_eq!(watcher.see(at(6), &[row(1, 0)]).len(), 1);
        assert!(watcher.see(at(7), &[row(2, -3_600_000)]).is_empty(), "it has just renewed");
        assert!(watcher.see(at(9), &[row(2, -3_600_000)]).is_empty());
        assert!(watcher.see(at(11), &[row(2, -3_600_000)]).is_empty());
        assert_eq!(watcher.see(at(12), &[row(2, -3_600_000)]).len(), 1);
    }

    #[test]
    fn a_new_watcher_waits_before_it_judges() {
        let mut watcher = Watcher::new(LEASE);
        assert!(watcher.see(at(100), &[row(1, -1)]).is_empty());
        assert!(watcher.see(at(103), &[row(1, -1)]).is_empty());
        assert_eq!(watcher.see(at(105), &[row(1, -1)]).len(), 1);
    }

    #[test]
    fn time_in_which_the_watcher_could_not_read_does_not_count() {
        let mut watcher = Watcher::new(LEASE);
        assert!(watcher.see(at(100), &[row(1, 9_000)]).is_empty());
        // The database was away.
        assert!(watcher.see(at(120), &[row(1, -11_000)]).is_empty());
        assert!(watcher.see(at(123), &[row(1, -14_000)]).is_empty());
        assert_eq!(watcher.see(at(126), &[row(1, -17_000)]).len(), 1);
    }

    #[test]
    fn a_clock_that_steps_back_keeps_a_dead_host_for_no_more_than_the_step_hides() {
        let mut watcher = Watcher::new(LEASE);
        assert!(watcher.see(at(0), &[row(1, 10_000)]).is_empty());
        // The database's clock stepped back by an hour.
        assert!(watcher.see(at(3), &[row(1, 3_607_000)]).is_empty());
        assert_eq!(watcher.see(at(6), &[row(1, 3_604_000)]).len(), 1);
    }

    #[test]
    fn a_host_stops_before_others_may_take_over() {
        let mut own = OwnLease::new(LEASE);
        assert!(!own.may_start(at(0)), "it has never renewed");
        own.record_renewal(at(100));
        assert!(own.may_start(at(107)));
        assert!(!own.may_start(at(108)));
        assert_eq!(own.left(at(109)), Some(at(1)), "it tries to renew until others may take over");
        assert_eq!(own.left(at(111)), Some(Duration::ZERO));
        own.lost();
        assert_eq!(own.left(at(111)), None);
        assert!(!own.may_start(at(101)));
    }

    /// A host and the one that watches it, in ticks of 100 ms.
    struct Story<'a> {
        /// Steps of the database's clock: when, and by how much, in seconds.
        steps: &'a [(u64, i64)],
        /// When the database is away: from when, and for how long, in seconds.
        outages: &'a [(u64, u64)],
        /// The time between a renewal and a look, in milliseconds.
        offset_ms: u64,
        dies_at: u64,
    }

    impl Story<'_> {
        /// Returns when the host is taken for dead, in milliseconds; `None` if it is not.
        fn taken_at(&self) -> Option<u64> {
            let interval_ms = u64::try_from(interval(LEASE).as_millis()).unwrap_or_default();
            let (mut watcher, mut skew, mut until, mut renewals) = (Watcher::new(LEASE), 0i64, 0i64, 0i64);
            for tick in 0..4_000u64 {
                let now = tick * 100;
                let stepped = self.steps.iter().filter(|(when, _)| when * 10 == tick);
                skew += stepped.map(|(_, step)| step * 1_000).sum::<i64>();
                let database = now.cast_signed() + skew;
                let is_away = |(from, length): &(u64, u64)| (from * 10..(from + length) * 10).contains(&tick);
                if self.outages.iter().any(is_away) {
                    continue;
                }
                if tick < self.dies_at * 10 && now % interval_ms == 0 {
                    renewals += 1;
                    until = database + 10_000;
                }
                if now % interval_ms == self.offset_ms / 100 * 100
                    && !watcher.see(Duration::from_millis(now), &[row(renewals, until - database)]).is_empty()
                {
                    return Some(now);
                }
            }
            None
        }
    }

    /// A thousand steps of the database's clock, and as many failovers to a server whose clock differs, at
    /// every moment around a host's death.
    #[test]
    fn no_step_of_a_clock_kills_a_living_host_or_keeps_a_dead_one_for_more_than_two_leases() {
        let differences = [5, 30, 3_600, -5, -30, -3_600];
        for number in 0..2_000u64 {
            let difference = differences[usize::try_from(number % 6).unwrap_or_default()];
            // The host dies after 40 s; the clock steps up to 20 s before that, or after it.
            let steps = [(20 + number / 6 % 40, difference)];
            // A failover takes a while.
            let outages = [(steps[0].0, number % 4)];
            let outages = if number < 1_000 { &[][..] } else { &outages };
            let story = Story { steps: &steps, outages, offset_ms: number * 7 % 2_500, dies_at: 40 };
            let taken = story.taken_at().unwrap_or(u64::MAX);
            assert!(taken >= 40_000, "{number}: a living host was declared dead at {taken}");
            assert!(taken <= 60_000, "{number}: {steps:?}: taken over {} ms after its death", taken - 40_000);
        }
    }

    proptest! {
        /// Whatever steps the database's clock makes, and however long the database is away, a host
        /// that renews whenever it can is never taken for dead. A dead one is within 1.35 leases, if
        /// the clock does not step back.
        #[test]
        fn hosts_that_renew_are_never_silent_and_dead_ones_soon_are(
            steps in prop::collection::vec((0u64..200, -3_600i64..3_600), 0..4),
            offset_ms in 0u64..2_500,
            dies_at in 100u64..150,
            outages in prop::collection::vec((0u64..100, 1u64..40), 0..3),
        ) {
            let story = Story { steps: &steps, outages: &outages, offset_ms, dies_at };
            let (died, taken) = (dies_at * 1_000, story.taken_at());
            prop_assert!(taken.is_none_or(|taken| taken >= died), "a living host was declared dead at {taken:?}");
            let stepped_back = steps.iter().any(|(when, step)| *step < 0 && when * 1_000 >= died - 10_000);
            if outages.is_empty() && !stepped_back {
                let late = taken.map_or(u64::MAX, |taken| taken - died);
                prop_assert!(late <= 13_500, "taken over after {late} ms");
            }
        }
    }
}
