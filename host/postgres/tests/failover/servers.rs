//! A primary and its standby, which end with the test.
#![allow(dead_code, reason = "not every test uses everything")]

use crate::cluster::{programs, user};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};
use tollgate_postgres::{PostgresConfig, PostgresStore};

pub(crate) const DATABASE: &str = "tollgate";

pub(crate) struct Server {
    /// The data, and beside it the directory of the socket.
    place: tempfile::TempDir,
    child: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a server with the schema.
pub(crate) async fn primary() -> Server {
    let mut primary = Server::place();
    primary.create().await;
    primary
}

/// Starts a server with the schema, and a standby that follows it.
pub(crate) async fn pair(synchronous: bool) -> (Server, Server) {
    let (primary, mut standby) = (primary().await, Server::place());
    standby.copy(&primary);
    standby.start();
    standby.has_caught_up_with(&primary).await;
    if synchronous {
        let client = primary.client().await;
        client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            if client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1 {
                break;
            }
            assert!(Instant::now() < until, "replication does not become synchronous");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    (primary, standby)
}

impl Server {
    fn place() -> Self {
        Self::at(&std::env::temp_dir())
    }

    /// Returns a server with its data in a new directory below this one.
    pub(crate) fn at(directory: &Path) -> Self {
        let place = tempfile::tempdir_in(directory).unwrap();
        let (uid, gid) = user();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        chown(place.path(), Some(uid), Some(gid)).unwrap();
        Self { place, child: None }
    }

    /// Creates its data and the schema, and starts it.
    pub(crate) async fn create(&mut self) {
        self.run("initdb", &["-U", "tollgate", "-A", "trust", "-E", "UTF8", "--no-sync", "-D"], &["data"]);
        self.start();
        self.client_of("postgres").await.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await.unwrap();
        PostgresStore::migrate(&PostgresConfig::new(&self.url(DATABASE)).unwrap()).await.unwrap();
    }

    pub(crate) fn socket_dir(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn url(&self, database: &str) -> String {
        let host = self.socket_dir().to_str().unwrap().replace('/', "%2F");
        format!("postgres://tollgate@{host}/{database}")
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let (uid, gid) = user();
        let mut command = Command::new(programs().join(program));
        command.current_dir(self.place.path()).stdin(Stdio::null()).env_remove("PGDATA").env("LC_ALL", "C");
        if rustix::process::geteuid().is_root() {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn run(&self, program: &str, words: &[&str], more: &[&str]) {
        let output = self.command(program).args(words).args(more).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn start(&mut self) {
        let log = std::fs::File::create(self.place.path().join("log")).unwrap();
        let mut command = self.command("postgres");
        command.args(["-D", "data", "-k"]).arg(self.socket_dir());
        for setting in ["listen_addresses=", "fsync=off", "max_connections=60", "shared_buffers=32MB"] {
            command.args(["-c", setting]);
        }
        self.child =
            Some(command.process_group(0).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        let answers = || {
            let mut asks = self.command("pg_isready");
            asks.arg("-h").arg(self.socket_dir()).stdout(Stdio::null()).stderr(Stdio::null());
            asks.status().unwrap().success()
        };
        while !answers() {
            let log = std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the server does not start: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Copies another server, to follow it.
    fn copy(&self, other: &Self) {
        let from = other.socket_dir().to_str().unwrap();
        let words =
            ["-h", from, "-U", "tollgate", "-R", "--checkpoint=fast", "--no-sync", "-X", "stream", "-D"];
        self.run("pg_basebackup", &words, &["data"]);
    }

    /// Ends the server as a power failure does: nothing more is written.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Its other processes end as soon as they notice.
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
    }

    /// Makes a standby the primary.
    pub(crate) fn promote(&mut self) {
        self.run("pg_ctl", &["promote", "-w", "-t", "60", "-D"], &["data"]);
    }

    /// Starts this server anew as a standby of another one.
    pub(crate) fn follow(&mut self, other: &Self) {
        std::fs::remove_dir_all(self.data()).unwrap();
        self.copy(other);
        self.start();
    }

    /// Ends the reception of what the primary writes.
    pub(crate) async fn cut_off(&self) {
        let client = self.client_of("postgres").await;
        client.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let sql = "SELECT count(*) FROM pg_stat_wal_receiver";
            if client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                break;
            }
            assert!(Instant::now() < until, "the standby still receives");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn has_caught_up_with(&self, primary: &Self) {
        let sql = "SELECT pg_current_wal_flush_lsn()::text";
        let target: String = primary.client_of("postgres").await.query_one(sql, &[]).await.unwrap().get(0);
        let client = self.client_of("postgres").await;
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let sql = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{target}'::pg_lsn, false)");
            if client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0) {
                break;
            }
            assert!(Instant::now() < until, "the standby does not follow");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_of(DATABASE).await
    }

    async fn client_of(&self, database: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}
