//! The configuration of the database: its servers, its credentials, the pool, and the lease of a host.

use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tollgate_store::StoreLimits;

/// The default time after which the runs of a silent host are taken over.
const LEASE: Duration = Duration::from_secs(10);
/// The bounds of that time.
const LEASE_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(120)];
/// The default number of pooled connections, and its bounds.
const CONNECTIONS: usize = 8;
const CONNECTION_BOUNDS: [usize; 2] = [2, 64];

/// The configuration with which a host connects to the database.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    pub(crate) listen: Option<tokio_postgres::Config>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) connections: usize,
    pub(crate) lease: Duration,
    pub(crate) limits: StoreLimits,
    pub(crate) name: String,
}

/// A part of the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl PostgresConfig {
    /// Reads a URL such as `postgres://tollgate@db.example/tollgate`. It may name several servers
    /// (`postgres://tollgate@one,two/tollgate`); the host then uses the one that accepts writes.
    ///
    /// # Errors
    /// The URL names no host, contains a password, or cannot be read. The message does not repeat
    /// the URL.
    pub fn new(url: &str) -> Result<Self, ConfigError> {
        let server = read_url(url)?;
        Ok(Self {
            server,
            listen: None,
            ca: None,
            connections: CONNECTIONS,
            lease: LEASE,
            limits: StoreLimits::default(),
            name: String::from("tollgate"),
        })
    }

    /// Sets the password, which does not belong in the URL.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.server.password(password);
        if let Some(listen) = &mut self.listen {
            listen.password(password);
        }
        self
    }

    /// Reads the password from a file in the format of `.pgpass`: lines of
    /// `HOST:PORT:DATABASE:USER:PASSWORD`, in which `*` stands for anything.
    ///
    /// # Errors
    /// The file cannot be read. Without a matching line there is no password.
    pub fn with_password_file(self, file: &std::path::Path) -> Result<Self, ConfigError> {
        let lines = std::fs::read_to_string(file)
            .map_err(|e| ConfigError(format!("cannot read the password file {}: {e}", file.display())))?;
        let found = lines.lines().find_map(|line| self.password_in(line));
        Ok(match found {
            Some(password) => self.with_password(&password),
            None => self,
        })
    }

    fn password_in(&self, line: &str) -> Option<String> {
        let mut fields = vec![String::new()];
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            let known = fields.len();
            match (letter, fields.last_mut()) {
                ('\\', Some(field)) => field.extend(letters.next()),
                (':', _) if known < 5 => fields.push(String::new()),
                (letter, Some(field)) => field.push(letter),
                (_, None) => {}
            }
        }
        let [host, port, database, user, password] = fields.try_into().ok()?;
        let is = |field: &str, value: Option<&str>| field == "*" || Some(field) == value;
        let hosts = self.server.get_hosts().iter().any(|known| match known {
            Host::Tcp(name) => is(&host, Some(name)),
            Host::Unix(path) => is(&host, Some("localhost")) || is(&host, path.to_str()),
        });
        let known_port = self.server.get_ports().first().copied().unwrap_or(5432).to_string();
        let fits = hosts
            && is(&port, Some(&known_port))
            && is(&database, self.server.get_dbname().or(self.server.get_user()))
            && is(&user, self.server.get_user());
        fits.then_some(password)
    }

    /// Listens for notifications on another URL. A connection pooler in transaction mode does not
    /// pass them on, so this leads past it.
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    pub fn with_listen_url(mut self, url: &str) -> Result<Self, ConfigError> {
        let mut listen = read_url(url)?;
        if let Some(password) = self.server.get_password() {
            listen.password(password);
        }
        self.listen = Some(listen);
        Ok(self)
    }

    /// Trusts only the certificates in this PEM file, also those of servers on this machine.
    #[must_use]
    pub fn with_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        for server in std::iter::once(&mut self.server).chain(&mut self.listen) {
            if server.get_ssl_mode() == SslMode::Disable {
                server.ssl_mode(SslMode::Prefer);
            }
        }
        self
    }

    /// Sets the number of pooled connections, 2 to 64 (default 8).
    ///
    /// # Errors
    /// The number is out of bounds.
    pub fn with_connections(mut self, connections: usize) -> Result<Self, ConfigError> {
        let [least, most] = CONNECTION_BOUNDS;
        if !(least..=most).contains(&connections) {
            return Err(ConfigError(format!("connections is {connections}; write {least} to {most}")));
        }
        self.connections = connections;
        Ok(self)
    }

    /// Sets the time after which the runs of a silent host are taken over, 1 to 120 s (default
    /// 10 s). The host renews its lease four times within it.
    ///
    /// # Errors
    /// The time is out of bounds.
    pub fn with_lease(mut self, lease: Duration) -> Result<Self, ConfigError> {
        let [least, most] = LEASE_BOUNDS;
        if !(least..=most).contains(&lease) {
            let bounds = format!("{} to {}", least.as_millis(), most.as_millis());
            return Err(ConfigError(format!("lease_ms is {}; write {bounds}", lease.as_millis())));
        }
        self.lease = lease;
        Ok(self)
    }

    /// Sets the store's limits. The limit on free disk space does not apply: it is the database
    /// server's disk.
    #[must_use]
    pub fn with_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the name that `tollgate hosts` shows.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = tollgate_agent::text::clean(name, 100);
        self
    }

    /// Returns the address of the server for messages, without user or password.
    #[must_use]
    pub fn address(&self) -> String {
        let ports = self.server.get_ports();
        let hosts = self.server.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}/.s.PGSQL.{port}", path.display()),
            }
        });
        hosts.collect::<Vec<_>>().join(",")
    }
}

fn read_url(url: &str) -> Result<tokio_postgres::Config, ConfigError> {
    let wrong = |why: &str| Err(ConfigError(format!("the URL of the store cannot be used: {why}")));
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return wrong("it must begin with postgres://");
    }
    // The parser's message may repeat parts of the URL, but not the password, which is refused.
    let mut server: tokio_postgres::Config = match url.parse() {
        Ok(server) => server,
        Err(e) => return wrong(&describe(&e)),
    };
    if server.get_password().is_some() {
        return wrong("it contains a password; put it into a file and name that as password_file");
    }
    if server.get_hosts().is_empty() {
        return wrong("it names no host; write postgres://USER@HOST/DATABASE");
    }
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    };
    // The certificate of a server on this machine is seldom one that can be verified.
    let ssl = match server.get_hosts().iter().all(is_local) {
        true if url.contains("sslmode=") => server.get_ssl_mode(),
        true => SslMode::Disable,
        false => SslMode::Require,
    };
    server
        .ssl_mode(ssl)
        .application_name("tollgate")
        .connect_timeout(Duration::from_secs(5))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(5))
        .target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    Ok(server)
}

fn describe(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_with_a_password_or_without_a_host_is_refused_and_not_repeated() {
        for (url, says) in [
            ("postgres://u:hunter2@db/x", "contains a password"),
            ("postgres:///x", "names no host"),
            ("mysql://db/x", "must begin with postgres://"),
            ("postgres://u@db/x?hunter2=1", "cannot be used"),
            ("postgres://u@db:hunter2/x", "cannot be used"),
        ] {
            let refused = PostgresConfig::new(url).unwrap_err().to_string();
            assert!(refused.contains(says), "{url}: {refused}");
            assert!(!refused.contains("u:hunter2"), "{refused}");
        }
    }

    #[test]
    fn the_certificate_is_verified_unless_the_server_is_on_this_machine() {
        let mode = |url: &str| PostgresConfig::new(url).unwrap().server.get_ssl_mode();
        assert_eq!(mode("postgres://u@db.example/x"), SslMode::Require);
        assert_eq!(mode("postgres://u@db.example/x?sslmode=disable"), SslMode::Require);
        assert_eq!(mode("postgres://u@localhost,db.example/x"), SslMode::Require);
        assert_eq!(mode("postgres://u@localhost/x"), SslMode::Disable);
        assert_eq!(mode("postgres://u@localhost/x?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u@127.0.0.1/x?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u@%2Frun%2Fpostgresql/x"), SslMode::Disable);
        let trusting = PostgresConfig::new("postgres://u@localhost/x").unwrap().with_ca("ca.pem");
        assert_eq!(trusting.server.get_ssl_mode(), SslMode::Prefer);
    }

    #[test]
    fn a_password_file_is_read_like_that_of_other_clients() {
        let config = PostgresConfig::new("postgres://u@db:6543/x").unwrap();
        for (line, password) in [
            ("db:6543:x:u:pass\\:word:1", Some("pass:word:1")),
            ("*:*:*:*:any", Some("any")),
            ("db:5432:x:u:no", None),
            ("other:*:*:*:no", None),
            ("db:*:*:nobody:no", None),
            ("# comment", None),
        ] {
            assert_eq!(config.password_in(line).as_deref(), password, "{line}");
        }
    }

    #[test]
    fn bounds_are_checked_and_the_address_has_no_secret() {
        let config = PostgresConfig::new("postgres://u@one:1,two:2/x").unwrap().with_password("hunter2");
        assert_eq!(config.address(), "one:1,two:2");
        assert!(config.clone().with_lease(Duration::from_millis(10)).is_err());
        assert!(config.clone().with_connections(1).is_err());
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
