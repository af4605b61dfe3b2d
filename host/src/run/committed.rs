//! The steps after a commit: the run continues from the stored events, or first applies what
//! other runs committed.

use super::driver::Driver;
use super::parts::RunParts;
use crate::store::rules::moved;
use crate::store::{KeyFilter, StateRead, StoreError};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tollgate_agent::run::{Event, StoredEvent};

/// Values up to this size together are read for clients, in bytes.
const MAX_SHOWN_BYTES: u64 = 1024 * 1024;

impl Driver {
    /// Applies what other runs committed to the thread. Runs that conflicted continue one after
    /// another, so each reads the changes that it missed only once, however many runs there are.
    /// `turn` holds this run's turn.
    pub(super) async fn see_others(
        &mut self,
        turn: &mut Option<OwnedMutexGuard<()>>,
    ) -> Result<(), StoreError> {
        let RunParts { services, thread_id, .. } = &self.parts;
        if turn.is_none() {
            *turn = Some(services.turn_to_commit(thread_id).await);
        }
        services.catch_up(&mut self.run, thread_id, u64::MAX).await
    }

    /// Applies events that the store committed after `moved_by` changes of other runs, and returns
    /// them as they are stored. The first `applied` of them were applied before.
    ///
    /// # Errors
    /// The changes of the other runs cannot be read, or an event cannot be applied.
    pub(super) async fn follow(
        &mut self,
        events: &Arc<[StoredEvent]>,
        applied: usize,
        moved_by: u64,
    ) -> Result<Arc<[StoredEvent]>, StoreError> {
        let events = moved(events, moved_by);
        let RunParts { services, thread_id, .. } = &self.parts;
        let is_over = events.iter().any(|event| matches!(event.event, Event::RunFinished { .. }));
        if moved_by > 0
            && !is_over
            && let Some(first) = events.iter().find_map(|event| event.event.change())
        {
            let before = first.revision - 1;
            services.catch_up(&mut self.run, thread_id, before).await?;
        }
        let mut new = events[applied..].iter();
        new.try_for_each(|new| self.apply(&new.event)).map_err(|e| StoreError::other(e.to_string()))?;
        let RunParts { services, thread_id, publisher, .. } = &self.parts;
        if moved_by > 0 && is_over && publisher.is_heard() {
            // Clients receive the values that were changed. Large ones are left out.
            let wanted = KeyFilter::changed_by(events.iter().filter_map(|event| event.event.change()));
            if let StateRead::State(state) = services.store.state(thread_id, &wanted, MAX_SHOWN_BYTES).await?
            {
                self.run.adopt(&state);
            }
        }
        Ok(events)
    }
}
