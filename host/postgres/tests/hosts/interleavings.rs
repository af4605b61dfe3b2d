//! The rules by which hosts share runs, as a machine without a clock and without a database: all interleavings
//! of three hosts, two runs and six steps. Without any of the checks, one of them goes wrong. The database
//! then takes random steps beside the machine, and must answer as it does.

use crate::cluster::cluster;
use crate::{commit, prompt, started, step};
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;
use tollgate::store::{Commit, CommitError, CoordinationStore, RunStore};
use tollgate_postgres::PostgresStore;

const HOSTS: usize = 3;
const RUNS: usize = 2;
const STEPS: usize = 6;

/// A check in the statements of the database, or a value that they raise for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Only a run without a driver, or of the same host, can be acquired.
    Owner,
    /// Only with all of its events.
    Known,
    /// An acquisition raises the epoch.
    AcquisitionRaises,
    /// A takeover raises the epoch.
    TakeoverRaises,
    /// A commit must have the run's epoch.
    Epoch,
    /// A commit must follow the run's last event.
    Events,
    /// A commit that is sent again is recognized.
    LastCommit,
    /// A host that renewed since it was seen is not declared dead.
    Renewals,
}

const CHECKS: [Check; 8] = [
    Check::Owner,
    Check::Known,
    Check::AcquisitionRaises,
    Check::TakeoverRaises,
    Check::Epoch,
    Check::Events,
    Check::LastCommit,
    Check::Renewals,
];

/// A step of a host, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Reads the record of a run.
    Read(usize, usize),
    Acquire(usize, usize),
    Commit(usize, usize),
    /// A commit whose answer is lost. The next one sends it again.
    LoseAnswer(usize, usize),
    /// Its driver stops; the release is written later.
    Stop(usize, usize),
    Release(usize, usize),
    Renew(usize),
    /// Reads the row of another host.
    See(usize, usize),
    /// Declares another host dead, and takes over its runs.
    TakeOver(usize, usize),
    /// A failover loses the last event of a run.
    Regress(usize),
}

/// Returns all steps.
fn steps() -> Vec<Step> {
    let mut all = Vec::new();
    for host in 0..HOSTS {
        for run in 0..RUNS {
            let of_run =
                [Step::Read, Step::Acquire, Step::Commit, Step::LoseAnswer, Step::Stop, Step::Release];
            all.extend(of_run.map(|step| step(host, run)));
        }
        for other in (0..HOSTS).filter(|other| *other != host) {
            all.extend([Step::See(host, other), Step::TakeOver(host, other)]);
        }
        all.push(Step::Renew(host));
    }
    all.extend((0..RUNS).map(Step::Regress));
    all
}

/// An event of a run: its driver, in which epoch, and the number of the event before it.
type Written = (usize, u8, u8);

/// The row of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Row {
    owner: Option<usize>,
    epoch: u8,
    events: u8,
    last_commit: Option<Written>,
    /// The actual history: the host that may drive it, and its events.
    driver: Option<usize>,
    record: Vec<Written>,
}

/// The row of a host, and what it knows of runs and of other hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Host {
    is_dead: bool,
    renewals: u8,
    /// The epoch and the events of the runs that it drives.
    drives: [Option<(u8, u8)>; RUNS],
    /// The epochs of releases that are not written yet.
    releases: [Option<u8>; RUNS],
    read: [u8; RUNS],
    seen: [Option<u8>; HOSTS],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Machine {
    hosts: [Host; HOSTS],
    runs: [Row; RUNS],
    has_regressed: bool,
}

/// The answer to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// There was nothing to do.
    None,
    Done,
    Acquired(u8),
    Advanced,
    Behind,
    Fenced,
}

impl Machine {
    /// Takes a step, without one of the checks.
    ///
    /// # Errors
    /// Something happened that never may.
    fn take(&mut self, step: Step, without: Option<Check>) -> Result<Answer, &'static str> {
        let checks = |check| without != Some(check);
        match step {
            Step::Read(host, run) if self.hosts[host].drives[run].is_none() => {
                self.hosts[host].read[run] = self.runs[run].events;
            }
            Step::Acquire(host, run) if self.hosts[host].drives[run].is_none() => {
                let (known, row) = (self.hosts[host].read[run], &mut self.runs[run]);
                if row.owner.is_some_and(|owner| owner != host) && checks(Check::Owner)
                    || known != row.events && checks(Check::Known)
                {
                    return Ok(if known > row.events { Answer::Behind } else { Answer::Advanced });
                }
                if row.driver.is_some_and(|driver| driver != host) {
                    return Err("two hosts drive a run");
                }
                if known != row.events {
                    return Err("a host drives a run whose record it does not know");
                }
                row.epoch += u8::from(checks(Check::AcquisitionRaises));
                (row.owner, row.driver) = (Some(host), Some(host));
                self.hosts[host].drives[run] = Some((row.epoch, row.events));
                return Ok(Answer::Acquired(row.epoch));
            }
            Step::Commit(host, run) | Step::LoseAnswer(host, run) => {
                let Some((epoch, after)) = self.hosts[host].drives[run] else { return Ok(Answer::None) };
                let answer = self.runs[run].commit((host, epoch, after), checks)?;
                self.hosts[host].drives[run] = match answer {
                    Answer::Done if matches!(step, Step::LoseAnswer(..)) => Some((epoch, after)),
                    Answer::Done => Some((epoch, after + 1)),
                    _ => None,
                };
                return Ok(answer);
            }
            Step::Stop(host, run) if self.hosts[host].drives[run].is_some() => {
                let host = &mut self.hosts[host];
                host.releases[run] = host.drives[run].take().map(|(epoch, _)| epoch);
            }
            Step::Release(host, run) if self.hosts[host].releases[run].is_some() => {
                let (epoch, row) = (self.hosts[host].releases[run].take(), &mut self.runs[run]);
                if row.owner == Some(host) && epoch == Some(row.epoch) {
                    (row.owner, row.driver) = (None, None);
                }
            }
            Step::Renew(host) if !self.hosts[host].is_dead => self.hosts[host].renewals += 1,
            Step::See(host, other) => self.hosts[host].seen[other] = Some(self.hosts[other].renewals),
            Step::TakeOver(host, other) if !self.hosts[other].is_dead => {
                let Some(seen) = self.hosts[host].seen[other] else { return Ok(Answer::None) };
                if seen != self.hosts[other].renewals {
                    return if checks(Check::Renewals) { Ok(Answer::None) } else { Err("it had renewed") };
                }
                self.hosts[other].is_dead = true;
                for row in self.runs.iter_mut().filter(|row| row.owner == Some(other)) {
                    row.epoch += u8::from(checks(Check::TakeoverRaises));
                    (row.owner, row.driver) = (None, None);
                }
            }
            Step::Regress(run) if !self.has_regressed && self.runs[run].events > 0 => {
                let row = &mut self.runs[run];
                row.record.pop();
                (row.events, row.last_commit) = (row.events - 1, row.record.last().copied());
                self.has_regressed = true;
            }
            _ => return Ok(Answer::None),
        }
        Ok(Answer::Done)
    }
}

impl Row {
    fn commit(&mut self, written: Written, checks: impl Fn(Check) -> bool) -> Result<Answer, &'static str> {
        let (host, epoch, after) = written;
        if self.last_commit == Some(written) && checks(Check::LastCommit) {
            return Ok(Answer::Done);
        }
        if epoch != self.epoch && checks(Check::Epoch) {
            return Ok(Answer::Fenced);
        }
        if after != self.events && checks(Check::Events) {
            return match self.record.contains(&written) {
                true => Err("a host learns that nothing was stored, which is wrong"),
                false => Ok(if after > self.events { Answer::Behind } else { Answer::Advanced }),
            };
        }
        if self.driver != Some(host) {
            return Err("the commit of a late host is stored");
        }
        if self.record.len() != usize::from(after) {
            return Err("the record has a gap, or an event twice");
        }
        self.record.push(written);
        (self.owner, self.events, self.last_commit) = (Some(host), after + 1, Some(written));
        Ok(Answer::Done)
    }
}

/// Takes all steps from all states that are reached in this many steps, without one of the checks. The first
/// step is one of the first host and the first run, as any other would be after renaming them.
fn all_interleavings(without: Option<Check>) -> Result<usize, &'static str> {
    let (steps, mut last) = (steps(), vec![Machine::default()]);
    let mut known = HashSet::from([Machine::default()]);
    let is_first = |step: &Step| match step {
        Step::Acquire(host, run) => host + run == 0,
        Step::See(host, _) | Step::Renew(host) => *host == 0,
        // Nothing has happened yet.
        _ => false,
    };
    let mut taken = 0;
    for depth in 1..=STEPS {
        let mut next = Vec::new();
        for machine in &last {
            for step in steps.iter().filter(|step| depth > 1 || is_first(step)) {
                let mut then = machine.clone();
                let answer = then.take(*step, without)?;
                taken += usize::from(answer != Answer::None);
                // Nothing follows the last step.
                if depth < STEPS && answer != Answer::None && known.insert(then.clone()) {
                    next.push(then);
                }
            }
        }
        last = next;
    }
    Ok(taken)
}

#[test]
fn no_interleaving_of_three_hosts_goes_wrong() {
    let taken = all_interleavings(None).unwrap();
    assert!(taken > 50_000, "{taken}");
}

#[test]
fn without_any_of_the_checks_an_interleaving_goes_wrong() {
    for check in CHECKS {
        assert!(all_interleavings(Some(check)).is_err(), "{check:?} is of no use");
    }
}

proptest! {
    #[test]
    fn no_long_story_of_three_hosts_goes_wrong(taken in prop::collection::vec(0..steps().len(), 0..80)) {
        let (steps, mut machine) = (steps(), Machine::default());
        for step in taken {
            machine.take(steps[step], None).map_err(TestCaseError::fail)?;
        }
    }
}

/// The hosts and runs of a story on the database.
struct Story {
    stores: Vec<PostgresStore>,
    name: String,
    behind: tokio_postgres::Client,
}

impl Story {
    fn run(&self, run: usize) -> String {
        format!("{}-{run}", self.name)
    }

    /// Takes a step of the machine. The database has one more event of each run, its start.
    async fn take(&self, machine: &Machine, step: Step) -> Answer {
        match step {
            Step::Acquire(host, run) => {
                let known = u64::from(machine.hosts[host].read[run]) + 1;
                match self.stores[host].acquire(&self.run(run), known).await {
                    Ok(epoch) => Answer::Acquired(u8::try_from(epoch).unwrap()),
                    Err(why) => answer(&why),
                }
            }
            Step::Commit(host, run) => {
                let (epoch, after) = machine.hosts[host].drives[run].unwrap();
                let run = self.run(run);
                let mut next = commit(&run, u64::from(epoch), u64::from(after) + 1, vec![step_event(after)]);
                next.thread_id = run.as_str().into();
                self.stores[host].commit(next).await.map_or_else(|why| answer(&why), |_| Answer::Done)
            }
            Step::Release(host, run) => {
                let epoch = machine.hosts[host].releases[run].unwrap();
                self.stores[host].release(&self.run(run), u64::from(epoch)).await;
                self.stores[host].flush().await.unwrap();
                Answer::Done
            }
            Step::TakeOver(_, other) => {
                let sql = format!(
                    "UPDATE hosts SET state = 'dead' WHERE id = '{0}';
                     UPDATE runs SET owner = NULL, epoch = epoch + 1 WHERE owner = '{0}'",
                    self.stores[other].host_id()
                );
                self.behind.batch_execute(&sql).await.unwrap();
                Answer::Done
            }
            Step::Regress(run) => {
                let sql = format!(
                    "DELETE FROM events WHERE run = '{0}' AND number = (SELECT events FROM runs WHERE id = '{0}');
                     UPDATE runs SET events = events - 1, last_commit = '' WHERE id = '{0}'",
                    self.run(run)
                );
                self.behind.batch_execute(&sql).await.unwrap();
                Answer::Done
            }
            _ => Answer::Done,
        }
    }
}

fn step_event(number: u8) -> tollgate_agent::run::Event {
    step(u32::from(number))
}

fn answer(why: &CommitError) -> Answer {
    match why {
        CommitError::Advanced => Answer::Advanced,
        CommitError::Behind => Answer::Behind,
        CommitError::Fenced => Answer::Fenced,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_answers_as_the_machine_does() {
    let database = cluster().database().await;
    let connect = async || {
        // No lease is renewed meanwhile, so that nothing happens beside the steps.
        let config = database.config().with_lease(Duration::from_secs(120)).unwrap();
        let store = PostgresStore::connect(config.with_connections(2).unwrap()).await.unwrap();
        store.admit(None, None, None).await.unwrap();
        store
    };
    let mut stores = Vec::new();
    for _ in 0..HOSTS {
        stores.push(connect().await);
    }
    let mut story = Story { stores, name: String::new(), behind: database.client().await };
    let (steps, mut random, mut answers) = (steps(), 7_u64, HashSet::new());
    for number in 0..12 {
        story.name = format!("r{number}");
        for run in 0..RUNS {
            let id = story.run(run);
            let mut queued =
                Commit::new(id.as_str().into(), id.as_str().into(), 0, 7, vec![started(&id, prompt())]);
            (queued.queued, queued.epoch) = (true, 0);
            story.stores[0].commit(queued).await.unwrap();
        }
        let mut machine = Machine::default();
        for _ in 0..60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let step = steps[usize::try_from((random >> 33) % steps.len() as u64).unwrap()];
            let acts = match step {
                // A host that was declared dead begins nothing, and answers are lost in another test.
                Step::Acquire(host, _) | Step::Release(host, _) => !machine.hosts[host].is_dead,
                Step::LoseAnswer(..) => false,
                _ => true,
            };
            let mut then = machine.clone();
            let expected = then.take(step, None).unwrap();
            if !acts || expected == Answer::None {
                continue;
            }
            let found = story.take(&machine, step).await;
            assert_eq!(found, expected, "{step:?} in {machine:?}");
            answers.insert(std::mem::discriminant(&found));
            machine = then;
        }
        for (host, store) in machine.hosts.iter().zip(&mut story.stores) {
            if host.is_dead {
                *store = connect().await;
            }
        }
    }
    // Done, acquired, advanced, behind and fenced.
    assert_eq!(answers.len(), 5, "every answer was given");
}
