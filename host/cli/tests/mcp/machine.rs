//! The part of the machine's processors that other programs leave to a server under test.

use std::time::{Duration, Instant};

/// The time around a call in which the other programs' use of the processors is measured. The
/// kernel counts in steps of 10 ms.
const WINDOW: Duration = Duration::from_millis(500);
/// Other programs that use less than this part of the machine do not slow a call down.
const QUIET: f64 = 0.1;
/// The smallest part that is assumed to be left, so that a call has a limit on any machine.
const LEAST_LEFT: f64 = 1.0 / 16.0;

/// The processor time that all programs and the server with its children have used.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    all: Duration,
    own: Duration,
}

/// The use of the processors over time by all programs, and by a server with its children.
pub(crate) struct Machine {
    server: u32,
    cores: usize,
    looks: Vec<Look>,
}

impl Machine {
    /// Begins to observe the machine with this server.
    pub(crate) fn with_server(server: u32) -> Self {
        let mut machine = Self { server, cores: 1, looks: Vec::new() };
        machine.look();
        machine
    }

    /// Notes what was used until now.
    pub(crate) fn look(&mut self) {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let mut lines = stat.lines().filter(|line| line.starts_with("cpu"));
        let fields: Vec<u64> =
            lines.next().unwrap().split_whitespace().skip(1).map(|ticks| ticks.parse().unwrap()).collect();
        self.cores = lines.count();
        // user, nice, system, irq, softirq, steal: all but idle and iowait.
        let all: u64 = [0, 1, 2, 5, 6, 7].iter().map(|at| fields[*at]).sum();
        let children: Duration = children(self.server).into_iter().map(cpu_time).sum();
        let own = [11, 12, 13, 14];
        let own = children + ticks(self.server, &own) + ticks(std::process::id(), &own[..2]);
        self.looks.push(Look { at: Instant::now(), all: Duration::from_millis(all * 10), own });
    }

    /// Notes what is used for as long as it matters for a call that has just ended.
    pub(crate) fn settle(&mut self) {
        for _ in 0..6 {
            std::thread::sleep(WINDOW / 5);
            self.look();
        }
    }

    /// Returns the part of the machine that other programs left to the server around this time,
    /// up to 1 for a quiet machine. The use of the server, its children and this test does not count.
    pub(crate) fn left_by_others(&self, began: Instant, ended: Instant) -> f64 {
        let (first, last) = (self.looks[0], self.looks[self.looks.len() - 1]);
        let from = began.checked_sub(WINDOW).unwrap_or(began);
        let before = self.looks.partition_point(|look| look.at <= from).checked_sub(1);
        let before = before.map_or(first, |at| self.looks[at]);
        let after = self.looks.partition_point(|look| look.at < ended + WINDOW);
        let after = self.looks.get(after).copied().unwrap_or(last);
        let time = (after.at - before.at).as_secs_f64() * self.cores as f64;
        let own = after.own.saturating_sub(before.own);
        let others = (after.all - before.all).saturating_sub(own).as_secs_f64() / time;
        if others < QUIET { 1.0 } else { (1.0 - others).max(LEAST_LEFT) }
    }
}

/// Returns the processor time that a process has used, without that of its children.
pub(crate) fn cpu_time(id: u32) -> Duration {
    ticks(id, &[11, 12])
}

/// Returns the sum of these fields of a process's statistics; 0 once it has ended.
fn ticks(id: u32, fields: &[usize]) -> Duration {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return Duration::ZERO };
    let all: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields.iter().map(|at| all[*at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the processes that a process has started and that have not ended.
pub(crate) fn children(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    children
        .flat_map(|ids| ids.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}
