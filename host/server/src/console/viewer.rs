//! The person who looks at a page, and the runs that they may see.

use super::access::{ConsoleData, NoData};
use super::cache::Cache;
use super::failure::Failure;
use crate::load::ClientShare;
use crate::{Principal, Problem, Scope, Shared};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;
use tollgate::Store;
use tollgate::store::{RunFilter, RunSummary, now_ms};
use tollgate_agent::context::RunIdentity;

/// The maximum number of ancestors that are read to find the owner of a child run.
const MAX_ANCESTORS: usize = 16;

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

    /// Returns whether the person may answer questions of runs on this thread. For a child run, it is
    /// the thread of its [owner](Self::owner_thread).
    pub(super) fn may_decide(&self, thread_id: &str) -> bool {
        may_decide(&self.principal, thread_id) && self.data.may_decide(&self.principal, thread_id).is_ok()
    }

    /// Checks that the person may answer questions of a run.
    ///
    /// # Errors
    /// A scope is missing, or the run is the person's own and others decide.
    pub(super) async fn require_decide(&self, run: &RunSummary) -> Result<(), Failure> {
        let owner = self.owner_thread(run).await?;
        if !may_decide(&self.principal, &owner) {
            return Err(Problem::scope_missing(Scope::Decide).into());
        }
        Ok(self.data.may_decide(&self.principal, &owner)?)
    }

    /// Returns a run that the person may see.
    ///
    /// # Errors
    /// There is no such run, or it belongs to another principal: the same 404 for both.
    pub(super) async fn run(&self, run_id: &str) -> Result<RunSummary, Failure> {
        let run = self.find(run_id).await?.ok_or(Failure::missing("run"))?;
        let owner = self.owner_thread(&run).await?;
        if may_see(&self.principal, &owner) { Ok(run) } else { Err(Failure::missing("run")) }
    }

    /// Returns a run whose questions the person may see.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
    pub(super) async fn asking_run(&self, run_id: &str) -> Result<RunSummary, Failure> {
        let run = self.find(run_id).await?.ok_or(Failure::missing("run"))?;
        let owner = self.owner_thread(&run).await?;
        let may = may_see(&self.principal, &owner) || self.has(Scope::DecideAny);
        if may { Ok(run) } else { Err(Failure::missing("run")) }
    }

    async fn find(&self, run_id: &str) -> Result<Option<RunSummary>, Failure> {
        let filter = RunFilter { run_id_prefix: Some(run_id.to_owned()), limit: 1, ..RunFilter::default() };
        let runs = self.store().runs(filter).await?;
        Ok(runs.into_iter().find(|run| run.run_id == run_id))
    }

    /// Returns the thread of the run that started this one, directly or through other children;
    /// that of the run itself if no other run started it.
    pub(super) async fn owner_thread(&self, run: &RunSummary) -> Result<String, Failure> {
        let (mut run_id, mut thread_id, mut kind) =
            (run.run_id.clone(), run.thread_id.clone(), run.kind.clone());
        for _ in 0..MAX_ANCESTORS {
            if kind != "child" {
                break;
            }
            let Some(parent_id) = self.identity(&run_id).await?.and_then(|identity| identity.parent_run_id)
            else {
                break;
            };
            let Some(parent) = self.find(&parent_id).await? else { break };
            (run_id, thread_id, kind) = (parent.run_id, parent.thread_id, parent.kind);
        }
        Ok(thread_id)
    }

    async fn identity(&self, run_id: &str) -> Result<Option<RunIdentity>, Failure> {
        Ok(self.store().run_spec(run_id).await?.map(|spec| spec.identity.clone()))
    }
}

/// Returns whether a principal may see the runs of a thread: it has the scope `read`, or the
/// thread is its own.
pub(super) fn may_see(principal: &Principal, thread_id: &str) -> bool {
    principal.has(Scope::Read) || is_own(principal, thread_id)
}

/// Returns whether a principal may answer questions of runs on a thread.
pub(super) fn may_decide(principal: &Principal, thread_id: &str) -> bool {
    principal.has(Scope::DecideAny) || (principal.has(Scope::Decide) && is_own(principal, thread_id))
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

/// Returns whether a name fits one of these patterns with `*`; every name fits an empty list.
pub(super) fn fits(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(end) = parts.pop() else { return true };
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(scopes: &[Scope]) -> Principal {
        let scopes = scopes.iter().copied().collect();
        Principal { name: "ada".to_owned(), scopes, agents: Vec::new(), tools: Vec::new() }
    }

    #[test]
    fn a_principal_sees_its_own_threads_and_others_with_the_scope() {
        let own = principal(&[Scope::Use, Scope::Decide]);
        assert!(may_see(&own, "ada/notes") && may_decide(&own, "ada/notes"));
        for other in ["bob/notes", "ada", "adam/notes", "ada2/x"] {
            assert!(!may_see(&own, other) && !may_decide(&own, other), "{other}");
        }
        assert!(may_see(&principal(&[Scope::Read]), "bob/notes"));
        assert!(!may_decide(&principal(&[Scope::Read]), "bob/notes"));
        assert!(may_decide(&principal(&[Scope::DecideAny]), "bob/notes"));
    }

    #[test]
    fn patterns_have_stars() {
        let fit = |pattern: &str, name: &str| fits(&[pattern.to_owned()], name);
        assert!(fit("find_*", "find_file") && fit("*", "x") && fit("a*c*e", "abcde") && fits(&[], "x"));
        assert!(!fit("find_*", "delete_file") && !fit("a", "ab") && !fit("a*b*c", "acb"));
    }
}
