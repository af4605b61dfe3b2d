//! The steps after a commit: the run continues from the stored events, or first applies what
//! other runs committed.

use super::driver::Driver;
use super::kept_turn::TimedTurn;
use super::services::RunParts;
use crate::store::rules::moved;
use crate::store::{KeyFilter, StateRead, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::run::{Event, Input, StoredEvent};
use tollgate_agent::state::KeyScope;

/// The size from which a value is long, in bytes. While calls contend for a long value, the number of
/// its copies is bounded.
const LONG_BYTES: usize = 64 * 1024;

/// Values up to this size together are read for clients, in bytes.
const MAX_SHOWN_BYTES: u64 = 1024 * 1024;

impl Driver {
    /// Applies what other runs committed to the thread. Runs that conflicted continue one after
    /// another, and share the changes that they missed. `turn` holds this run's turn. While a direct
    /// call waits for it, it does not hold the values of these keys, which it writes.
    pub(super) async fn see_others(
        &mut self,
        turn: &mut Option<TimedTurn>,
        keys: BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let rewrites = keys.iter().any(|key| self.is_rewritten(key));
        if rewrites && self.is_direct() {
            self.run.release_values(&keys);
        }
        let RunParts { services, thread_id, .. } = &self.parts;
        let turn = match turn {
            Some(turn) => turn,
            None => turn.insert(TimedTurn::new(services.turn_to_commit(thread_id).await)),
        };
        turn.is_kept = rewrites;
        if !rewrites {
            // Such a change replaces the value, and its record is as short as the update.
            return services.catch_up(&mut self.run, thread_id, u64::MAX).await;
        }
        services.catch_up_with(&mut self.run, thread_id, &mut turn.turn, keys).await
    }

    /// Returns the keys of long values in the thread that the result of a call's first attempt changes
    /// in part. Another attempt follows a conflict, and waiting would outdate it again.
    pub(super) fn long_values(&self, input: &Input) -> BTreeSet<String> {
        let Input::Attempted { outcome, attempt: 1, .. } = input else { return BTreeSet::new() };
        let Outcome::Returned(output) = outcome.as_ref() else { return BTreeSet::new() };
        let is_long = |key: &str| self.run.state().bytes_of(key) >= LONG_BYTES;
        let written = output.mutations.iter().map(|mutation| mutation.key.as_str());
        written.filter(|key| self.is_rewritten(key) && is_long(key)).map(str::to_owned).collect()
    }

    /// Returns whether a change of this key is recorded with the whole value of the thread's state.
    fn is_rewritten(&self, key: &str) -> bool {
        let definition = self.parts.toolbox.catalog().keys().get(key);
        definition
            .is_some_and(|key| key.persistent && key.scope == KeyScope::Thread && key.reducer.rewrites())
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
