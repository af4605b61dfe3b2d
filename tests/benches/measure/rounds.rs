//! Measures in turns: every round covers every subject and starts with a different one, so that
//! other load on the machine affects all of them alike.

use super::accounting::Accounting;
use super::floor::Floor;
use super::governed;
use std::sync::Arc;
use std::time::Instant;
use tollgate::tools::Toolbox;

/// A way to call a tool.
#[derive(Clone)]
pub(crate) struct Subject {
    side: Side,
    tool: &'static str,
    arguments: Arc<str>,
}

#[derive(Clone)]
enum Side {
    Floor(Floor),
    Governed(Toolbox),
    Accounting(Arc<Accounting>),
    Check(Arc<Accounting>),
}

impl Subject {
    /// Returns a subject that uses wasmtime alone.
    pub(crate) fn floor(floor: &Floor, tool: &'static str, arguments: &str) -> Self {
        Self { side: Side::Floor(floor.clone()), tool, arguments: Arc::from(arguments) }
    }

    /// Returns a subject that makes the whole governed call.
    pub(crate) fn governed(toolbox: &Toolbox, tool: &'static str, arguments: &str) -> Self {
        Self { side: Side::Governed(toolbox.clone()), tool, arguments: Arc::from(arguments) }
    }

    /// Returns a subject that only counts what a governed call counts, and one that only checks its
    /// arguments.
    pub(crate) async fn accounting(toolbox: &Toolbox, tool: &'static str, arguments: &str) -> [Self; 2] {
        let accounting = Arc::new(Accounting::of_call(toolbox, tool, arguments).await);
        [Side::Accounting(Arc::clone(&accounting)), Side::Check(accounting)].map(|side| Self {
            side,
            tool,
            arguments: Arc::from(arguments),
        })
    }

    /// Returns the microseconds per call when `tasks` parallel tasks make `calls` calls each.
    async fn round(&self, calls: usize, tasks: usize) -> f64 {
        let host = match &self.side {
            Side::Floor(_) | Side::Accounting(_) | Side::Check(_) => None,
            Side::Governed(toolbox) => Some(governed::host(toolbox)),
        };
        let began = Instant::now();
        let working: Vec<_> = (0..tasks)
            .map(|_| {
                let (subject, host) = (self.clone(), host.clone());
                tokio::spawn(async move {
                    for _ in 0..calls {
                        subject.call(host.as_ref()).await;
                    }
                })
            })
            .collect();
        for task in working {
            task.await.unwrap();
        }
        // The host and its store are dropped after this.
        began.elapsed().as_secs_f64() * 1e6 / (calls * tasks) as f64
    }

    async fn call(&self, host: Option<&tollgate::Host>) -> usize {
        match (&self.side, host) {
            (Side::Floor(floor), _) => floor.call(&self.arguments).await,
            (Side::Accounting(accounting), _) => accounting.count(),
            (Side::Check(accounting), _) => accounting.check(),
            (Side::Governed(_), Some(host)) => governed::call(host, self.tool, &self.arguments).await,
            (Side::Governed(_), None) => 0,
        }
    }
}

/// The extent of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// The number of rounds that count; one more comes before them.
    pub(crate) rounds: usize,
    /// The number of calls of each task in a round.
    pub(crate) calls: usize,
}

/// Returns the microseconds per call of each subject in each round: `[subject][round]`.
pub(crate) async fn measure(subjects: &[(Subject, usize)], extent: Extent) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(extent.rounds); subjects.len()];
    for round in 0..=extent.rounds {
        for turn in 0..subjects.len() {
            let at = (round + turn) % subjects.len();
            let (subject, tasks) = &subjects[at];
            let time = subject.round(extent.calls, *tasks).await;
            if round > 0 {
                times[at].push(time);
            }
        }
    }
    times
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Returns the value at this percentile.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Returns the median of a function of two subjects that were measured in turns.
pub(crate) fn median_of(a: &[f64], b: &[f64], of: fn(f64, f64) -> f64) -> f64 {
    let values: Vec<f64> = a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect();
    median(&values)
}
