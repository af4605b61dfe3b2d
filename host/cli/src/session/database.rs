//! The database that several hosts share, where the configuration or an option names one.

use crate::globals::Globals;
use crate::terminal::Failure;
#[cfg(feature = "postgres")]
use crate::terminal::Output;
use std::sync::Arc;
use tollgate::config::{Config, DatabaseConfig};
#[cfg(feature = "mcp")]
use tollgate::store::RequestKeyStore;
use tollgate::store::{Store, StoreLimits};
#[cfg(feature = "postgres")]
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// The option that names a database, or the variable in its place.
const OPTION: &str = "--store or TOLLGATE_STORE";

/// The store that other hosts may share; `None` for a store in a data directory.
#[cfg(feature = "postgres")]
pub(crate) type SharedStore = Option<Arc<PostgresStore>>;
#[cfg(not(feature = "postgres"))]
pub(crate) type SharedStore = Option<std::convert::Infallible>;

/// Returns the idempotency keys that the hosts of a database share.
#[cfg(all(feature = "mcp", feature = "postgres"))]
pub(crate) fn request_keys(shared: &SharedStore) -> Option<Arc<dyn RequestKeyStore>> {
    shared.clone().map(|store| store as Arc<dyn RequestKeyStore>)
}

#[cfg(all(feature = "mcp", not(feature = "postgres")))]
pub(crate) fn request_keys(shared: &SharedStore) -> Option<Arc<dyn RequestKeyStore>> {
    shared.map(|never| match never {})
}

/// Returns the database that `--store` or the configuration names. `--data` names a directory in
/// its place.
pub(crate) fn database(globals: &Globals, config: &Config) -> Option<DatabaseConfig> {
    if globals.data.is_some() && globals.store.is_none() {
        return None;
    }
    let configured = config.store.database.clone();
    match (&globals.store, configured) {
        (Some(url), Some(configured)) => {
            Some(DatabaseConfig { place: OPTION.to_owned(), url: url.clone(), ..configured })
        }
        (Some(url), None) => Some(DatabaseConfig::new(url, OPTION)),
        (None, configured) => configured,
    }
}

/// Reads the configuration and returns the database that it or `--store` names.
pub(crate) fn named_database(globals: &Globals) -> Result<Option<DatabaseConfig>, Failure> {
    if globals.data.is_some() && globals.store.is_none() {
        return Ok(None);
    }
    Ok(database(globals, &globals.read_config()?))
}

/// Like [`named_database`], for commands that need one.
#[cfg(feature = "postgres")]
pub(crate) fn required_database(globals: &Globals) -> Result<DatabaseConfig, Failure> {
    named_database(globals)?.ok_or_else(|| {
        Failure::usage(
            "no database is configured; set url = \"postgres://USER@HOST/DATABASE\" in [store] of tollgate.toml, or \
             pass --store URL",
        )
    })
}

/// Connects to the database.
#[cfg(feature = "postgres")]
pub(crate) async fn connect(
    database: &DatabaseConfig,
    limits: StoreLimits,
    name: Option<&str>,
) -> Result<Arc<PostgresStore>, Failure> {
    let config = settings(database, name)?.with_limits(limits);
    Ok(Arc::new(PostgresStore::connect(config).await?))
}

/// Shows the properties of the server and its role under which less is guaranteed.
#[cfg(feature = "postgres")]
pub(crate) async fn show_warnings(store: &PostgresStore, output: &Output) -> Result<(), Failure> {
    store.warnings().await?.iter().for_each(|warning| output.warn(warning));
    Ok(())
}

/// Returns the key from which the codes of questions are made.
#[cfg(feature = "postgres")]
pub(crate) async fn decisions_key(database: &DatabaseConfig) -> Result<String, Failure> {
    Ok(PostgresStore::decisions_key(&settings(database, None)?).await?)
}

#[cfg(not(feature = "postgres"))]
pub(crate) async fn decisions_key(_database: &DatabaseConfig) -> Result<String, Failure> {
    Err(without_postgres())
}

/// Explains that this program cannot connect to a database.
#[cfg(not(feature = "postgres"))]
pub(crate) fn without_postgres() -> Failure {
    Failure::usage("this program was built without PostgreSQL; build it with --features postgres")
}

/// A store, and the same store if other hosts may share it.
pub(crate) type OpenStore = (Arc<dyn Store>, SharedStore);

/// Connects to the database.
#[cfg(feature = "postgres")]
pub(crate) async fn connect_as_store(
    database: &DatabaseConfig,
    limits: StoreLimits,
) -> Result<OpenStore, Failure> {
    let store = connect(database, limits, None).await?;
    Ok((Arc::clone(&store) as Arc<dyn Store>, Some(store)))
}

#[cfg(not(feature = "postgres"))]
pub(crate) async fn connect_as_store(
    _database: &DatabaseConfig,
    _limits: StoreLimits,
) -> Result<OpenStore, Failure> {
    Err(without_postgres())
}

/// Returns how the database is reached, with its password.
#[cfg(feature = "postgres")]
pub(crate) fn settings(database: &DatabaseConfig, name: Option<&str>) -> Result<PostgresConfig, Failure> {
    use tollgate::config::SecretSource;
    let wrong = |why: tollgate_postgres::ConfigError| Failure::usage(format!("{}: {why}", database.place));
    let mut config = PostgresConfig::new(&database.url).map_err(wrong)?;
    match &database.password {
        Some(SecretSource::Environment(variable)) => {
            let password = std::env::var(variable).map_err(|_| {
                Failure::usage(format!(
                    "the variable {variable} has no value; it holds the password of [store] in tollgate.toml"
                ))
            })?;
            config = config.with_password(&password);
        }
        Some(SecretSource::File(file)) => {
            let password = std::fs::read_to_string(file)
                .map_err(|e| Failure::usage(format!("cannot read password_file {}: {e}", file.display())))?;
            config = config.with_password(password.trim_end_matches(['\r', '\n']));
        }
        None => {
            if let Some(file) = std::env::var_os("PGPASSFILE") {
                config = config.with_password_file(std::path::Path::new(&file)).map_err(wrong)?;
            }
        }
    }
    if let Some(url) = &database.listen_url {
        config = config.with_listen_url(url).map_err(wrong)?;
    }
    if let Some(ca) = &database.ca {
        config = config.with_ca(ca);
    }
    if let Some(connections) = database.connections {
        config = config.with_connections(connections).map_err(wrong)?;
    }
    if let Some(lease) = database.lease {
        config = config.with_lease(lease).map_err(wrong)?;
    }
    let host_name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(config.with_name(name.map_or_else(host_name, str::to_owned).trim()))
}
