//! A real PostgreSQL server for tests, shared by all test processes that run at the same time.
//!
//! The first process creates the server; a watcher process stops it once no test process is left.
//! Test processes hold a shared lock on a file, which the system releases however they end, so the
//! server also ends if a test process is killed.
#![allow(dead_code, reason = "not every test uses everything")]
#![allow(clippy::zombie_processes, reason = "the server and its watcher outlive this process")]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// The database with the schema, of which each test gets a copy.
const TEMPLATE: &str = "tollgate_template";
/// The settings of the pooler, which are those that the project recommends.
const POOLER: &str = include_str!("../../../../packaging/postgresql/pgbouncer.ini");
/// The mode in which the project recommends it.
const TRANSACTION: &str = "transaction";
/// Any user on this machine may connect through the socket; through TCP, only with TLS and a password.
const ACCESS: &str = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
/// The server's settings.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\nmax_connections = 400\nshared_buffers = 64MB\n\
    listen_addresses = '127.0.0.1'\nssl = on\nshared_preload_libraries = 'pg_stat_statements'\n";
/// The server's certificate, which no authority has signed.
const CERTIFICATE: &str = "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n\
    [name]\nCN = localhost\n[more]\nsubjectAltName = DNS:localhost\n\
    basicConstraints = critical,CA:FALSE\n";
/// Stops the server once no process holds the lock on `users`.
const WATCHER: &str = r#"
cd "$1" || exit 0
while sleep 1; do
    flock -x start.lock -c '
        flock -n -x users true || exit 0
        for pid in $(head -n 1 data/postmaster.pid) $(cat data/pgbouncer.pid 2>/dev/null); do
            kill -QUIT "$pid" 2>/dev/null
            # A server that ends late would remove the socket of the next one.
            for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
                kill -0 "$pid" 2>/dev/null || break
                sleep 0.1
            done
            kill -KILL "$pid" 2>/dev/null
        done
        mv data gone.$$
        exit 9'
    # Removing many files takes a while, and the next server need not wait for it.
    [ $? -eq 9 ] && rm -rf gone.* && exit 0
done
"#;

/// The server.
pub(crate) struct Cluster {
    directory: PathBuf,
    port: u16,
    /// Locked for as long as this process lives.
    _users: File,
}

/// A database of one test.
pub(crate) struct Database {
    pub(crate) name: String,
}

/// Returns the server, which is started if it does not run.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

impl Cluster {
    fn start() -> Self {
        let programs = programs();
        let (uid, gid) = user();
        let directory = std::env::temp_dir().join(format!("tollgate-pg-{uid}-{}", digest()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
        let lock = |name: &str| File::options().create(true).append(true).open(directory.join(name)).unwrap();
        let start = lock("start.lock");
        start.lock().unwrap();
        let users = lock("users");
        users.lock_shared().unwrap();
        let port =
            std::fs::read_to_string(directory.join("data/ready")).ok().and_then(|port| port.parse().ok());
        let mut cluster = Self { directory, port: port.unwrap_or_default(), _users: users };
        if !answers(&cluster.socket()) {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            cluster.port = free.local_addr().unwrap().port();
            drop(free);
            cluster.create(&programs, uid, gid);
        }
        drop(start);
        cluster
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(format!("data/.s.PGSQL.{}", self.port))
    }

    /// Returns the TCP port, on which the server accepts only TLS and passwords.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the file of the server's certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("data/server.crt")
    }

    fn create(&self, programs: &Path, uid: u32, gid: u32) {
        let data = self.directory.join("data");
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
        chown(&data, Some(uid), Some(gid)).unwrap();
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir("/").stdin(Stdio::null()).env_remove("PGDATA").env("LC_ALL", "C");
            if rustix::process::geteuid().is_root() {
                command.uid(uid).gid(gid);
            }
            command
        };
        let init = command("initdb")
            .args(["-D", data.to_str().unwrap(), "-U", "tollgate", "-A", "trust", "-E", "UTF8", "--no-sync"])
            .output()
            .unwrap();
        assert!(init.status.success(), "initdb: {}", String::from_utf8_lossy(&init.stderr));
        std::fs::write(data.join("pg_hba.conf"), ACCESS).unwrap();
        // In the file, and not on the command line, so that a test can change them.
        let mut settings = File::options().append(true).open(data.join("postgresql.conf")).unwrap();
        settings.write_all(SETTINGS.as_bytes()).unwrap();
        make_certificate(&data, uid, gid);
        let log = File::create(self.directory.join("server.log")).unwrap();
        // In a session of its own, so that no signal to the tests reaches it.
        let mut server = command("postgres");
        let (place, port) = (data.to_str().unwrap(), self.port.to_string());
        server.args(["-D", place, "-k", place, "-p", &port]);
        server.process_group(0).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.make_template();
        if let Some(program) = pooler() {
            start_pooler(&program, &data, self, TRANSACTION);
        }
        std::fs::write(data.join("ready"), self.port.to_string()).unwrap();
        Command::new("sh")
            .args(["-c", WATCHER, "watcher", self.directory.to_str().unwrap()])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    }

    /// Waits until the server answers, and creates the database that tests copy.
    fn make_template(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|threads| {
            threads
                .spawn(|| {
                    // The test may be within a runtime already.
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        loop {
                            match self.client("postgres").await {
                                Ok(client) => {
                                    client
                                        .batch_execute(&format!("CREATE DATABASE {TEMPLATE}"))
                                        .await
                                        .unwrap();
                                    break;
                                }
                                Err(e) => assert!(Instant::now() < until, "the server does not start: {e:?}"),
                            }
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        PostgresStore::migrate(&self.config(TEMPLATE)).await.unwrap();
                    });
                })
                .join()
                .unwrap();
        });
    }

    /// Returns the URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        let host = self.directory.join("data").to_str().unwrap().replace('/', "%2F");
        format!("postgres://tollgate@{host}:{}/{database}", self.port)
    }

    pub(crate) fn config(&self, database: &str) -> PostgresConfig {
        PostgresConfig::new(&self.url(database)).unwrap()
    }

    /// Returns the URL of a database behind PgBouncer in transaction mode. `None` if it is not
    /// installed.
    pub(crate) fn pooled_url(&self, database: &str) -> Option<String> {
        let there = self.directory.join("data/pgbouncer.pid").exists();
        let direct = format!(":{}/{database}", self.port);
        there.then(|| self.url(database).replace(&direct, &format!(":6432/{database}")))
    }

    /// Connects to a database as a test does that looks behind the store.
    pub(crate) async fn client(
        &self,
        database: &str,
    ) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (client, connection) =
            tokio_postgres::connect(&self.url(database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Creates an empty database with the schema.
    pub(crate) async fn database(&self) -> Database {
        self.copy_of(TEMPLATE).await
    }

    /// Creates a database without a schema.
    pub(crate) async fn empty_database(&self) -> Database {
        self.copy_of("template0").await
    }

    async fn copy_of(&self, template: &str) -> Database {
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let created = match self.client("postgres").await {
                Ok(client) => client.batch_execute(&create).await,
                Err(e) => Err(e),
            };
            match created {
                Ok(()) => return Database { name },
                // A template cannot be copied while another session uses it.
                Err(e) => assert!(Instant::now() < until, "{e:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Database {
    pub(crate) fn config(&self) -> PostgresConfig {
        cluster().config(&self.name)
    }

    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        cluster().client(&self.name).await.unwrap()
    }

    /// Lets the server count the statements on this database, and how often it plans them.
    pub(crate) async fn count_plans(&self) {
        self.count_statements().await;
        let sql = format!("ALTER DATABASE {} SET pg_stat_statements.track_planning = on", self.name);
        self.client().await.batch_execute(&sql).await.unwrap();
    }

    /// Lets the server count the statements on this database.
    pub(crate) async fn count_statements(&self) {
        self.client().await.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    }

    /// Returns the number of statements on this database so far, apart from those of tests.
    pub(crate) async fn statements(&self) -> i64 {
        self.statements_like("", "pg_stat").await
    }

    /// Like [`statements`](Self::statements), but only of those on records: hosts also watch each other.
    pub(crate) async fn statements_on_records(&self) -> i64 {
        let records =
            "_v[0-9]|BEGIN|COMMIT|threads|runs|events|messages|inbox|state|changes|audit|component|turns";
        self.statements_like(records, "pg_stat|hosts|privilege").await
    }

    async fn statements_like(&self, wanted: &str, unwanted: &str) -> i64 {
        let sql = "SELECT coalesce(sum(calls), 0)::int8 FROM pg_stat_statements WHERE toplevel
            AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND query ~ $1 AND query !~ $2";
        self.client().await.query_one(sql, &[&wanted, &unwanted]).await.unwrap().get(0)
    }
}

/// Makes the key and the certificate of a server, which it finds under these names.
fn make_certificate(data: &Path, uid: u32, gid: u32) {
    let config = data.join("certificate.conf");
    std::fs::write(&config, CERTIFICATE).unwrap();
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    make.args(["-days", "30", "-config"]).arg(config).arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    // The package ssl-cert, on which PostgreSQL's depends, needs it too.
    let made = make.output().expect("openssl is missing; install it: apt-get install openssl");
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    chown(&key, Some(uid), Some(gid)).unwrap();
}

/// A PgBouncer of one test, in front of the shared server.
pub(crate) struct Pooler {
    program: PathBuf,
    place: tempfile::TempDir,
    child: Child,
    mode: &'static str,
}

impl Pooler {
    /// Starts it in transaction mode. Returns `None` if PgBouncer is not installed.
    pub(crate) fn start(server: &Cluster) -> Option<Self> {
        Self::start_in(server, TRANSACTION)
    }

    /// Starts it in session mode. Returns `None` if PgBouncer is not installed.
    pub(crate) fn start_with_sessions(server: &Cluster) -> Option<Self> {
        Self::start_in(server, "session")
    }

    fn start_in(server: &Cluster, mode: &'static str) -> Option<Self> {
        let program = pooler()?;
        let (place, (uid, gid)) = (tempfile::tempdir().unwrap(), user());
        chown(place.path(), Some(uid), Some(gid)).unwrap();
        let child = start_pooler(&program, place.path(), server, mode);
        Some(Self { program, place, child, mode })
    }

    /// Returns the URL of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        let host = self.place.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://tollgate@{host}:6432/{database}")
    }

    /// Kills it, with all connections through it, and starts it in transaction mode.
    pub(crate) fn change_to_transactions(&mut self, server: &Cluster) {
        self.mode = TRANSACTION;
        self.kill_and_restart(server);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join(".s.PGSQL.6432")
    }

    /// Kills it, with all connections through it, and starts it anew.
    pub(crate) fn kill_and_restart(&mut self, server: &Cluster) {
        self.kill();
        std::fs::remove_file(self.socket()).unwrap();
        self.child = start_pooler(&self.program, self.place.path(), server, self.mode);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts PgBouncer in a directory, and waits until it answers. Its settings differ from the
/// recommended ones in nothing but paths and the mode.
fn start_pooler(program: &Path, directory: &Path, server: &Cluster, mode: &str) -> Child {
    let (uid, gid) = user();
    let (place, until) = (directory.display(), Instant::now() + Duration::from_secs(60));
    let setting = |line: &str| match line.split_once('=').map(|(key, _)| key.trim()) {
        Some("tollgate") => {
            let (server, port) = (server.directory.join("data"), server.port);
            format!("* = host={} port={port} user=tollgate\n", server.display())
        }
        Some("unix_socket_dir") => {
            format!(
                "unix_socket_dir = {place}\npidfile = {place}/pgbouncer.pid\nlogfile = {place}/pgbouncer.log\n"
            )
        }
        Some("pool_mode") => format!("pool_mode = {mode}\n"),
        _ => format!("{line}\n"),
    };
    let file = directory.join("pgbouncer.ini");
    std::fs::write(&file, POOLER.lines().map(setting).collect::<String>()).unwrap();
    chown(&file, Some(uid), Some(gid)).unwrap();
    let mut command = Command::new(program);
    command.arg(&file).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(uid).gid(gid);
    }
    let child = command.spawn().unwrap();
    while !answers(&directory.join(".s.PGSQL.6432")) {
        assert!(Instant::now() < until, "PgBouncer does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Returns whether something accepts connections on a socket.
fn answers(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

/// Returns the directory of the server's programs.
pub(crate) fn programs() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = installed
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    versions.sort();
    match versions.pop() {
        Some(bin) => bin,
        None => {
            panic!("PostgreSQL is missing; install it: apt-get install --no-install-recommends postgresql")
        }
    }
}

/// Returns the program of PgBouncer, if it is installed.
fn pooler() -> Option<PathBuf> {
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].iter().map(PathBuf::from).find(|program| program.exists())
}

/// Skips a test loudly; fails where nothing may be skipped.
pub(crate) fn without_pooler() {
    let missing = "PgBouncer is missing; install it: apt-get install --no-install-recommends pgbouncer";
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
}

/// Returns the user that the server runs as, because it refuses to run as root.
pub(crate) fn user() -> (u32, u32) {
    let me = rustix::process::geteuid();
    if !me.is_root() {
        return (me.as_raw(), rustix::process::getegid().as_raw());
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().ok());
        Some((ids.next()??, ids.next()??))
    };
    of("postgres").or_else(|| of("nobody")).expect("there is a user `postgres` or `nobody`")
}

/// A digest of the schema, of the server's settings and of this program's path, so that other checkouts
/// have other servers.
fn digest() -> String {
    let mut bytes = PostgresStore::schema_sql().into_bytes();
    bytes.extend([env!("CARGO_MANIFEST_DIR"), include_str!("mod.rs"), POOLER].concat().bytes());
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
