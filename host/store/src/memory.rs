//! A store that ends with the process.

use super::rebase::{WrittenKeys, moved, sizes_fit};
use super::runs::{label, last_call_failed, status_after};
use super::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, EventPage, Hint, HintSender, Hints, KeyFilter, PageLimit, QueueTurn, Record,
    RunCommand, RunFilter, RunStore, RunSummary, SentCommand, StateRead, StateStore, StoreError, StoreLimits,
    ThreadRead, ThreadSize, ToolHealth,
};
use async_trait::async_trait;
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_agent::SmolStr;
use tollgate_agent::json;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, RunSpec, StoredEvent, Thread};
use tollgate_agent::state::{KeyScope, State, StateChange};

/// A store in memory. It does not keep components: loaded ones are available for the life of the
/// process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    limits: StoreLimits,
    hints: HintSender,
}

#[derive(Debug, Default)]
struct Tables {
    runs: BTreeMap<Arc<str>, RunRow>,
    threads: BTreeMap<Arc<str>, ThreadRow>,
    audit: Vec<AuditRecord>,
    health: BTreeMap<SmolStr, ToolHealth>,
    /// Runs that their driver has released.
    left: HashSet<Arc<str>>,
    /// Runs that were acquired, and not committed to since.
    held: HashSet<Arc<str>>,
    /// Commands that were not carried out, by run.
    inbox: BTreeMap<Arc<str>, Vec<SentCommand>>,
    /// The size of the records of each thread and each component, in bytes.
    thread_bytes: BTreeMap<Arc<str>, u64>,
    component_bytes: BTreeMap<SmolStr, u64>,
}

impl Tables {
    fn record_audit(&mut self, record: AuditRecord) {
        if let Some(file) = &record.file {
            let last = self.audit.iter().rev().find(|last| last.file.as_ref() == Some(file));
            if !record.is_news_after(last) {
                return;
            }
        }
        if let Some(tool_name) = &record.tool_name {
            match ToolHealth::after(self.health.get(tool_name), &record) {
                Some(health) => drop(self.health.insert(tool_name.clone(), health)),
                None => drop(self.health.remove(tool_name)),
            }
        }
        self.audit.push(record);
    }
}

/// The events of a run, commit by commit; most runs are direct calls with a single commit.
#[derive(Debug, Clone)]
struct RunRow {
    first: Arc<[StoredEvent]>,
    more: Vec<Arc<[StoredEvent]>>,
    epoch: u64,
}

impl RunRow {
    fn events(&self) -> impl DoubleEndedIterator<Item = &StoredEvent> {
        std::iter::once(&self.first).chain(&self.more).flat_map(|events| events.iter())
    }

    /// Returns the number of events.
    fn len(&self) -> u64 {
        self.events().next_back().map_or(0, |event| event.number)
    }
}

#[derive(Debug, Default)]
struct ThreadRow {
    messages: Option<Arc<Vec<Message>>>,
    state: State,
    changes: Vec<StateChange>,
}

/// The approximate size of a record besides its text.
const ROW_BYTES: u64 = 64;

/// Returns the approximate length of a record.
fn bytes_of(record: &impl serde::Serialize) -> u64 {
    json::written_bytes(record) as u64 + ROW_BYTES
}

impl ThreadRow {
    /// Returns the number of other commits' changes that these must be moved behind.
    fn missed<'a>(
        &self,
        mut changes: impl Iterator<Item = &'a StateChange> + Clone,
        thread_state_bytes: Option<usize>,
    ) -> Result<u64, CommitError> {
        let Some(first) = changes.clone().next() else { return Ok(0) };
        let now = self.state.revision();
        let moved = (now + 1).checked_sub(first.revision).ok_or(CommitError::Conflict(now))?;
        let missed = self.changes.iter().rev().take_while(|change| change.revision >= first.revision);
        let missed: Vec<WrittenKeys> = missed.map(WrittenKeys::of).collect();
        let all = changes.clone();
        let lets_by = changes.all(|change| missed.iter().all(|missed| missed.permits(change)));
        let sizes = |owner: &'a str| -> Result<HashMap<String, usize>, CommitError> {
            Ok(self.state.sizes_of(owner).map(|(key, bytes)| (key.to_owned(), bytes)).collect())
        };
        let fits = lets_by && (moved == 0 || sizes_fit(all, thread_state_bytes, sizes)?);
        if fits { Ok(moved) } else { Err(CommitError::Conflict(now)) }
    }

    fn apply<'a>(&mut self, changes: impl Iterator<Item = &'a StateChange>, messages: Vec<Message>) {
        for change in changes {
            self.state.apply_scope(change, KeyScope::Thread);
            self.changes.push(change.clone());
        }
        if !messages.is_empty() {
            Arc::make_mut(self.messages.get_or_insert_default()).extend(messages);
        }
    }
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the store's limits. The limit on free disk space does not apply.
    #[must_use]
    pub fn with_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A commit changes the tables only after it can no longer fail.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RunStore for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        let limit = commit.thread_state_bytes;
        let Commit { run_id, thread_id, epoch, after, mut events, messages, audit, charged, .. } = commit;
        let (queued, carries_out, run) = (commit.queued, commit.carries_out, Arc::clone(&run_id));
        let ends = events.iter().any(|event| matches!(event.event, Event::RunFinished { .. }));
        let mut behind = 0;
        let sizes = events.iter().map(|event| bytes_of(&event.event));
        // The size of each event and audit record, and the component that is charged for it.
        let mut charged: Vec<(u64, Option<SmolStr>)> =
            sizes.zip(charged.into_iter().chain(std::iter::repeat(None))).collect();
        charged.extend(audit.iter().filter_map(|record| {
            Some((record.charged_bytes()? as u64 + ROW_BYTES, record.component_id.clone()))
        }));
        let mut tables = self.tables();
        let Tables { runs, threads, left, held, thread_bytes, component_bytes, .. } = &mut *tables;
        let log = runs.entry(run_id);
        let known = if let Entry::Occupied(log) = &log { log.get().len() } else { 0 };
        if let Entry::Occupied(log) = &log
            && log.get().epoch != epoch
        {
            return Err(CommitError::Fenced);
        }
        if known != after {
            return Err(if known < after { CommitError::Behind } else { CommitError::Advanced });
        }
        let thread_of = Arc::clone(&thread_id);
        // A thread without messages and changes needs no row.
        let changes = |event: &'_ StoredEvent| event.event.change().is_some();
        if !messages.is_empty() || events.iter().any(changes) {
            if let Some(thread) = threads.get(&thread_id) {
                behind = thread.missed(events.iter().filter_map(|event| event.event.change()), limit)?;
                events = moved(&events, behind);
            } else if let Some(first) = events.iter().find_map(|event| event.event.change())
                && first.revision != 1
            {
                return Err(CommitError::Conflict(0));
            }
            let thread = threads.entry(thread_id).or_default();
            thread.apply(events.iter().filter_map(|event| event.event.change()), messages);
        }
        *thread_bytes.entry(thread_of).or_default() += charged.iter().map(|(bytes, _)| bytes).sum::<u64>();
        for (bytes, component) in charged {
            if let Some(component) = component {
                *component_bytes.entry(component).or_default() += bytes;
            }
        }
        if !left.is_empty() {
            left.remove(log.key());
        }
        if !held.is_empty() {
            held.remove(log.key());
        }
        match log {
            Entry::Occupied(mut log) => log.get_mut().more.push(events),
            Entry::Vacant(log) => _ = log.insert(RunRow { first: events, more: Vec::new(), epoch }),
        }
        if queued {
            tables.left.insert(Arc::clone(&run));
        }
        if ends {
            tables.inbox.remove(&run);
        } else if let Some(commands) = tables.inbox.get_mut(&run) {
            commands.retain(|sent| !carries_out.contains(&sent.id));
        }
        audit.into_iter().for_each(|record| tables.record_audit(record));
        drop(tables);
        self.hints.send(if queued { Hint::Work } else { Hint::Events(run) });
        Ok(CommitReceipt { moved: behind })
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        // The events are copied after the lock is released.
        let log = self.tables().runs.get(run_id).cloned();
        let events = log.iter().flat_map(RunRow::events).filter(|event| event.number > after);
        Ok(events.cloned().map(Arc::new).collect())
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        let log = self.tables().runs.get(run_id).cloned();
        let events = log.iter().flat_map(RunRow::events).filter(|event| event.number > after);
        Ok(EventPage::of(events.cloned().map(Arc::new), limit))
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let tables = self.tables();
        let first = tables.runs.get(run_id).and_then(|log| log.events().next());
        Ok(first.and_then(|first| match &first.event {
            Event::RunStarted { spec } => Some(Arc::clone(spec)),
            _ => None,
        }))
    }

    /// The store has the record in memory already.
    async fn record_bytes(&self, _run_id: &str) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        Ok(Record { events: self.events(run_id, 0).await?, ..Record::default() })
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        let tables = self.tables();
        let mut runs: Vec<RunSummary> =
            tables.runs.values().filter_map(|log| summarize(log, &tables.left)).collect();
        runs.retain(|run| filter.matches(run));
        // Ids that hosts make grow with time; clients may name others.
        runs.sort_by(|a, b| (b.started_at_ms, &b.run_id).cmp(&(a.started_at_ms, &a.run_id)));
        runs.truncate(filter.limit);
        Ok(runs)
    }

    async fn admit(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError> {
        let tables = self.tables();
        if let Some(id) = component_id {
            let bytes = tables.component_bytes.get(id).copied().unwrap_or_default();
            self.limits.check_component(id, bytes)?;
        }
        if let Some(id) = thread_id {
            self.limits.check_thread(id, tables.thread_bytes.get(id).copied().unwrap_or_default())?;
        }
        if let Some(principal) = principal {
            let prefix = format!("{principal}/");
            let threads =
                tables.thread_bytes.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
            let own = threads.take_while(|(id, _)| id.starts_with(&prefix));
            self.limits.check_principal(principal, own.map(|(_, bytes)| bytes).sum())?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        Ok(self.tables().threads.get(thread_id).map_or_else(Thread::default, |row| Thread {
            messages: row.messages.clone().unwrap_or_default(),
            state: row.state.clone(),
        }))
    }

    async fn thread_size(&self, _thread_id: &str) -> Result<ThreadSize, StoreError> {
        Ok(ThreadSize::default())
    }

    async fn thread_within(&self, thread_id: &str, _max_bytes: u64) -> Result<ThreadRead, StoreError> {
        self.thread(thread_id).await.map(ThreadRead::Thread)
    }

    async fn state(
        &self,
        thread_id: &str,
        _wanted: &KeyFilter,
        _max_bytes: u64,
    ) -> Result<StateRead, StoreError> {
        let state = self.tables().threads.get(thread_id).map(|row| row.state.clone());
        Ok(StateRead::State(state.unwrap_or_default()))
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        let tables = self.tables();
        let changes = tables.threads.get(thread_id).map_or(&[][..], |row| &row.changes);
        Ok(changes.iter().filter(|change| change.revision > after).take(limit).cloned().collect())
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        let mut tables = self.tables();
        let thread = tables.threads.entry(Arc::from(thread_id)).or_default();
        // A value from outside must be based on the current state.
        if change.revision != thread.state.revision() + 1 {
            return Err(CommitError::Conflict(thread.state.revision()));
        }
        thread.apply(std::iter::once(&change), Vec::new());
        Ok(())
    }
}

#[async_trait]
impl AuditStore for MemoryStore {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        records.into_iter().for_each(|record| tables.record_audit(record));
        Ok(())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        let tables = self.tables();
        let mut wanted: Vec<_> = tables.audit.iter().rev().filter(|record| filter.matches(record)).collect();
        wanted.sort_by_key(|record| std::cmp::Reverse(record.at_ms));
        Ok(wanted.into_iter().skip(filter.skip).take(filter.limit).cloned().collect())
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        Ok(self.tables().health.values().cloned().collect())
    }
}

#[async_trait]
impl ComponentStore for MemoryStore {
    async fn component(&self, _digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn archives(&self) -> bool {
        false
    }
}

#[async_trait]
impl CoordinationStore for MemoryStore {
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
        let mut tables = self.tables();
        let (run_id, run) =
            tables.runs.get_key_value(run_id).ok_or_else(|| StoreError::unknown_run(run_id))?;
        match run.len().cmp(&known) {
            Ordering::Equal => {}
            Ordering::Greater => return Err(CommitError::Advanced),
            Ordering::Less => return Err(CommitError::Behind),
        }
        let (run_id, epoch) = (Arc::clone(run_id), run.epoch + 1);
        tables.left.remove(&run_id);
        if let Some(run) = tables.runs.get_mut(&run_id) {
            run.epoch = epoch;
        }
        tables.held.insert(run_id);
        Ok(epoch)
    }

    async fn release(&self, run_id: &str, epoch: u64) {
        let mut tables = self.tables();
        if let Some((run_id, run)) = tables.runs.get_key_value(run_id)
            && run.epoch == epoch
        {
            let run_id = Arc::clone(run_id);
            tables.held.remove(&run_id);
            tables.left.insert(run_id);
            self.hints.send(Hint::Work);
        }
    }

    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        let mut tables = self.tables();
        let open: Vec<RunSummary> = tables
            .runs
            .values()
            .filter_map(|log| summarize(log, &tables.left))
            .filter(|run| run.kind != "child" && run.is_open())
            .collect();
        let can_go_on = |run: &&RunSummary| {
            let is_first = |other: &RunSummary| {
                other.kind != "prompt" || other.thread_id != run.thread_id || other.run_id >= run.run_id
            };
            let has_commands = || tables.inbox.get(run.run_id.as_str()).is_some_and(|sent| !sent.is_empty());
            !run.is_driven
                && !tables.held.contains(run.run_id.as_str())
                && (run.status == "running" || has_commands())
                && (run.kind != "prompt" || (agents.contains(&run.agent_id) && open.iter().all(is_first)))
        };
        let claimed: Vec<Arc<str>> =
            open.iter().filter(can_go_on).take(limit).map(|run| Arc::from(run.run_id.as_str())).collect();
        let mut acquire = |run_id: Arc<str>| {
            tables.left.remove(&run_id);
            let run = tables.runs.get_mut(&run_id)?;
            run.epoch += 1;
            let epoch = run.epoch;
            tables.held.insert(Arc::clone(&run_id));
            Some(ClaimedRun { run_id, epoch, read: None })
        };
        Ok(claimed.into_iter().filter_map(&mut acquire).collect())
    }

    async fn queue(&self, _thread_id: &str) -> Result<QueueTurn, StoreError> {
        // The host itself orders the runs of its own threads.
        Ok(Box::new(()))
    }

    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let (run_id, run) =
            tables.runs.get_key_value(run_id).ok_or_else(|| StoreError::unknown_run(run_id))?;
        if run.events().any(|stored| matches!(stored.event, Event::RunFinished { .. })) {
            return Ok(false);
        }
        let run_id = Arc::clone(run_id);
        let commands = tables.inbox.entry(Arc::clone(&run_id)).or_default();
        if commands.iter().all(|sent| *sent.id != *id) {
            commands.push(SentCommand { id: Arc::from(id), command });
        }
        drop(tables);
        self.hints.send(Hint::Commands(run_id));
        Ok(true)
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        Ok(self.tables().inbox.get(run_id).cloned().unwrap_or_default())
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        let tables = self.tables();
        let has_commands = |run: &&Arc<str>| tables.inbox.get(*run).is_some_and(|sent| !sent.is_empty());
        Ok(runs.iter().filter(has_commands).cloned().collect())
    }

    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
        if let Some(commands) = self.tables().inbox.get_mut(run_id) {
            commands.retain(|sent| *sent.id != *id);
        }
        Ok(())
    }

    fn watch(&self) -> Hints {
        self.hints.watch()
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn summarize(log: &RunRow, left: &HashSet<Arc<str>>) -> Option<RunSummary> {
    let (first, last) = (log.events().next()?, log.events().next_back()?);
    let Event::RunStarted { spec } = &first.event else { return None };
    let (kind, title) = label(spec);
    let status = match status_after(&last.event).unwrap_or("running") {
        "completed" if kind == "call" && last_call_failed(log.events().rev().map(|event| &event.event)) => {
            "failed"
        }
        status => status,
    };
    Some(RunSummary {
        run_id: first.run_id.to_string(),
        thread_id: spec.identity.thread_id.to_string(),
        agent_id: spec.identity.agent_id.to_string(),
        kind: kind.to_owned(),
        title,
        status: status.to_owned(),
        events: last.number,
        started_at_ms: first.at_ms,
        updated_at_ms: last.at_ms,
        is_driven: status == "running" && !left.contains(&first.run_id),
        queued: log.epoch == 0,
        owner: None,
    })
}
