//! Opens the configured tools, store and host, and asks the person at the terminal.

pub(crate) mod approve;
pub(crate) mod ask;
pub(crate) mod call_end;
pub(crate) mod codes;
pub(crate) mod data;
pub(crate) mod database;
pub(crate) mod follow;
pub(crate) mod grant_audit;
pub(crate) mod grants;
pub(crate) mod models;
pub(crate) mod offer;
pub(crate) mod open;
#[cfg(feature = "mcp")]
pub(crate) mod operator;
pub(crate) mod origin;
pub(crate) mod place;
pub(crate) mod project_data;
mod prompt;
#[cfg(feature = "postgres")]
pub(crate) mod served;
#[cfg(feature = "mcp")]
pub(crate) mod served_address;
pub(crate) mod servers;
pub(crate) mod shutdown;

pub(crate) use open::{OpenSession, host_with};
pub(crate) use place::as_child;
pub(crate) use servers::{finish, warn_of_left_out, with_servers};
