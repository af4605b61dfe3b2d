//! Connections: the pool, and single ones with a task of their own.

use crate::config::PostgresConfig;
use crate::error::explain;
use crate::lease::longest_exchange;
use crate::preparation::Preparation;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod, Runtime,
};
use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_store::StoreError;

/// How long a caller waits for a connection. A caller that gives up has sent nothing.
const WAIT: Duration = Duration::from_secs(10);
/// How long one exchange with the server may take. A commit that takes longer is sent again, on
/// another connection, with the same id.
pub(crate) const EXCHANGE: Duration = Duration::from_secs(10);
/// The pause before a repetition.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The slowest connection over which large records are sent, in bytes per millisecond.
const SLOWEST: u64 = 256;

/// The parameters of a statement. Their types are named, so that no statement has to be prepared first, which a pooler
/// in transaction mode would not allow.
pub(crate) type Params = Vec<(Box<dyn ToSql + Sync + Send>, Type)>;

/// Returns a parameter list: `params![(value, TEXT), ...]`.
macro_rules! params {
    ($(($value:expr, $type:ident)),* $(,)?) => {
        vec![$((Box::new($value) as Box<dyn ::tokio_postgres::types::ToSql + Sync + Send>, ::tokio_postgres::types::Type::$type)),*]
    };
}
pub(crate) use params;

/// Returns a number as PostgreSQL has it. One that is too large, which no record has, becomes the largest.
pub(crate) fn int8(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns how long an exchange may take that sends this many bytes.
pub(crate) fn exchange_of(bytes: u64) -> Duration {
    EXCHANGE + Duration::from_millis(bytes / SLOWEST)
}

/// Creates the pool. No connection is made yet.
pub(crate) fn pool(config: &PostgresConfig) -> Result<Pool, StoreError> {
    // A connection is checked when it is used; a lost one is replaced and the statement repeated.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.server.clone(), tls(config)?, recycling);
    Pool::builder(manager)
        .max_size(config.connections)
        // The connection that was used last has its statements planned and in the caches of the processor.
        .queue_mode(QueueMode::Lifo)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(WAIT))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|e| StoreError::unusable(format!("the connection pool cannot be built: {e}")))
}

/// Makes a connection outside of the pool, and hands its notifications to `heard`.
pub(crate) async fn single(
    config: &PostgresConfig,
    server: &tokio_postgres::Config,
    heard: impl Fn(tokio_postgres::Notification) + Send + 'static,
) -> Result<Client, StoreError> {
    let connecting = server.connect(tls(config)?);
    let connected = tokio::time::timeout(WAIT, connecting).await;
    let (client, mut connection) = match connected {
        Ok(connected) => connected.map_err(|e| explain("reach", &config.address(), &e))?,
        Err(_) => return Err(no_answer(&config.address())),
    };
    tokio::spawn(async move {
        while let Some(Ok(message)) = futures::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                heard(notification);
            }
        }
    });
    Ok(client)
}

/// Refuses a lease that an exchange with the server takes too much of.
pub(crate) async fn check_lease(client: &Client, config: &PostgresConfig) -> Result<(), StoreError> {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let asked = query(client, "SELECT 1", Vec::new()).await;
        asked.map_err(|e| explain("read", &config.address(), &e))?;
        shortest = shortest.min(began.elapsed());
    }
    check_exchange(shortest, config)
}

fn check_exchange(shortest: Duration, config: &PostgresConfig) -> Result<(), StoreError> {
    if shortest <= longest_exchange(config.lease) {
        return Ok(());
    }
    Err(StoreError::unusable(format!(
        "cannot use the store at {}: an exchange with it takes {} ms, which is too long for lease_ms = {}; raise lease_ms",
        config.address(),
        shortest.as_millis(),
        config.lease.as_millis()
    )))
}

pub(crate) fn no_answer(address: &str) -> StoreError {
    StoreError::unavailable(format!(
        "cannot reach the store at {address}: it did not answer in {} s; check the server and the network",
        WAIT.as_secs()
    ))
}

/// Explains why the pool gave no connection.
pub(crate) fn explain_pool(address: &str, error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(e) => explain("reach", address, &e),
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => StoreError::unavailable(format!(
            "cannot use the store at {address}: all connections are busy; raise the store's connections, or retry"
        )),
        PoolError::Timeout(_) => no_answer(address),
        e => StoreError::other(format!("cannot use the store at {address}: {e}")),
    }
}

/// A pooled connection in use. Unless [`finish`](Self::finish) is called, it is closed when it is
/// dropped, because a transaction may be open on it.
pub(crate) struct Busy {
    object: Option<Object>,
    preparation: Arc<Preparation>,
}

impl Busy {
    pub(crate) fn new(object: Object, preparation: Arc<Preparation>) -> Self {
        Self { object: Some(object), preparation }
    }

    /// Returns whether its statements are prepared.
    pub(crate) fn preparation(&self) -> &Preparation {
        &self.preparation
    }

    /// Returns the connection.
    pub(crate) fn object(&self) -> &Object {
        match &self.object {
            Some(object) => object,
            // Only `finish` takes the connection, and it consumes the guard.
            None => unreachable!("the connection was returned"),
        }
    }

    /// Returns the connection to the pool. No transaction is open on it.
    pub(crate) fn finish(mut self) {
        self.object.take();
    }

    /// Ends the open transaction without effect, and returns the connection to the pool.
    pub(crate) async fn roll_back(self) {
        if self.batch_execute("ROLLBACK").await.is_ok() {
            self.finish();
        }
    }
}

impl std::ops::Deref for Busy {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.object()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

/// Runs a future to its end. If the caller is dropped first, it goes on in a task of its own, so that no
/// transaction is left open.
pub(crate) fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> + Send {
    let mut guard = UntilDone(Some(Box::pin(work)));
    futures::future::poll_fn(move |cx| guard.poll(cx))
}

struct UntilDone<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> UntilDone<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for UntilDone<T> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take()
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

/// Sends a statement. Statements whose futures are polled together are sent together, in order.
pub(crate) fn run<'a>(
    client: &'a Client,
    sql: &'a str,
    params: Params,
) -> BoxFuture<'a, Result<u64, tokio_postgres::Error>> {
    Box::pin(async move { client.execute_typed(sql, &borrowed(&params)).await })
}

/// Sends a query, as [`run`] does.
pub(crate) fn query<'a>(
    client: &'a Client,
    sql: &'a str,
    params: Params,
) -> BoxFuture<'a, Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>> {
    Box::pin(async move { client.query_typed(sql, &borrowed(&params)).await })
}

/// Returns whether the database can have something of this id. None of its texts contains a NUL character, and the
/// server refuses one as a parameter.
pub(crate) fn may_exist(id: &str) -> bool {
    !id.contains('\0')
}

/// Sends a query that only reads, as [`query`] does. An id that cannot [exist](may_exist) is unknown: no row is
/// found.
pub(crate) async fn find(
    client: &Client,
    sql: &str,
    params: Params,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    none_if_unknown(query(client, sql, params).await)
}

/// Sends a query that only reads and may be prepared, as [`find`] does.
pub(crate) async fn find_prepared(
    client: &Busy,
    sql: &'static str,
    params: Params,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    none_if_unknown(client.query_prepared(sql, params).await)
}

fn none_if_unknown(
    found: Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    match found {
        Err(why) if why.code() == Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) => Ok(Vec::new()),
        rows => rows,
    }
}

fn borrowed(params: &Params) -> Vec<(&(dyn ToSql + Sync), Type)> {
    params.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect()
}

/// Returns the TLS connector of this configuration: rustls with ring. The certificate and its name are
/// always verified.
fn tls(config: &PostgresConfig) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = RootCertStore::empty();
    match &config.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let wrong = |why: &dyn std::fmt::Display| {
                StoreError::unusable(format!("cannot read the certificates in {}: {why}", file.display()))
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|e| wrong(&e))? {
                roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it contains none"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::unusable(format!("TLS cannot be set up: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(tls))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn a_slow_connection_has_time_for_large_records() {
        assert_eq!(exchange_of(0), EXCHANGE);
        assert_eq!(exchange_of(64_000_000), EXCHANGE + Duration::from_secs(250));
    }

    #[test]
    fn a_server_that_is_too_slow_for_the_lease_is_refused() {
        let config = PostgresConfig::new("postgres://u@localhost/x").unwrap();
        let config = config.with_lease(Duration::from_secs(3)).unwrap();
        assert!(check_exchange(Duration::from_secs(1), &config).is_ok());
        let words = check_exchange(Duration::from_millis(1_001), &config).unwrap_err().to_string();
        assert!(
            words.contains("takes 1001 ms, which is too long for lease_ms = 3000; raise lease_ms"),
            "{words}"
        );
    }

    #[tokio::test]
    async fn work_goes_on_when_its_caller_is_gone() {
        let ((go, went), (end, ended)) = (oneshot::channel::<()>(), oneshot::channel());
        let mut work = Box::pin(to_its_end(async move {
            went.await.unwrap();
            end.send(()).unwrap();
        }));
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        go.send(()).unwrap();
        ended.await.unwrap();
        assert_eq!(to_its_end(async { 1 }).await, 1);
    }
}
