//! The server under test, and the floor, each on a runtime of their own.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use sha2::{Digest as _, Sha256};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate::config::ServeConfig;
use tollgate::{Host, Toolbox};
use tollgate_server::access::KeyRequest;
use tollgate_server::{
    AccessDatabase, Parts, Principal, Scope, Server, ServerOptions, ServerState, Shared, router,
};

/// The most connections and streams that a bench opens.
const MANY: usize = 20_000;

/// How long the bare handler computes before it answers, in microseconds.
pub(crate) static COMPUTES_US: AtomicU64 = AtomicU64::new(0);

/// A server in this process.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) state: Shared,
    pub(crate) runtime: Runtime,
    _data: TempDir,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Serves a host at a free port.
pub(crate) fn serve(host: impl Future<Output = Host>) -> Served {
    let (runtime, data) = (runtime(), tempfile::tempdir().unwrap());
    let (address, key, state) = runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address().unwrap();
        let access = AccessDatabase::open(data.path()).unwrap();
        let principal = Principal::new("bench", Scope::ALL);
        let (_, key) = access.add_key(&KeyRequest { principal, expires_at_ms: None }).unwrap();
        let mut config = ServeConfig::default();
        config.limits.connections = 2 * MANY;
        config.limits.streams_per_key = MANY;
        let options = ServerOptions { address, ..ServerOptions::default() };
        let state = ServerState::new(host.await, access, config, options);
        let routes = router(Arc::clone(&state), &Parts::all());
        let shared = Arc::clone(&state);
        tokio::spawn(async move { server.serve(shared, routes).await });
        (address, key, state)
    });
    Served { address, key, state, runtime, _data: data }
}

/// Loads components of the example tools.
pub(crate) async fn toolbox(names: &[&str]) -> Toolbox {
    let tools = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::copy(tollgate_artifacts::rust_guest(name), tools.path().join(format!("{name}.wasm")))
            .unwrap();
    }
    Toolbox::load(Path::new(tools.path())).await.unwrap()
}

/// Serves a bare handler that answers these bytes, if the bearer key has the right digest.
pub(crate) fn floor(key: &str, answer: Vec<u8>) -> (SocketAddr, Runtime) {
    let (runtime, answer) = (runtime(), Bytes::from(answer));
    let wanted: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    let handle = move |headers: HeaderMap, body: Bytes| async move {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|bearer| bearer.strip_prefix("Bearer ")).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(bearer.as_bytes()).into();
        if digest != wanted || serde_json::from_slice::<serde_json::Value>(&body).is_err() {
            return (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, "application/json")], Bytes::new());
        }
        let until = Instant::now() + Duration::from_micros(COMPUTES_US.load(Ordering::Relaxed));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer)
    };
    let address = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/api/v1/tools/echo/calls", post(handle));
        tokio::spawn(async move {
            axum::serve(
                axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))),
                routes,
            )
            .await
        });
        address
    });
    (address, runtime)
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

/// Returns the number of open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns how often the processor has gone from a thread of this process to another one.
pub(crate) fn context_switches() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let of_thread = |status: String| {
        let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        counts.filter_map(|(_, count)| count.trim().parse::<f64>().ok()).sum::<f64>()
    };
    statuses.map(of_thread).sum()
}

/// Returns the processor time of this process in seconds.
pub(crate) fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(") ").next().unwrap();
    let fields: Vec<f64> = after.split(' ').filter_map(|field| field.parse().ok()).collect();
    // User and system time, in ticks of 10 ms; the state is not a number.
    (fields[10] + fields[11]) / 100.0
}
