//! The tools that a host serves. They may be replaced while runs are at work.

use super::Toolbox;
use crate::store::{AuditRecord, Store, StoreError};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;
use tollgate_agent::health;

/// The toolbox of a host, and the store whose records decide which tools are disabled. Cloning is
/// cheap; clones share the toolbox.
#[derive(Clone)]
pub struct ServedTools {
    toolbox: Arc<RwLock<Arc<Toolbox>>>,
    published: watch::Sender<u64>,
    store: Arc<dyn Store>,
}

impl ServedTools {
    pub(crate) fn new(toolbox: Toolbox, store: Arc<dyn Store>) -> Self {
        let toolbox = Arc::new(RwLock::new(Arc::new(toolbox)));
        Self { toolbox, published: watch::Sender::new(0), store }
    }

    /// Returns the tools that can currently be called.
    #[must_use]
    pub fn current(&self) -> Arc<Toolbox> {
        Arc::clone(&self.toolbox.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes a new toolbox. Runs use it from their next turn on.
    pub(crate) fn publish(&self, toolbox: Toolbox) {
        *self.toolbox.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(toolbox);
        self.published.send_modify(|count| *count += 1);
    }

    /// Publishes a changed version of the current toolbox. Concurrent publications are kept.
    ///
    /// # Errors
    /// Returns the error of `change`. In that case nothing is published.
    pub fn update<E>(&self, change: impl FnOnce(&mut Toolbox) -> Result<(), E>) -> Result<(), E> {
        {
            let mut place = self.toolbox.write().unwrap_or_else(PoisonError::into_inner);
            let mut toolbox = Toolbox::clone(&place);
            change(&mut toolbox)?;
            *place = Arc::new(toolbox);
        }
        self.published.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Publishes a changed version of the current toolbox by a change that cannot fail; otherwise like
    /// [`update`](Self::update).
    pub(crate) fn change(&self, change: impl FnOnce(&mut Toolbox)) {
        let changed: Result<(), Infallible> = self.update(|toolbox| {
            change(toolbox);
            Ok(())
        });
        let Ok(()) = changed;
    }

    /// Returns a receiver of the number of published toolboxes, which changes with each one.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Records the loaded tools, and disables those that trapped too often.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn note_loaded(&self, loaded: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.store.record_audit(loaded).await?;
        self.refresh_health().await
    }

    /// Disables and enables tools according to the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh_health(&self) -> Result<(), StoreError> {
        let trapping = self.store.tool_health().await?;
        let toolbox = self.current();
        let catalog = toolbox.catalog();
        let wrong: Vec<(String, Option<String>)> = catalog
            .tools()
            .filter_map(|tool| {
                let name = &tool.descriptor.name;
                let known = trapping.iter().find(|health| {
                    health.tool_name == *name
                        && (&health.component_id, &health.digest) == (&tool.owner.id, &tool.owner.version)
                });
                let reason = known.and_then(|health| health::reason_to_disable(health.traps));
                (reason.as_deref() != catalog.disabled(name)).then(|| (name.clone(), reason))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        self.change(|toolbox| {
            for (name, reason) in wrong {
                match reason {
                    Some(reason) => toolbox.disable(&name, reason),
                    None => toolbox.enable(&name),
                }
            }
        });
        Ok(())
    }
}
