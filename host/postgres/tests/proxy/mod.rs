//! A TCP proxy between a host and the server, which breaks connections as a network does.
#![allow(dead_code, reason = "not every test uses everything")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

/// The treatment of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Passes it on.
    Pass = 0,
    /// Closes every connection, and refuses new ones.
    Cut = 1,
    /// Keeps connections open and passes nothing on.
    Hold = 2,
    /// Loses the answer to the next commit: closes its connection after the server has committed.
    LoseCommit = 3,
    /// Delays the next commit for longer than the server keeps a transaction of a host open whose
    /// lease is a second.
    StallCommit = 4,
    /// Passes on nothing that the server sends.
    HoldAnswers = 5,
    /// Passes everything on late, so that an exchange takes most of the interval between renewals of a lease
    /// of a second.
    Delay = 6,
    /// Passes on late what a new connection sends first, so that connecting takes longer than the interval
    /// between renewals of a lease of a second.
    SlowConnect = 7,
    /// Loses the answer to the next commit, and then closes every connection and refuses new ones.
    CutCommit = 8,
}

pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    mode: AtomicU8,
    lost: AtomicU64,
    /// The bytes that the server sent.
    answered: AtomicU64,
}

impl State {
    fn mode(&self) -> u8 {
        self.mode.load(Ordering::SeqCst)
    }

    /// Returns whether data waits here.
    fn holds(&self, of_server: bool) -> bool {
        let mode = self.mode();
        mode == Mode::Hold as u8 || (of_server && mode == Mode::HoldAnswers as u8)
    }
}

impl Proxy {
    /// Starts a proxy to a server's Unix socket.
    pub(crate) async fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state =
            Arc::new(State { mode: AtomicU8::new(0), lost: AtomicU64::new(0), answered: AtomicU64::new(0) });
        let of_task = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if of_task.mode() == Mode::Cut as u8 {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let commits = Arc::new(AtomicBool::new(false));
                let up = pass(from_client, to_server, (Arc::clone(&of_task), Arc::clone(&commits)), false);
                let down = pass(from_server, to_client, (Arc::clone(&of_task), commits), true);
                tokio::spawn(async move {
                    // As soon as one direction ends, both do.
                    tokio::select! {
                        () = up => {}
                        () = down => {}
                    }
                });
            }
        });
        Self { port, state }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.state.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Returns whether it treats data as usual, also because it has done what it was set to do once.
    pub(crate) fn passes(&self) -> bool {
        self.state.mode() == Mode::Pass as u8
    }

    /// Returns how many answers to commits were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// Returns how many bytes the server has sent.
    pub(crate) fn answered(&self) -> u64 {
        self.state.answered.load(Ordering::SeqCst)
    }

    /// Returns the URL of a database through the proxy.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://tollgate@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    (state, commits): (Arc<State>, Arc<AtomicBool>),
    of_server: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut prepared = PreparedStatements::default();
    if !of_server && state.mode() == Mode::SlowConnect as u8 {
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = until_cut(&state) => return,
        };
        let Ok(length @ 1..) = read else { return };
        if of_server {
            state.answered.fetch_add(length as u64, Ordering::SeqCst);
        }
        while state.holds(of_server) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if state.mode() == Mode::Cut as u8 {
            return;
        }
        if state.mode() == Mode::Delay as u8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let has = |text: &[u8]| buffer[..length].windows(text.len()).any(|bytes| bytes == text);
        let committed = has(b"COMMIT\0");
        if !of_server {
            // A statement that is a transaction of its own. A notification may follow before it is answered.
            let commits_now = prepared.sends(&buffer[..length], b"commit_v2(");
            let notifies = prepared.sends(&buffer[..length], b"pg_notify(") || has(b"pg_notify(");
            if commits_now || !notifies {
                commits.store(!committed && commits_now, Ordering::SeqCst);
            }
        }
        if of_server && (committed || commits.load(Ordering::SeqCst)) {
            for (mode, next) in [(Mode::LoseCommit, Mode::Pass), (Mode::CutCommit, Mode::Cut)] {
                let (mode, next) = (mode as u8, next as u8);
                if state.mode.compare_exchange(mode, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    state.lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
        let stall = Mode::StallCommit as u8;
        if !of_server
            && committed
            && state.mode.compare_exchange(stall, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// The prepared statements of a connection: a part of the text of each, and its name.
#[derive(Default)]
struct PreparedStatements(Vec<(&'static [u8], Vec<u8>)>);

impl PreparedStatements {
    /// Returns whether a statement with this text is sent for execution, prepared now, or earlier.
    fn sends(&mut self, sent: &[u8], text: &'static [u8]) -> bool {
        if let Some(at) = sent.windows(text.len()).position(|bytes| bytes == text) {
            match statement_name(&sent[..at]) {
                Some(name) => self.0.push((text, name)),
                None => return true,
            }
        }
        // The message `Bind`: its length, the portal without a name, and the statement.
        let binds = |name: &[u8]| {
            let names = [&[0][..], name, &[0][..]].concat();
            sent.windows(names.len() + 5).any(|bytes| bytes[0] == b'B' && bytes[5..] == names)
        };
        self.0.iter().any(|(of, name)| *of == text && binds(name))
    }
}

/// Returns the name of the statement whose text begins in these bytes of the message `Parse`; `None` for the one
/// without a name. tokio-postgres names statements s0, s1, and so on.
fn statement_name(before: &[u8]) -> Option<Vec<u8>> {
    let end = before.iter().rposition(|byte| *byte == 0)?;
    let start = before[..end].iter().rposition(|byte| !byte.is_ascii_digit())?;
    (before[start] == b's' && start + 1 < end).then(|| before[start..end].to_vec())
}

async fn until_cut(state: &State) {
    while state.mode() != Mode::Cut as u8 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
