//! Idempotency keys. A request with a key reserves the id of its run before the run starts. A
//! store commits the first event of an id only once, so of two requests with the same key one
//! starts the run, in any process, and a request that is repeated after a crash does not start
//! another one.

use crate::auth::{AccessDatabase, AccessError, Principal, digest};
use crate::problem::Problem;
use crate::state::Shared;
use axum::http::{HeaderMap, StatusCode};
use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;
use tollgate::store::now_ms;
use uuid::Uuid;

/// The header with the key.
pub(crate) const HEADER: &str = "idempotency-key";
/// The header of an answer that belongs to an earlier request.
pub(crate) const REPLAYED: &str = "idempotency-replayed";
/// The maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;
/// How long a row is kept at least, in milliseconds: 30 days.
const KEEP_MS: u64 = 30 * 86_400 * 1_000;
/// The maximum number of rows that are removed at once.
const REMOVED_AT_ONCE: u32 = 100;

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
pub(crate) enum Once<T> {
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
/// cannot be started; then the key is free again.
pub(crate) async fn once<T, E, F>(
    state: &Shared,
    request: KeyedRequest<'_>,
    begin: impl FnOnce(Option<String>) -> F,
) -> Result<Once<T>, E>
where
    E: From<Problem>,
    F: Future<Output = Result<(Arc<str>, T), E>>,
{
    let Some(reserved) = reserve(state, request).await? else {
        return begin(None).await.map(|(_, began)| Once::Began(began));
    };
    if reserved.is_recorded(state).await? {
        return Ok(Once::Before(reserved.run_id));
    }
    match begin(Some(reserved.run_id.clone())).await {
        Ok((run_id, began)) => {
            if *run_id != *reserved.run_id {
                reserved.redirect(state, &run_id).await?;
            }
            Ok(Once::Began(began))
        }
        // Another process may have won the race for the same key.
        Err(_) if reserved.is_recorded(state).await? => Ok(Once::Before(reserved.run_id)),
        Err(problem) => {
            reserved.release(state).await;
            Err(problem)
        }
    }
}

/// The reservation of a request with a key. While it is held, other requests of this process with
/// the same key wait.
struct Reservation {
    digest: [u8; 32],
    /// The id of the run that the request starts or started.
    run_id: String,
    _turn: OwnedMutexGuard<()>,
}

impl Reservation {
    /// Returns whether the run exists. Whichever of two requests comes first, in any process,
    /// starts it.
    async fn is_recorded(&self, state: &Shared) -> Result<bool, Problem> {
        Ok(state.store().run_spec(&self.run_id).await?.is_some())
    }

    /// Removes the reservation of a request that started nothing, so that it can be sent again.
    async fn release(&self, state: &Shared) {
        let (shared, digest) = (Shared::clone(state), self.digest);
        let released = tokio::task::spawn_blocking(move || shared.access.release(&digest)).await;
        if let Ok(Err(e)) = released {
            tracing::warn!("an idempotency key is not released: {e}");
        }
    }

    /// Records that the request continued another run than the one with the reserved id.
    async fn redirect(&self, state: &Shared, run_id: &str) -> Result<(), Problem> {
        let (shared, digest, run_id) = (Shared::clone(state), self.digest, run_id.to_owned());
        let written = tokio::task::spawn_blocking(move || shared.access.redirect(&digest, &run_id)).await;
        written.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))
    }
}

/// The order of requests with the same key in this process: one after another.
#[derive(Debug, Default)]
pub(crate) struct RequestTurns(Mutex<HashMap<[u8; 32], Weak<tokio::sync::Mutex<()>>>>);

impl RequestTurns {
    /// Waits until no other request with the same key is in progress.
    async fn turn(&self, digest: [u8; 32]) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let lock = locks.get(&digest).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(digest, Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}

/// Reserves a run id for a request with a key; `None` if the request has no key.
async fn reserve(state: &Shared, request: KeyedRequest<'_>) -> Result<Option<Reservation>, Problem> {
    let KeyedRequest { principal, route, headers, body } = request;
    let Some(key) = key_of(headers)? else { return Ok(None) };
    let digest = digest(&format!("{}\n{route}\n{key}", principal.name));
    let body: [u8; 32] = Sha256::digest(body).into();
    let turn = state.requests.turn(digest).await;
    let shared = Shared::clone(state);
    let reserved = tokio::task::spawn_blocking(move || shared.access.reserve(&digest, &body)).await;
    let reserved = reserved.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))?;
    let RequestKeyRow { run_id, body: sent } = reserved;
    if sent != body {
        let detail = "this Idempotency-Key was sent with another request; use a new key for a new request";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key_reused", detail));
    }
    Ok(Some(Reservation { digest, run_id, _turn: turn }))
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
    let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
    match key.filter(|_| sent.next().is_none()) {
        Some(key) => Ok(Some(key)),
        None => Err(Problem::bad_request(format!(
            "the header Idempotency-Key is sent once, with from 1 to {MAX_KEY_BYTES} visible characters"
        ))),
    }
}

/// A row of the table of request keys.
struct RequestKeyRow {
    run_id: String,
    body: [u8; 32],
}

impl AccessDatabase {
    fn reserve(&self, digest: &[u8; 32], body: &[u8; 32]) -> Result<RequestKeyRow, AccessError> {
        let (run_id, now) = (Uuid::now_v7().to_string(), now_ms());
        self.write(|connection| {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let known = transaction
                .prepare_cached("SELECT run_id, body FROM request_keys WHERE digest = ?1")?
                .query_row([digest], |row| Ok(RequestKeyRow { run_id: row.get(0)?, body: row.get(1)? }))
                .optional()?;
            if let Some(known) = known {
                return Ok(known);
            }
            transaction
                .prepare_cached(
                    "INSERT INTO request_keys (digest, body, run_id, at_ms) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![digest, body, run_id, now.cast_signed()])?;
            transaction
                .prepare_cached(
                    "DELETE FROM request_keys WHERE digest IN
                     (SELECT digest FROM request_keys WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
                )?
                .execute(params![now.saturating_sub(KEEP_MS).cast_signed(), REMOVED_AT_ONCE])?;
            transaction.commit()?;
            Ok(RequestKeyRow { run_id, body: *body })
        })
    }

    fn release(&self, digest: &[u8; 32]) -> Result<(), AccessError> {
        self.write(|connection| connection.execute("DELETE FROM request_keys WHERE digest = ?1", [digest]))?;
        Ok(())
    }

    fn redirect(&self, digest: &[u8; 32], run_id: &str) -> Result<(), AccessError> {
        self.write(|connection| {
            connection
                .execute("UPDATE request_keys SET run_id = ?2 WHERE digest = ?1", params![digest, run_id])
        })?;
        Ok(())
    }
}
