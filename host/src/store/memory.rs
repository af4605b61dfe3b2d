//! A store that ends with the process.

use super::summary::{label, status_after};
use super::{
    AuditFilter, AuditRecord, Commit, CommitError, RunFilter, RunSummary, Store, StoreError, ToolHealth,
};
use async_trait::async_trait;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_agent::SmolStr;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, Numbered, Thread};
use tollgate_agent::state::{KeyScope, State, StateChange};

/// Keeps everything in memory, but for components: those that are loaded are there
/// for as long as the process is.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    runs: BTreeMap<Arc<str>, RunRow>,
    threads: BTreeMap<Arc<str>, ThreadRow>,
    audit: Vec<AuditRecord>,
    health: BTreeMap<SmolStr, ToolHealth>,
    /// Runs that whoever carried them let go of.
    left: HashSet<Arc<str>>,
}

impl Tables {
    fn note(&mut self, record: AuditRecord) {
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

/// The events of a run, commit by commit; most are direct calls and have one.
#[derive(Debug, Clone)]
struct RunRow {
    first: Arc<[Numbered]>,
    more: Vec<Arc<[Numbered]>>,
}

impl RunRow {
    fn events(&self) -> impl DoubleEndedIterator<Item = &Numbered> {
        std::iter::once(&self.first).chain(&self.more).flat_map(|events| events.iter())
    }

    /// How many events there are.
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

impl ThreadRow {
    fn take_in<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a StateChange>,
        messages: Vec<Message>,
    ) -> Result<(), CommitError> {
        let mut changes = changes.peekable();
        if let Some(first) = changes.peek()
            && first.revision != self.state.revision() + 1
        {
            let base = first.revision.saturating_sub(1);
            let missed = self.changes.iter().filter(|change| change.revision > base);
            return Err(CommitError::Conflict(missed.cloned().collect()));
        }
        for change in changes {
            self.state.apply_scope(change, KeyScope::Thread);
            self.changes.push(change.clone());
        }
        if !messages.is_empty() {
            Arc::make_mut(self.messages.get_or_insert_default()).extend(messages);
        }
        Ok(())
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A commit changes the tables only once nothing in it can fail any more.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        let Commit { run_id, thread_id, after, events, messages, audit, .. } = commit;
        let changes = || events.iter().filter_map(|event| event.event.change());
        let mut tables = self.tables();
        let Tables { runs, threads, left, .. } = &mut *tables;
        let log = runs.entry(run_id);
        let known = if let Entry::Occupied(log) = &log { log.get().len() } else { 0 };
        if known != after {
            return Err(CommitError::Advanced);
        }
        // A thread that nothing is said or changed in needs no row.
        if !messages.is_empty() || changes().next().is_some() {
            threads.entry(thread_id).or_default().take_in(changes(), messages)?;
        }
        if !left.is_empty() {
            left.remove(log.key());
        }
        match log {
            Entry::Occupied(mut log) => log.get_mut().more.push(events),
            Entry::Vacant(log) => _ = log.insert(RunRow { first: events, more: Vec::new() }),
        }
        audit.into_iter().for_each(|record| tables.note(record));
        Ok(())
    }

    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        Ok(self.tables().threads.get(thread_id).map_or_else(Thread::default, |row| Thread {
            messages: row.messages.clone().unwrap_or_default(),
            state: row.state.clone(),
        }))
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<Numbered>>, StoreError> {
        // The events are copied once the lock is given back.
        let log = self.tables().runs.get(run_id).cloned();
        let events = log.iter().flat_map(RunRow::events).filter(|event| event.number > after);
        Ok(events.cloned().map(Arc::new).collect())
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        let tables = self.tables();
        let mut runs: Vec<RunSummary> =
            tables.runs.values().filter_map(|log| summarize(log, &tables.left)).collect();
        runs.retain(|run| {
            filter.thread_id.as_ref().is_none_or(|id| *id == run.thread_id)
                && filter.status.as_ref().is_none_or(|status| *status == run.status)
                && filter.run_id_prefix.as_ref().is_none_or(|prefix| run.run_id.starts_with(prefix))
        });
        runs.sort_by(|a, b| b.run_id.cmp(&a.run_id));
        runs.truncate(filter.limit);
        Ok(runs)
    }

    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        records.into_iter().for_each(|record| tables.note(record));
        Ok(())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        let tables = self.tables();
        let wanted = tables.audit.iter().rev().filter(|record| filter.wants(record));
        Ok(wanted.take(filter.limit).cloned().collect())
    }

    async fn trapping(&self) -> Result<Vec<ToolHealth>, StoreError> {
        Ok(self.tables().health.values().cloned().collect())
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

    async fn component(&self, _digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn keeps_components(&self) -> bool {
        false
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        let mut tables = self.tables();
        tables.threads.entry(Arc::from(thread_id)).or_default().take_in(std::iter::once(&change), Vec::new())
    }

    fn let_go(&self, run_id: &str) {
        let mut tables = self.tables();
        if let Some((run_id, _)) = tables.runs.get_key_value(run_id) {
            let run_id = Arc::clone(run_id);
            tables.left.insert(run_id);
        }
    }
}

fn summarize(log: &RunRow, left: &HashSet<Arc<str>>) -> Option<RunSummary> {
    let (first, last) = (log.events().next()?, log.events().next_back()?);
    let Event::RunStarted { spec } = &first.event else { return None };
    let (kind, title) = label(spec);
    let status = status_after(&last.event).unwrap_or("running");
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
        at_work: status == "running" && !left.contains(&first.run_id),
    })
}
