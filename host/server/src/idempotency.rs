//! Idempotency keys. A request with a key reserves the id of its run before the run starts. A
//! store commits the first event of an id only once, so of two requests with the same key one
//! starts the run, in any process, and a request that is repeated after a crash does not start
//! another one.

use crate::access::{Principal, digest};
use crate::problem::Problem;
use crate::state::Shared;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tollgate::store::ReservedKey;
use uuid::Uuid;

/// The header with the key.
pub(crate) const HEADER: &str = "idempotency-key";
/// The header of an answer that belongs to an earlier request.
pub(crate) const REPLAYED: &str = "idempotency-replayed";
/// The maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// A request that may carry a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyedRequest<'a> {
    /// The sender. Keys of different principals never meet.
    pub(crate) principal: &'a Principal,
    /// The method and the path.
    pub(crate) route: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// The body as it was sent.
    pub(crate) body: &'a [u8],
}

/// The result of a request that starts a run at most once.
pub(crate) enum KeyedStart<T> {
    /// The request started or continued a run.
    Began(T),
    /// An earlier request with the same key started this run.
    Before(String),
}

/// Starts a run, or finds the one that an earlier request with the same key started. `begin` gets
/// the id for a new run if the request has a key, and returns the id of the run that it started or
/// continued. Until then, other requests with the same key wait.
///
/// # Errors
/// The key is not acceptable, was sent before with another body (422 `key_reused`), or the run
/// cannot be started. In the last case the key is free again, unless the same request is in progress
/// in another process.
pub(crate) async fn once<T, E, F>(
    state: &Shared,
    request: KeyedRequest<'_>,
    begin: impl FnOnce(Option<String>) -> F,
) -> Result<KeyedStart<T>, E>
where
    E: From<Problem>,
    F: Future<Output = Result<(Arc<str>, T), E>>,
{
    let reserved = match reserve(state, request).await? {
        KeyLookup::NoKey => return begin(None).await.map(|(_, began)| KeyedStart::Began(began)),
        KeyLookup::Recorded(run_id) => return Ok(KeyedStart::Before(run_id)),
        KeyLookup::Reserved(reserved) => reserved,
    };
    match begin(Some(reserved.run_id.clone())).await {
        Ok((run_id, began)) => {
            if *run_id != *reserved.run_id {
                reserved.redirect(state, &run_id).await?;
            }
            Ok(KeyedStart::Began(began))
        }
        // Another process may have won the race for the same key.
        Err(problem) => match reserved.before(state).await? {
            Some(run_id) => Ok(KeyedStart::Before(run_id)),
            None => {
                reserved.release(state).await;
                Err(problem)
            }
        },
    }
}

/// The reservation of a request with a key. While it is held, other requests of this process with
/// the same key wait.
struct Reservation {
    digest: [u8; 32],
    /// The id of the run that the request starts or started.
    run_id: String,
    /// When the row was last written, if this request inserted it.
    inserted_at_ms: Option<u64>,
    _turn: OwnedMutexGuard<()>,
}

impl Reservation {
    /// Waits for the turn of a request with a key, and finds the row of the key or inserts one with this id
    /// of a run. `None` if the request has no key.
    ///
    /// # Errors
    /// The key is not acceptable, or was sent before with another body (422 `key_reused`).
    async fn take(
        state: &Shared,
        request: KeyedRequest<'_>,
        run_id: String,
    ) -> Result<Option<Self>, Problem> {
        let KeyedRequest { principal, route, headers, body } = request;
        let Some(key) = key_of(headers)? else { return Ok(None) };
        let digest = digest(&format!("{}\n{route}\n{key}", principal.name));
        let body: [u8; 32] = Sha256::digest(body).into();
        let turn = state.requests.turn(digest).await;
        let row = state.request_keys.reserve(&digest, &body, &run_id).await?;
        let ReservedKey { run_id, body: sent, inserted_at_ms } = row;
        if sent != body {
            let detail =
                "this Idempotency-Key was sent with another request; use a new key for a new request";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", detail));
        }
        Ok(Some(Self { digest, run_id, inserted_at_ms, _turn: turn }))
    }

    /// Returns the run that the key stands for by now, if it exists. Whichever of two requests comes
    /// first, in any process, starts it.
    async fn before(&self, state: &Shared) -> Result<Option<String>, Problem> {
        let Some(run_id) = state.request_keys.reserved(&self.digest).await? else { return Ok(None) };
        Ok(state.store().run_spec(&run_id).await?.map(|_| run_id))
    }

    /// Removes the reservation of a request that started nothing, so that it can be sent again. It
    /// stays if it belongs to another process, or if another process has found it: that process may
    /// be starting the run.
    async fn release(&self, state: &Shared) {
        let Some(at_ms) = self.inserted_at_ms else { return };
        if let Err(why) = state.request_keys.release(&self.digest, &self.run_id, at_ms).await {
            tracing::warn!("an idempotency key is not released: {why}");
        }
    }

    /// Records that the request continued another run than the one with the reserved id.
    async fn redirect(&self, state: &Shared, run_id: &str) -> Result<(), Problem> {
        Ok(state.request_keys.redirect(&self.digest, run_id).await?)
    }
}

/// The meaning of a request's key.
enum KeyLookup {
    /// The request has no key.
    NoKey,
    /// A run that an earlier request started.
    Recorded(String),
    /// A run that has not started.
    Reserved(Reservation),
}

/// Finds the run of a request with a key, or reserves the id for a new one.
async fn reserve(state: &Shared, request: KeyedRequest<'_>) -> Result<KeyLookup, Problem> {
    loop {
        let reserved = Reservation::take(state, request, Uuid::now_v7().to_string()).await?;
        let Some(reserved) = reserved else { return Ok(KeyLookup::NoKey) };
        if reserved.inserted_at_ms.is_some() {
            return Ok(KeyLookup::Reserved(reserved));
        }
        if state.store().run_spec(&reserved.run_id).await?.is_some() {
            return Ok(KeyLookup::Recorded(reserved.run_id));
        }
        // The process that inserted the row may have removed it meanwhile.
        if state.request_keys.share(&reserved.digest, &reserved.run_id).await? {
            return Ok(KeyLookup::Reserved(reserved));
        }
    }
}

/// The key of a request that decides about a run.
pub(crate) struct DecisionKey(Reservation);

impl DecisionKey {
    /// Remembers the key with the body of the request; `None` if the request has none.
    ///
    /// # Errors
    /// The key is not acceptable, or was sent before with another body (422 `key_reused`).
    pub(crate) async fn take(
        state: &Shared,
        request: KeyedRequest<'_>,
        run_id: &str,
    ) -> Result<Option<Self>, Problem> {
        Ok(Reservation::take(state, request, run_id.to_owned()).await?.map(Self))
    }

    /// Returns whether the same request was sent before, and decided.
    pub(crate) fn is_repeated(&self) -> bool {
        self.0.inserted_at_ms.is_none()
    }

    /// Forgets the key of a request that decided nothing, so that it can be sent with another body.
    pub(crate) async fn release(&self, state: &Shared) {
        self.0.release(state).await;
    }
}

/// Returns the id of a decision from the request's key, so that a repeated decision changes
/// nothing. Without a key, the host generates one.
pub(crate) fn decision_id(
    headers: &HeaderMap,
    principal: &Principal,
    place: &str,
) -> Result<String, Problem> {
    let Some(key) = key_of(headers)? else { return Ok(String::new()) };
    let digest = digest(&format!("{}\n{place}\n{key}", principal.name));
    Ok(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut sent = headers.get_all(HEADER).iter();
    let Some(key) = sent.next() else { return Ok(None) };
    let is_visible = |key: &&str| key.bytes().all(|byte| byte.is_ascii_graphic());
    let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len())).filter(is_visible);
    match key.filter(|_| sent.next().is_none()) {
        Some(key) => Ok(Some(key)),
        None => Err(Problem::bad_request(format!(
            "the header Idempotency-Key is sent once, with from 1 to {MAX_KEY_BYTES} visible characters"
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_has_visible_characters_alone() {
        for (value, is_key) in [("k-1", true), ("", false), ("a b", false), ("a\tb", false)] {
            let headers = HeaderMap::from_iter([(HEADER.parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(key_of(&headers).is_ok(), is_key, "{value:?}");
        }
    }
}
