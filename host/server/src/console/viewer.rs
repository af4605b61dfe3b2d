//! The person who looks at a page, and the runs that they may see.

use super::cache::Cache;
use super::data::{ConsoleData, NoData};
use super::failure::Failure;
use crate::load::ClientShare;
use crate::operations::VisibleRun;
use crate::{Principal, Scope, Shared};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;
use tollgate::Store;
use tollgate::store::{RunSummary, now_ms};

/// A request of a signed-in person.
#[derive(Clone)]
pub(super) struct Viewer {
    pub(super) principal: Principal,
    pub(super) shared: Shared,
    pub(super) data: Arc<dyn ConsoleData>,
    pub(super) cache: Arc<Cache>,
    /// The limits of the principal; `None` if the console is used without authentication.
    share: Option<ClientShare>,
    /// The time of the request, in milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
}

impl FromRequestParts<Shared> for Viewer {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Failure> {
        let extensions = &parts.extensions;
        let principal = extensions.get::<Principal>().cloned().ok_or(Failure::SignedOut)?;
        let data = extensions.get::<Arc<dyn ConsoleData>>().cloned();
        Ok(Self {
            principal,
            shared: Arc::clone(shared),
            data: data.unwrap_or_else(|| Arc::new(NoData)),
            cache: extensions.get::<Arc<Cache>>().cloned().unwrap_or_default(),
            share: extensions.get::<ClientShare>().cloned(),
            now_ms: now_ms(),
        })
    }
}

impl Viewer {
    /// Returns the limits of the principal, within which the console starts runs and calls.
    pub(super) fn share(&self) -> ClientShare {
        match &self.share {
            Some(share) => share.clone(),
            None => self.shared.load.share(&self.principal.name),
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.shared.host.store()
    }

    pub(super) fn has(&self, scope: Scope) -> bool {
        self.principal.has(scope)
    }

    /// Returns the prefix of the threads whose runs the person may list; `None` for all.
    pub(super) fn listed_threads(&self) -> Option<String> {
        (!self.has(Scope::Read)).then(|| self.own_threads())
    }

    /// Returns the prefix of the person's own threads.
    pub(super) fn own_threads(&self) -> String {
        format!("{}/", self.principal.name)
    }

    /// Returns whether the person may answer the questions of a run. Those of a child are answered
    /// at the run that started it.
    pub(super) fn may_decide(&self, run: &VisibleRun) -> bool {
        run.spec.identity.parent_run_id.is_none() && self.shared.check_decides(&self.principal, run).is_ok()
    }

    /// Returns a run that the person may see.
    ///
    /// # Errors
    /// There is no such run, or it belongs to another principal: the same 404 for both.
    pub(super) async fn run(&self, run_id: &str) -> Result<SeenRun, Failure> {
        self.seen(run_id, &[]).await
    }

    /// Returns a run whose questions the person may see.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
    pub(super) async fn asking_run(&self, run_id: &str) -> Result<SeenRun, Failure> {
        self.seen(run_id, &[Scope::DecideAny]).await
    }

    async fn seen(&self, run_id: &str, others: &[Scope]) -> Result<SeenRun, Failure> {
        let visible = self.shared.visible_run(&self.principal, run_id, others).await?;
        let summary = self.shared.host.summary(run_id).await?.ok_or(Failure::missing("run"))?;
        Ok(SeenRun { summary, visible })
    }
}

/// A run that a person may see.
pub(super) struct SeenRun {
    /// The run as lists show it.
    pub(super) summary: RunSummary,
    /// Its owner and how it began.
    pub(super) visible: VisibleRun,
}

/// Returns whether a thread belongs to a principal. Threads are stored as `PRINCIPAL/ID`.
pub(super) fn is_own(principal: &Principal, thread_id: &str) -> bool {
    thread_id.split_once('/').is_some_and(|(owner, _)| owner == principal.name)
}

/// Returns the owner of a thread, and the thread's id as its owner knows it.
pub(super) fn owner_and_id(thread_id: &str) -> (Option<&str>, &str) {
    match thread_id.split_once('/') {
        Some((owner, id)) => (Some(owner), id),
        None => (None, thread_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_the_principal_of_its_prefix() {
        let ada = Principal::new("ada", [Scope::Use]);
        assert!(is_own(&ada, "ada/notes"));
        for other in ["bob/notes", "ada", "adam/notes", "ada2/x"] {
            assert!(!is_own(&ada, other), "{other}");
        }
    }
}
