//! `[store]`: how much is kept, and for how long.

use super::ConfigError;
use super::error::Source;
use super::paths::in_dir;
use super::raw::RawStore;
use super::secrets::SecretSource;
use crate::store::StoreLimits;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_agent::state::key::MAX_THREAD_STATE_BYTES;
use toml::Spanned;

/// The limits on what the store keeps, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The limits of its size.
    pub limits: StoreLimits,
    /// The maximum size of one component's state in one thread, in bytes.
    pub thread_state_bytes: usize,
    /// How long completed runs are kept. `None` if they are kept until they are removed by
    /// hand.
    pub keep: Option<Duration>,
    /// The database that several hosts share. `None` for a store in the data directory.
    pub database: Option<DatabaseConfig>,
}

/// A PostgreSQL database as the store. Its parts are checked when it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// The place that names the URL, for messages.
    pub place: String,
    /// The URL, without a password.
    pub url: String,
    /// The location of the password, if there is one.
    pub password: Option<SecretSource>,
    /// The URL for notifications, if a connection pooler does not pass them on.
    pub listen_url: Option<String>,
    /// A PEM file with the certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// The number of pooled connections.
    pub connections: Option<usize>,
    /// The time after which the runs of a silent host are taken over.
    pub lease: Option<Duration>,
}

impl DatabaseConfig {
    /// Describes the database at this URL, which was named here, with the defaults for everything else.
    #[must_use]
    pub fn new(url: impl Into<String>, place: impl Into<String>) -> Self {
        let (url, place) = (url.into(), place.into());
        Self { place, url, password: None, listen_url: None, ca: None, connections: None, lease: None }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            limits: StoreLimits::default(),
            thread_state_bytes: MAX_THREAD_STATE_BYTES,
            keep: None,
            database: None,
        }
    }
}

pub(super) fn check(source: &Source<'_>, raw: RawStore, base_dir: &Path) -> Result<StoreConfig, ConfigError> {
    let database = database(source, &raw, base_dir)?;
    let number = |name: &str, given: Option<Spanned<i64>>, least: i64, usual: u64| {
        let Some(given) = given else { return Ok(usual) };
        match u64::try_from(*given.get_ref()) {
            Ok(value) if *given.get_ref() >= least => Ok(value),
            _ => {
                let problem = format!("`{name}` is {}; it must be at least {least}", given.get_ref());
                Err(source.wrong(given.span(), problem))
            }
        }
    };
    let usual = StoreConfig::default();
    let limits = StoreLimits {
        component_record_bytes: number(
            "component_record_bytes",
            raw.component_record_bytes,
            1,
            usual.limits.component_record_bytes,
        )?,
        thread_record_bytes: number(
            "thread_record_bytes",
            raw.thread_record_bytes,
            1,
            usual.limits.thread_record_bytes,
        )?,
        principal_record_bytes: number(
            "principal_record_bytes",
            raw.principal_record_bytes,
            1,
            usual.limits.principal_record_bytes,
        )?,
        min_free_bytes: number("min_free_bytes", raw.min_free_bytes, 0, usual.limits.min_free_bytes)?,
    };
    let state = number("thread_state_bytes", raw.thread_state_bytes, 1, usual.thread_state_bytes as u64)?;
    let keep = raw.keep.map(|keep| {
        let period = read_period(keep.get_ref());
        period.map_err(|problem| source.wrong(keep.span(), problem.to_string()))
    });
    let thread_state_bytes = usize::try_from(state).unwrap_or(usize::MAX);
    Ok(StoreConfig { limits, thread_state_bytes, keep: keep.transpose()?, database })
}

fn database(
    source: &Source<'_>,
    raw: &RawStore,
    base_dir: &Path,
) -> Result<Option<DatabaseConfig>, ConfigError> {
    let Some(url) = &raw.url else {
        let spans = [
            ("password_env", raw.password_env.as_ref().map(Spanned::span)),
            ("password_file", raw.password_file.as_ref().map(Spanned::span)),
            ("listen_url", raw.listen_url.as_ref().map(Spanned::span)),
            ("ca", raw.ca.as_ref().map(Spanned::span)),
            ("connections", raw.connections.as_ref().map(Spanned::span)),
            ("lease_ms", raw.lease_ms.as_ref().map(Spanned::span)),
        ];
        return match spans.into_iter().find_map(|(name, span)| Some((name, span?))) {
            None => Ok(None),
            Some((name, span)) => {
                Err(source.wrong(span, format!("`{name}` needs `url`, the database that it is about")))
            }
        };
    };
    let password = match (&raw.password_env, &raw.password_file) {
        (Some(_), Some(file)) => {
            let problem = "the password is in one place; write either `password_env` or `password_file`";
            return Err(source.wrong(file.span(), problem.to_owned()));
        }
        (Some(variable), None) => Some(SecretSource::Environment(variable.get_ref().clone())),
        (None, Some(file)) => Some(SecretSource::File(in_dir(base_dir, file.get_ref()))),
        (None, None) => None,
    };
    let positive = |name: &str, given: &Option<Spanned<i64>>| {
        let number = |given: &Spanned<i64>| {
            u32::try_from(*given.get_ref()).ok().filter(|number| *number > 0).ok_or_else(|| {
                source.wrong(given.span(), format!("`{name}` is {}; it must be at least 1", given.get_ref()))
            })
        };
        given.as_ref().map(number).transpose()
    };
    Ok(Some(DatabaseConfig {
        place: format!("{}:{}, [store]", source.path.display(), source.line(url.span())),
        url: url.get_ref().clone(),
        password,
        listen_url: raw.listen_url.as_ref().map(|url| url.get_ref().clone()),
        ca: raw.ca.as_ref().map(|file| in_dir(base_dir, file.get_ref())),
        connections: positive("connections", &raw.connections)?.map(|number| number as usize),
        lease: positive("lease_ms", &raw.lease_ms)?.map(|ms| Duration::from_millis(ms.into())),
    }))
}

/// A text is not a period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a period; write 30m, 12h or 7d")]
pub struct InvalidPeriod(String);

/// Parses a period such as `30m`, `12h` or `7d`.
///
/// # Errors
/// The text is not a period.
pub fn read_period(typed: &str) -> Result<Duration, InvalidPeriod> {
    let wrong = || InvalidPeriod(typed.to_owned());
    let (number, unit) = typed.split_at_checked(typed.len().wrapping_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn periods_are_read() {
        assert_eq!(read_period("30m").unwrap(), Duration::from_secs(1_800));
        assert_eq!(read_period("7d").unwrap(), Duration::from_secs(604_800));
        for wrong in ["", "7", "d", "7y", "-1d", "1.5h", "7\u{e9}"] {
            assert!(read_period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_database_is_named_by_a_url_and_its_password_is_elsewhere() {
        let parse = |text: &str| Config::parse(Path::new("/etc/tollgate.toml"), &format!("[store]\n{text}"));
        let text = "url = \"postgres://u@db/x\"\npassword_file = \"key\"\nlease_ms = 5000\nconnections = 4";
        let database = parse(text).unwrap().store.database.unwrap();
        assert_eq!(database.url, "postgres://u@db/x");
        assert_eq!(database.password, Some(SecretSource::File("/etc/key".into())));
        assert_eq!((database.lease, database.connections), (Some(Duration::from_secs(5)), Some(4)));
        assert_eq!(parse("keep = \"30d\"").unwrap().store.database, None);
        for (wrong, says) in [
            ("lease_ms = 5000", "`lease_ms` needs `url`"),
            ("url = \"postgres://u@db/x\"\nlease_ms = 0", "at least 1"),
            ("url = \"postgres://u@db/x\"\npassword_env = \"A\"\npassword_file = \"b\"", "in one place"),
        ] {
            let refused = parse(wrong).unwrap_err().to_string();
            assert!(refused.contains(says), "{wrong}: {refused}");
        }
    }

    #[test]
    fn z8_the_limits_of_the_store_are_configured_with_their_units() {
        let parse = |text: &str| Config::parse(Path::new("tollgate.toml"), text);
        let usual = parse("").unwrap().store;
        assert_eq!(usual.limits.component_record_bytes, 1 << 30);
        assert_eq!(usual.limits.thread_record_bytes, 1 << 30);
        assert_eq!(usual.limits.principal_record_bytes, 512 << 20);
        assert_eq!((usual.limits.min_free_bytes, usual.thread_state_bytes), (256 << 20, 64 << 20));
        assert_eq!(usual.keep, None);
        let text = "[store]\ncomponent_record_bytes = 1\nthread_record_bytes = 2\nprincipal_record_bytes = 4\n\
            thread_state_bytes = 3\nmin_free_bytes = 0\nkeep = \"30d\"";
        let given = parse(text).unwrap().store;
        assert_eq!((given.limits.component_record_bytes, given.limits.thread_record_bytes), (1, 2));
        assert_eq!(given.limits.principal_record_bytes, 4);
        assert_eq!((given.limits.min_free_bytes, given.thread_state_bytes), (0, 3));
        assert_eq!(given.keep, Some(Duration::from_secs(30 * 86_400)));
        for wrong in [
            "thread_record_bytes = 0",
            "principal_record_bytes = 0",
            "min_free_bytes = -1",
            "keep = \"soon\"",
            "keep_days = 3",
        ] {
            assert!(parse(&format!("[store]\n{wrong}")).is_err(), "{wrong}");
        }
    }
}
