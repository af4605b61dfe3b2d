//! A store that several hosts share: PostgreSQL 14 or later.
//!
//! Every host registers in the database and renews a lease. The host that drives a run is
//! recorded in the run's row together with an epoch, which each commit checks while it holds the
//! row's lock. If a host stops renewing, another one releases its runs and raises their epochs,
//! so that nothing the late host still sends is stored. PostgreSQL's transactions, row locks and
//! notifications do all the coordination; notifications are only hints, with a poll behind them.

mod audit;
mod commit;
mod components;
mod config;
mod connect;
mod conversations;
mod copy;
mod database;
mod error;
mod hints;
mod inbox;
mod lease;
mod member;
mod preparation;
mod prepared_commit;
mod prune;
mod pruned_threads;
mod read;
mod record_audit;
mod record_sizes;
mod remove;
mod renewal;
mod request_keys;
mod schema;
mod settings;
mod statements;
mod store;
mod turns;
mod write;

pub use config::{ConfigError, PostgresConfig};
pub use copy::CopyReport;
pub use member::{HostDescription, HostRow};
pub use schema::{MigrationReport, SchemaState};
pub use store::PostgresStore;
