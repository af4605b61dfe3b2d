//! Lanes, each of which makes one call after another.

use super::Loaded;
use crate::hostile::unlike_documented;
use crate::rig::{Ended, Rig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_artifacts::{Expectation, Guest, HOSTILE, good};
use tollgate_sandbox::{Grants, Limits, Sandbox};

/// One in this many attacks loads a component instead of calling it. Here the component is
/// compiled in this process; a host uses a child process.
const CALLS_A_LOAD: u64 = 32;
/// The good tools, repeated according to how often they are called.
const GOOD: [&Guest; 12] = [
    &good::ECHO,
    &good::ECHO,
    &good::ECHO,
    &good::ECHO,
    &good::ADDER,
    &good::ADDER,
    &good::REPORTS,
    &good::FAILS,
    &good::WATCHES_THE_CLOCK,
    &good::DICE,
    &good::WAITS,
    &good::COMPUTES,
];

/// The kind of calls that a lane makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Calls of good tools, whose times are measured.
    Good,
    /// Computations within the limits of a good tool.
    Fair,
    /// Attacks.
    Hostile,
}

/// All guests: loaded, or as bytes if they are refused.
pub(super) struct Cast {
    loaded: BTreeMap<&'static str, Loaded>,
    bytes: BTreeMap<&'static str, Vec<u8>>,
    grants: BTreeMap<&'static str, Grants>,
    callable: Vec<&'static Guest>,
}

impl Cast {
    pub(super) fn load(rig: &Rig) -> Self {
        let (refused, callable): (Vec<_>, Vec<_>) =
            HOSTILE.iter().partition(|guest| matches!(guest.expects, Expectation::Refused(_)));
        let called = callable.iter().chain(&GOOD);
        let loaded = called.map(|guest| (guest.name, rig.load(guest).unwrap())).collect();
        let bytes = refused.iter().chain(&callable).map(|guest| (guest.name, guest.bytes())).collect();
        let grants = callable.iter().map(|guest| (guest.name, rig.grants(guest))).collect();
        Self { loaded, bytes, grants, callable }
    }
}

/// The duration of a good call.
pub(super) struct Took {
    pub(super) tool: &'static str,
    pub(super) time: Duration,
}

/// The results of a lane.
#[derive(Default)]
pub(super) struct Done {
    pub(super) good: Vec<Took>,
    /// The number of calls and loads that were not good calls.
    pub(super) others: u64,
    /// Calls with an unexpected outcome.
    pub(super) problems: Vec<String>,
    /// For each attack, the longest time that it held its thread without yielding.
    pub(super) held: BTreeMap<&'static str, Duration>,
}

impl Done {
    pub(super) fn add(&mut self, other: Done) {
        self.good.extend(other.good);
        self.others += other.others;
        for (name, time) in other.held {
            let held = self.held.entry(name).or_default();
            *held = time.max(*held);
        }
    }
}

/// A task that makes one call after another.
pub(super) struct Lane {
    part: Part,
    cast: Arc<Cast>,
    sandbox: Sandbox,
    random: u64,
    done: Done,
}

impl Lane {
    pub(super) fn new(part: Part, cast: &Arc<Cast>, sandbox: &Sandbox, seed: u64) -> Self {
        Self { part, cast: Arc::clone(cast), sandbox: sandbox.clone(), random: seed, done: Done::default() }
    }

    /// Continues as long as there is another call to make.
    pub(super) async fn run(mut self, another: impl Fn() -> bool) -> Done {
        while another() {
            match self.part {
                Part::Good => self.call_good().await,
                Part::Fair => self.compute().await,
                Part::Hostile => self.attack().await,
            }
        }
        self.done
    }

    async fn call_good(&mut self) {
        let guest = GOOD[self.below(GOOD.len() as u64)];
        let arguments = format!(r#"{{"still":{}}}"#, self.random);
        let began = Instant::now();
        let ended = self.call(guest, &arguments).await;
        self.done.good.push(Took { tool: guest.name, time: began.elapsed() });
        let answered = ended.result.as_ref().map(|output| output.result.data.to_string());
        if guest.name == good::ECHO.name && answered.as_deref().ok() != Some(&arguments) {
            self.done.problems.push(format!("echo answers {arguments} with {:?}", ended.result));
        }
        self.check(guest, &Ok(ended));
    }

    async fn compute(&mut self) {
        let ended = self.call(&good::COMPUTES, "{}").await;
        self.done.others += 1;
        self.check(&good::COMPUTES, &Ok(ended));
    }

    async fn attack(&mut self) {
        if self.below(CALLS_A_LOAD) == 0 {
            return self.load_hostile().await;
        }
        let chosen = self.below(self.cast.callable.len() as u64);
        let guest = self.cast.callable[chosen];
        let mut longest = Duration::ZERO;
        let ended = timed(self.call(guest, "{}"), &mut longest).await;
        let held = self.done.held.entry(guest.name).or_default();
        *held = longest.max(*held);
        self.done.others += 1;
        self.check(guest, &Ok(ended));
    }

    /// Loads a hostile guest, and calls it if loading is not the attack.
    async fn load_hostile(&mut self) {
        let guest = &HOSTILE[self.below(HOSTILE.len() as u64)];
        let came_out =
            match Loaded::load(&self.sandbox, guest.name, self.cast.bytes[guest.name].clone()).await {
                Ok(loaded) => {
                    let granted = self.cast.grants.get(guest.name).cloned().unwrap_or_default();
                    Ok(loaded.with(granted).call("{}", &limits(guest), timeout(guest)).await)
                }
                Err(reason) => Err(reason),
            };
        self.done.others += 1;
        self.check(guest, &came_out);
    }

    async fn call(&self, guest: &Guest, arguments: &str) -> Ended {
        self.cast.loaded[guest.name].call(arguments, &limits(guest), timeout(guest)).await
    }

    fn check(&mut self, guest: &Guest, came_out: &Result<Ended, String>) {
        let problem = unlike_documented(guest, came_out);
        self.done.problems.extend(problem.map(|problem| format!("{}: {problem}", guest.name)));
    }

    /// Returns a number below the bound: SplitMix64, which is random enough and reproducible.
    fn below(&mut self, bound: u64) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound).unwrap()
    }
}

/// Runs the work and records the longest time that it held its thread.
async fn timed<T>(work: impl Future<Output = T>, longest: &mut Duration) -> T {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let began = Instant::now();
        let polled = work.as_mut().poll(context);
        *longest = began.elapsed().max(*longest);
        polled
    })
    .await
}

/// Returns limits. Guests that run out of fuel get little, so that there is time for many calls.
fn limits(guest: &Guest) -> Limits {
    let fuel = match guest.expects {
        Expectation::Code("out_of_fuel") => 20_000_000,
        _ => 1_000_000_000,
    };
    Limits { fuel, ..Limits::default() }
}

/// Returns the deadline. Guests that reach it only wait and do not slow down others.
fn timeout(guest: &Guest) -> Duration {
    match guest.expects {
        Expectation::Code("timed_out") => Duration::from_millis(50),
        _ => Duration::from_secs(120),
    }
}
