//! The connections for reading, and how many queries of which kind use them at one time.

use super::open::{connect, connect_read_only};
use super::process::Process;
use super::read::Reader;
use rusqlite::Connection;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tollgate_store::StoreError;

/// A pool of connections for reading. A connection that was opened is kept: SQLite could not close
/// its file while another connection holds a lock on it, which each does in this journal mode.
pub(super) struct Readers {
    file: PathBuf,
    process: Arc<Process>,
    access: Access,
    idle: Mutex<Vec<Connection>>,
    /// The places for queries of each kind and the kinds before it; others wait.
    places: [Arc<Semaphore>; 3],
}

/// The way in which the file is opened for reading.
#[derive(Debug, Clone, Copy)]
enum Access {
    /// Like connections that write.
    Shared,
    /// Without writing anything.
    ReadOnly,
    /// Without writing, and no other process writes to the file.
    Unchanging,
}

/// A kind of queries. The earlier kinds may take longer, and leave places for the later ones.
#[derive(Debug, Clone, Copy)]
pub(super) enum QueryKind {
    /// May read whole tables. No call waits for it.
    List,
    /// Reads one thread or run, which may have megabytes.
    Long,
    /// Reads little, and a call waits for it.
    Short,
}

/// The maximum number of queries at one time, and so of connections.
const MAX_CONNECTIONS: usize = 8;
/// The maximum number of them that are not short, and that are lists.
const MAX_LONG: usize = 6;
const MAX_LISTS: usize = 4;

impl Readers {
    pub(super) fn new(file: PathBuf, process: Arc<Process>) -> Self {
        Self::of(file, process, Access::Shared)
    }

    pub(super) fn read_only(file: PathBuf, process: Arc<Process>, is_unchanging: bool) -> Self {
        let access = if is_unchanging { Access::Unchanging } else { Access::ReadOnly };
        Self::of(file, process, access)
    }

    fn of(file: PathBuf, process: Arc<Process>, access: Access) -> Self {
        let places = [MAX_LISTS, MAX_LONG, MAX_CONNECTIONS].map(|places| Arc::new(Semaphore::new(places)));
        Self { file, process, access, idle: Mutex::default(), places }
    }

    pub(super) fn query<T>(
        &self,
        query: impl FnOnce(&Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => match self.access {
                Access::Shared => connect(&self.file)?,
                Access::ReadOnly => connect_read_only(&self.file, false)?,
                Access::Unchanging => connect_read_only(&self.file, true)?,
            },
        };
        let answer = query(&Reader { connection: &connection, file: &self.file, process: &self.process });
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        answer
    }

    /// Runs a long query on a thread that may block on the disk.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask_as(QueryKind::Long, query).await
    }

    /// Runs a query of this kind on a thread that may block on the disk.
    pub(super) async fn ask_as<T: Send + 'static>(
        self: &Arc<Self>,
        kind: QueryKind,
        query: impl FnOnce(&Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let failed = |e: &dyn Display| StoreError::other(format!("a query of the store failed: {e}"));
        let readers = Arc::clone(self);
        let place = self.place(kind).await.map_err(|e| failed(&e))?;
        let work = move || {
            // Kept until the query has ended, even if its caller has left.
            let _place = place;
            readers.query(query)
        };
        tokio::task::spawn_blocking(work).await.map_err(|e| failed(&e))?
    }

    /// Waits for a place. A query waits for one of its own kind first, so that few wait for places that the later
    /// kinds need.
    async fn place(&self, kind: QueryKind) -> Result<Vec<OwnedSemaphorePermit>, AcquireError> {
        let mut place = Vec::new();
        for places in &self.places[kind as usize..] {
            place.push(Arc::clone(places).acquire_owned().await?);
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    /// Starts as many queries of this kind as there are connections. They end once the other end of the
    /// channel is dropped.
    async fn fill(readers: &Arc<Readers>, kind: QueryKind, gate: &Arc<Mutex<Receiver<()>>>) {
        for _ in 0..MAX_CONNECTIONS {
            let (readers, gate) = (Arc::clone(readers), Arc::clone(gate));
            let wait = move |_: &Reader<'_>| {
                let _ = gate.lock().unwrap().recv();
                Ok(())
            };
            drop(tokio::spawn(async move { readers.ask_as(kind, wait).await }));
        }
        tokio::task::yield_now().await;
    }

    #[tokio::test]
    async fn z3_longer_queries_leave_places_for_those_that_calls_wait_for() {
        let data = tempfile::tempdir().unwrap();
        let (file, _connection) = open::prepare(data.path()).unwrap();
        let readers = Arc::new(Readers::new(file, Arc::new(Process::observer(data.path()))));
        let (release, gate) = channel();
        let gate = Arc::new(Mutex::new(gate));
        for (filled, next) in [(QueryKind::List, QueryKind::Long), (QueryKind::Long, QueryKind::Short)] {
            fill(&readers, filled, &gate).await;
            let asked = readers.ask_as(next, |_| Ok(()));
            tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap().unwrap();
        }
        drop(release);
        readers.ask_as(QueryKind::List, |_| Ok(())).await.unwrap();
    }
}
