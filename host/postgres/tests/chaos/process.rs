//! A host as a process of its own, behind a proxy of its own.

use crate::LEASE;
use crate::cluster::{Database, Pooler, cluster};
use crate::faults::Kind;
use crate::proxy::{Mode, Proxy};
use crate::story;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate::WorkOptions;
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// The variables by which the test speaks to the process.
const URL: &str = "TOLLGATE_CHAOS_URL";
/// Set if the URL leads to a pooler, which passes no notifications on.
const LISTEN_URL: &str = "TOLLGATE_CHAOS_LISTEN_URL";
const DIRECTORY: &str = "TOLLGATE_CHAOS_DIRECTORY";

#[test]
#[ignore = "the test beside it starts it as a process of its own"]
fn the_host_process() {
    let (Ok(url), Some(directory)) = (std::env::var(URL), std::env::var_os(DIRECTORY)) else { return };
    // Ends with the test, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config =
            PostgresConfig::new(&url).unwrap().with_lease(LEASE).unwrap().with_connections(4).unwrap();
        if let Ok(url) = std::env::var(LISTEN_URL) {
            config = config.with_listen_url(&url).unwrap();
        }
        // The proxy may not let it through at once.
        let store = loop {
            match PostgresStore::connect(config.clone()).await {
                Ok(store) => break store,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let host = story::host(Arc::new(store), Path::new(&directory));
        let options =
            WorkOptions { agents: vec![story::AGENT.to_owned()], concurrency: 8, grace: Duration::ZERO };
        host.work(&options, &CancellationToken::new()).await;
    });
}

/// The addresses of the database for one host.
struct Urls {
    url: String,
    listen: Option<String>,
}

pub(crate) struct HostProcess {
    proxy: Arc<Proxy>,
    urls: Urls,
    directory: PathBuf,
    clock: Option<Clock>,
    child: Child,
    /// The tasks that end lasting faults.
    lasting: Vec<JoinHandle<()>>,
}

impl HostProcess {
    /// Starts a host behind a proxy, and behind a pooler if there is one.
    pub(crate) async fn start(database: &str, directory: &Path, pooler: Option<&Pooler>) -> Self {
        let socket = pooler.map_or_else(|| cluster().socket(), Pooler::socket);
        let proxy = Arc::new(Proxy::start(socket).await);
        let urls = Urls { url: proxy.url(database), listen: pooler.map(|_| cluster().url(database)) };
        let clock = Clock::new(directory);
        let child = spawn(&urls, directory, clock.as_ref());
        Self { proxy, urls, directory: directory.to_owned(), clock, child, lasting: Vec::new() }
    }

    /// Returns whether the clock of the process can be set: whether libfaketime is installed.
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Lets the clock of the process be this many seconds ahead, or behind if it is negative. Returns
    /// `false` if libfaketime is not installed.
    pub(crate) fn set_clock(&self, seconds: i64) -> bool {
        self.clock.as_ref().map(|clock| clock.set(seconds)).is_some()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) async fn suffer(&mut self, kind: Kind, database: &Database) {
        match kind {
            Kind::Kill => {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                self.child = spawn(&self.urls, &self.directory, self.clock.as_ref());
            }
            Kind::Stop(time) => {
                let pid = self.pid();
                kill_process(pid, Signal::STOP).unwrap();
                self.lasting.push(tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    // It may have been killed meanwhile.
                    let _ = kill_process(pid, Signal::CONT);
                }));
            }
            Kind::Cut(time) => self.network(Mode::Cut, time),
            Kind::Hold(time) => self.network(Mode::Hold, time),
            Kind::HoldAnswers(time) => self.network(Mode::HoldAnswers, time),
            Kind::Delay(time) => self.network(Mode::Delay, time),
            Kind::LoseCommit => self.proxy.set(Mode::LoseCommit),
            Kind::Terminate => {
                // Those of every host: the server does not know which is whose.
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                    AND application_name = 'tollgate' AND pid <> pg_backend_pid()";
                database.client().await.batch_execute(sql).await.unwrap();
            }
            Kind::KillPooler => {}
            Kind::Clock(seconds) => {
                self.set_clock(seconds);
            }
        }
    }

    fn network(&mut self, mode: Mode, time: Duration) {
        self.proxy.set(mode);
        let proxy = Arc::clone(&self.proxy);
        self.lasting.push(tokio::spawn(async move {
            tokio::time::sleep(time).await;
            proxy.set(Mode::Pass);
        }));
    }

    /// Waits until its faults are over, and starts it if it has ended.
    pub(crate) async fn heal(&mut self) {
        for lasting in self.lasting.drain(..) {
            lasting.await.unwrap();
        }
        self.proxy.set(Mode::Pass);
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("a host ended by itself: {status}");
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // A stopped process is killed, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The clock of a process, which libfaketime reads from a file. Clocks that never step stay as they are.
struct Clock {
    library: PathBuf,
    offset: tempfile::TempPath,
}

impl Clock {
    /// Returns `None` if libfaketime is not installed.
    fn new(directory: &Path) -> Option<Self> {
        let places = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
        let library = libraries.find(|library| library.exists())?;
        let offset = tempfile::NamedTempFile::new_in(directory).unwrap().into_temp_path();
        let clock = Self { library, offset };
        clock.set(0);
        Some(clock)
    }

    fn set(&self, seconds: i64) {
        // The file is replaced, so that it is never read in part.
        let next = self.offset.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(next, &self.offset).unwrap();
    }
}

/// Skips a test loudly; fails where nothing may be skipped.
pub(crate) fn without_clock() {
    let missing = "libfaketime is missing; install it: apt-get install --no-install-recommends libfaketime";
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
}

fn spawn(urls: &Urls, directory: &Path, clock: Option<&Clock>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["process::the_host_process", "--exact", "--ignored", "--nocapture"]);
    command.env(URL, &urls.url).env(DIRECTORY, directory);
    match &urls.listen {
        Some(listen) => command.env(LISTEN_URL, listen),
        None => command.env_remove(LISTEN_URL),
    };
    if let Some(clock) = clock {
        command.env("LD_PRELOAD", &clock.library).env("FAKETIME_TIMESTAMP_FILE", &clock.offset);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}
