//! Checks whether good calls are later beside attacks than beside neighbours that compute.

use super::lane::Took;
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate_artifacts::HOSTILE;

/// A good call is late if it takes this many times as long as nearly all of its kind beside
/// neighbours that only compute.
const LATE: u32 = 4;
/// One in this many calls may be late: the machine has other work, too.
const CALLS_A_LATE_ONE: usize = 50;
/// Calls are quick if their median is less than this.
const QUICK: Duration = Duration::from_millis(1);
/// No call may take this many times as long. A neighbour that does not yield holds a core until
/// its fuel runs out, which takes longer.
const STUCK: u32 = 30;

/// The durations of good calls.
#[derive(Default)]
pub(super) struct Lateness {
    /// Beside neighbours that compute.
    pub(super) fair: Vec<Took>,
    /// Beside attacks.
    pub(super) hostile: Vec<Took>,
    /// The number of attacks.
    pub(super) attacks: u64,
    /// For each attack, the longest time that it held its thread without yielding.
    held: BTreeMap<&'static str, Duration>,
}

impl Lateness {
    pub(super) fn hold(&mut self, held: BTreeMap<&'static str, Duration>) {
        for (name, time) in held {
            let longest = self.held.entry(name).or_default();
            *longest = time.max(*longest);
        }
    }

    pub(super) fn print(&self) {
        println!(
            "{} attacks by {} guests; those that held a thread for longest:",
            self.attacks,
            HOSTILE.len()
        );
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        for (name, time) in held.iter().take(8) {
            println!("  {name:<28} {time:.1?}");
        }
        let (fair, hostile) = (by_tool(&self.fair), by_tool(&self.hostile));
        println!(
            "{:<18} {:>7} {:>26} {:>7} {:>26}",
            "good tool", "fair", "p50, p99, most", "attacks", "p50, p99, most"
        );
        for (tool, times) in &hostile {
            let beside_fair = fair.get(tool).map(|times| (times.len(), summary(times))).unwrap_or_default();
            println!(
                "{tool:<18} {:>7} {:>26} {:>7} {:>26}",
                beside_fair.0,
                beside_fair.1,
                times.len(),
                summary(times)
            );
        }
    }

    pub(super) fn check(&self) {
        let fair = by_tool(&self.fair);
        // Quick calls count as one kind: the few calls of one tool may all have missed the busy
        // cores.
        let is_quick = |times: &Vec<Duration>| percentile(times, 50) < QUICK;
        let mut quick = fair.values().filter(|times| is_quick(times)).flatten().copied().collect::<Vec<_>>();
        quick.sort();
        let usual = |took: &Took| {
            let times = fair.get(took.tool)?;
            Some(percentile(if is_quick(times) { &quick } else { times }, 99))
        };
        // A tool that was not called on both sides cannot be compared.
        let compared: Vec<(&Took, Duration)> =
            self.hostile.iter().filter_map(|took| Some((took, usual(took)?))).collect();
        let beyond =
            |factor: u32| compared.iter().filter(move |(took, usual)| took.time > *usual * factor).count();
        let (late, stuck) = (beyond(LATE), beyond(STUCK));
        println!("of {} good calls beside attacks {late} were late, {stuck} stuck", compared.len());
        assert!(compared.len() >= 100, "too few good calls to say anything");
        assert!(
            late * CALLS_A_LATE_ONE <= compared.len(),
            "{late} of {} good calls were late",
            compared.len()
        );
        assert_eq!(stuck, 0, "good calls were stuck behind attacks");
        for (tool, times) in by_tool(&self.hostile) {
            let Some(usual) = fair.get(tool).map(|times| percentile(times, 50)) else { continue };
            let middle = percentile(&times, 50);
            assert!(
                middle <= usual * LATE * LATE,
                "{tool} takes {middle:?} in the middle, and {usual:?} usually"
            );
        }
    }
}

/// Returns the times of each tool, sorted.
fn by_tool(took: &[Took]) -> BTreeMap<&'static str, Vec<Duration>> {
    let mut by_tool = BTreeMap::<_, Vec<Duration>>::new();
    for Took { tool, time } in took {
        by_tool.entry(*tool).or_default().push(*time);
    }
    by_tool.values_mut().for_each(|times| times.sort());
    by_tool
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn summary(sorted: &[Duration]) -> String {
    let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(sorted, percent));
    format!("{p50:.1?}, {p99:.1?}, {most:.1?}")
}
