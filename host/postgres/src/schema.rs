//! The schema: creating it, migrating it, and checking that it fits this program.

use crate::config::PostgresConfig;
use crate::connect::{params, query, single};
use crate::error::{READ_ONLY, explain};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tollgate_store::{Remedy, StoreError, now_ms};

mod migrations {
    refinery::embed_migrations!("src/migrations");
}

/// The newest schema version that this program knows.
pub(crate) const NEWEST: i32 = 10;
/// The version that this program requires of `meta.min_host` at most.
const THIS_HOST: i32 = 4;
/// The oldest PostgreSQL version, as the server reports it.
const OLDEST_SERVER: i32 = 140_000;
/// The largest difference between the clocks of a host and the server without a warning.
const MAX_CLOCK_DIFFERENCE_MS: i64 = 60_000;
/// The longest time that a transaction may be open without a warning, in seconds.
const MAX_TRANSACTION_S: i64 = 600;
/// The advisory lock under which the schema is migrated: "TOLG".
const LOCK: i64 = 0x544f_4c47;

/// The state of a database's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// It has none.
    Empty,
    /// It has a version that this program uses.
    Current,
    /// It has this earlier version.
    Older(i32),
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    /// The version before; 0 if there was no schema.
    pub from: i32,
    /// The version now.
    pub to: i32,
}

/// Creates the schema or migrates it to this version. Concurrent callers wait for each other.
///
/// # Errors
/// The database cannot be reached, belongs to something else, has a newer schema, or the role may
/// not create tables.
pub(crate) async fn migrate(config: &PostgresConfig) -> Result<MigrationReport, StoreError> {
    let failed = |e: tokio_postgres::Error| explain("migrate", &config.address(), &e);
    let mut client = single(config, &config.server, |_| {}).await?;
    // The lock ends with the connection.
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await.map_err(failed)?;
    let from = match state(&client, config).await? {
        SchemaState::Empty => 0,
        SchemaState::Current => return Ok(MigrationReport { from: NEWEST, to: NEWEST }),
        SchemaState::Older(version) => version,
    };
    let runner = migrations::migrations::runner().set_grouped(true);
    runner.run_async(&mut client).await.map_err(|why| {
        use std::error::Error as _;
        match why.source().and_then(|of| of.downcast_ref()) {
            Some(of_database) => explain("migrate", &config.address(), of_database),
            None => StoreError::other(format!("cannot migrate the store at {}: {why}", config.address())),
        }
    })?;
    Ok(MigrationReport { from, to: NEWEST })
}

/// The tables of what was recorded.
const RECORDS: &str = "events, messages, changes, audit, components, component_parts, run_components";

/// The privileges that the role of the hosts needs, and the tables.
const GRANTS: [(&str, &str); 4] = [
    ("SELECT, INSERT", RECORDS),
    ("SELECT, INSERT, UPDATE", "threads, runs, state, component_sizes"),
    ("SELECT, INSERT, UPDATE, DELETE", "hosts, settings, tool_health, turns, inbox, request_keys"),
    ("SELECT", "meta, refinery_schema_history"),
];

/// The privileges that removing runs needs, and the tables.
const PRUNE_GRANTS: [(&str, &str); 6] = [
    ("SELECT, DELETE", "events, messages, audit, components, component_parts, run_components, inbox"),
    ("SELECT, UPDATE, DELETE", "threads, runs, changes"),
    ("SELECT, UPDATE", "component_sizes"),
    ("SELECT, INSERT, UPDATE, DELETE", "settings"),
    ("SELECT", "state"),
    ("SELECT", "meta, refinery_schema_history"),
];

/// The functions that the role of the hosts needs.
const FUNCTIONS: [&str; 6] = ["begin_v1", "claim_v1", "claim_v2", "commit_v2", "events_v1", "thread_v1"];

/// Returns the statements that grant a role what hosts need.
pub(crate) fn grants(role: &str) -> String {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    let tables = GRANTS.map(|(privileges, tables)| format!("GRANT {privileges} ON {tables} TO {role};\n"));
    tables.concat() + &format!("GRANT EXECUTE ON FUNCTION {} TO {role};\n", FUNCTIONS.join(", "))
}

/// Returns the privileges that the role lacks of these, such as `INSERT on audit`. It lacks all on a table that
/// does not exist.
async fn missing_on_tables(
    client: &Client,
    grants: &[(&'static str, &'static str)],
) -> Result<Vec<String>, tokio_postgres::Error> {
    let sql = "SELECT p || ' on ' || t FROM unnest($1, $2) WITH ORDINALITY AS x(tables, privileges, n),
            unnest(string_to_array(tables, ', ')) WITH ORDINALITY AS y(t, tn),
            unnest(string_to_array(privileges, ', ')) WITH ORDINALITY AS z(p, pn)
        WHERE NOT coalesce(has_table_privilege(to_regclass(t), p), false) ORDER BY n, tn, pn";
    let (privileges, tables): (Vec<&'static str>, Vec<&'static str>) = grants.iter().copied().unzip();
    let row = params![(tables, TEXT_ARRAY), (privileges, TEXT_ARRAY)];
    Ok(query(client, sql, row).await?.iter().map(|row| row.get(0)).collect())
}

/// Returns the privileges of hosts that the role lacks.
pub(crate) async fn missing_privileges(client: &Client) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut missing = missing_on_tables(client, &GRANTS).await?;
    let sql = "SELECT 'EXECUTE on ' || f FROM unnest($1) AS f
        WHERE NOT coalesce(has_function_privilege(to_regproc(f)::oid, 'EXECUTE'), false) ORDER BY f";
    let rows = query(client, sql, params![(FUNCTIONS.to_vec(), TEXT_ARRAY)]).await?;
    missing.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    Ok(missing)
}

/// Refuses a role that lacks privileges that hosts need.
pub(crate) async fn check_privileges(client: &Client, address: &str) -> Result<(), StoreError> {
    let missing = missing_privileges(client).await.map_err(|e| explain("read", address, &e))?;
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("cannot use the store at {address}: the role lacks {}", missing.join(", "));
            Err(StoreError::unusable(message).with_remedy(Remedy::GrantPrivileges))
        }
    }
}

/// Refuses a role that may not remove runs.
pub(crate) async fn check_may_prune(client: &Client, address: &str) -> Result<(), StoreError> {
    let missing = missing_on_tables(client, &PRUNE_GRANTS).await;
    let missing = missing.map_err(|e| explain("read", address, &e))?;
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("cannot remove runs from the store at {address}: the role lacks {}", missing.join(", "));
    Err(StoreError::unusable(message).with_remedy(Remedy::PruneAsOwner))
}

/// Returns the SQL of all migrations, in order.
pub(crate) fn sql() -> String {
    let runner = migrations::migrations::runner();
    let mut all: Vec<_> = runner.get_migrations().iter().collect();
    all.sort_by_key(|migration| migration.version());
    all.iter().filter_map(|migration| migration.sql()).collect::<Vec<_>>().join("\n")
}

/// Returns why a server with this `server_version_num` cannot be used, if it is too old.
fn too_old(version: i32) -> Option<String> {
    // Before version 10, the first two parts of a version together were its name.
    let name = match version {
        100_000.. => (version / 10_000).to_string(),
        _ => format!("{}.{}", version / 10_000, version / 100 % 100),
    };
    (version < OLDEST_SERVER).then(|| format!("it is PostgreSQL {name}; use version 14 or later"))
}

/// Checks the server and returns the state of the schema.
pub(crate) async fn state(client: &Client, config: &PostgresConfig) -> Result<SchemaState, StoreError> {
    let failed = |e: tokio_postgres::Error| explain("read", &config.address(), &e);
    let refused =
        |why: String| StoreError::unusable(format!("cannot use the store at {}: {why}", config.address()));
    let sql = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(),
        pg_encoding_to_char(encoding), to_regclass('refinery_schema_history') IS NOT NULL,
        (SELECT count(*) FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
            AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT EXISTS (SELECT FROM pg_depend d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')),
        to_regclass('meta') IS NOT NULL
        FROM pg_database WHERE datname = current_database()";
    let row = client.query_typed_one(sql, &[]).await.map_err(failed)?;
    let (version, standby, encoding): (i32, bool, &str) = (row.get(0), row.get(1), row.get(2));
    if let Some(why) = too_old(version) {
        return Err(refused(why));
    }
    if standby {
        return Err(refused(READ_ONLY.to_owned()));
    }
    if encoding != "UTF8" {
        return Err(refused(format!(
            "the database is encoded as {encoding}; create one with `createdb -E UTF8`"
        )));
    }
    let (has_history, tables, has_meta): (bool, i64, bool) = (row.get(3), row.get(4), row.get(5));
    let foreign =
        || Err(refused("its schema has tables that are not Tollgate's; use an empty database".to_owned()));
    if !has_history {
        return if tables == 0 { Ok(SchemaState::Empty) } else { foreign() };
    }
    let sql = "SELECT coalesce(max(version), 0)::int4 FROM refinery_schema_history";
    let has: i32 = client.query_typed_one(sql, &[]).await.map_err(failed)?.get(0);
    if has == 0 {
        return Ok(SchemaState::Empty);
    }
    if !has_meta {
        // Another program keeps its history under the same name.
        return foreign();
    }
    if has < NEWEST {
        return Ok(SchemaState::Older(has));
    }
    let sql = "SELECT min_host FROM meta";
    let min_host: i32 = client.query_typed_one(sql, &[]).await.map_err(failed)?.get(0);
    if min_host > THIS_HOST {
        return Err(refused(format!(
            "its schema is used by hosts of a newer version, at least {min_host} (this one has {THIS_HOST}); use the newer version"
        )));
    }
    Ok(SchemaState::Current)
}

/// Checks that a host may use the schema.
pub(crate) async fn check(client: &Client, config: &PostgresConfig) -> Result<(), StoreError> {
    let refused = |why: &str, remedy: Remedy| {
        let message = format!("cannot use the store at {}: {why}", config.address());
        Err(StoreError::unusable(message).with_remedy(remedy))
    };
    match state(client, config).await? {
        SchemaState::Current => Ok(()),
        SchemaState::Empty => refused("it has no schema", Remedy::CreateSchema),
        SchemaState::Older(_) => refused("its schema is of an earlier version", Remedy::MigrateSchema),
    }
}

/// Returns the properties of a server and its role under which less is guaranteed than the
/// documentation states, one sentence each.
pub(crate) async fn warnings(client: &Client) -> Result<Vec<String>, tokio_postgres::Error> {
    let sql = "SELECT current_setting('fsync') = 'on', current_setting('synchronous_commit') <> 'off',
        (extract(epoch FROM clock_timestamp()) * 1000)::int8,
        EXISTS (SELECT FROM unnest(string_to_array($1, ', ')) AS t, unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) AS p
            WHERE has_table_privilege(t, p)),
        current_user::text,
        coalesce((extract(epoch FROM max(clock_timestamp() - xact_start)))::int8, 0)
        FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()";
    let row = client.query_typed_one(sql, &[(&RECORDS, Type::TEXT)]).await?;
    let (syncs, waits, may_alter): (bool, bool, bool) = (row.get(0), row.get(1), row.get(3));
    let ahead_ms = i64::try_from(now_ms()).unwrap_or(i64::MAX) - row.get::<_, i64>(2);
    let (role, oldest): (String, i64) = (row.get(4), row.get(5));
    let mut warnings = Vec::new();
    if !syncs {
        warnings.push("fsync is off: a crash of the server can damage the whole database".to_owned());
    }
    if !waits {
        let what = "synchronous_commit is off: a crash of the server can lose commits that were reported";
        warnings.push(what.to_owned());
    }
    warnings.extend(clock_warning(ahead_ms));
    if may_alter {
        warnings.push(format!(
            "the role {} may alter what was recorded; grant it only what docs/postgresql.md lists",
            tollgate_agent::text::clean(&role, 100)
        ));
    }
    if oldest > MAX_TRANSACTION_S {
        warnings.push(format!(
            "a transaction has been open for {} minutes: dead rows of hosts and runs pile up meanwhile; end it",
            oldest / 60
        ));
    }
    Ok(warnings)
}

/// Returns a warning if this machine's clock is too far ahead of the server's, or behind it.
fn clock_warning(ahead_ms: i64) -> Option<String> {
    let (seconds, how) = (ahead_ms.abs() / 1_000, if ahead_ms > 0 { "ahead of" } else { "behind" });
    (ahead_ms.abs() > MAX_CLOCK_DIFFERENCE_MS)
        .then(|| format!("the clock of this machine is {seconds} s {how} the server's; synchronize both"))
}

#[cfg(test)]
mod tests {
    use super::{clock_warning, too_old};

    #[test]
    fn a_clock_that_is_a_minute_off_is_told() {
        let words = |ahead_ms, how: &str| {
            assert!(clock_warning(ahead_ms).is_some_and(|told| told.contains(how)), "{ahead_ms}");
        };
        words(61_000, "61 s ahead of the server's");
        words(-3_600_000, "3600 s behind the server's");
        assert_eq!((clock_warning(60_000), clock_warning(-60_000)), (None, None));
    }

    #[test]
    fn a_server_before_version_14_is_refused_by_its_name() {
        for (version, name) in [(130_022, "13"), (139_999, "13"), (100_023, "10"), (90_624, "9.6")] {
            let why = too_old(version);
            assert_eq!(why, Some(format!("it is PostgreSQL {name}; use version 14 or later")));
        }
        for version in [140_000, 140_020, 150_014, 180_000] {
            assert_eq!(too_old(version), None);
        }
    }

    #[test]
    fn the_newest_migration_is_the_one_that_is_known() {
        let runner = super::migrations::migrations::runner();
        let newest = runner.get_migrations().iter().map(|migration| i64::from(migration.version())).max();
        assert_eq!(newest, Some(i64::from(super::NEWEST)));
    }
}
