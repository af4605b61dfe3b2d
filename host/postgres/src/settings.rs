//! The values that all hosts share, and the marker of an unfinished copy among them.

use crate::connect::{params, query};
use crate::error::explain;
use tokio_postgres::Client;
use tollgate_store::{Remedy, StoreError};

/// The setting that names the source of an unfinished copy.
pub(crate) const COPY: &str = "copy";

/// Returns the value of a setting.
pub(crate) async fn setting(client: &Client, name: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let sql = "SELECT value FROM settings WHERE name = $1";
    let rows = query(client, sql, params![(name.to_owned(), TEXT)]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Checks that no copy into the database is unfinished.
///
/// # Errors
/// One is, or the database cannot be read.
pub(crate) async fn check_copied(client: &Client, address: &str) -> Result<(), StoreError> {
    match setting(client, COPY).await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(unfinished_copy(address)),
        Err(why) => Err(explain("read", address, &why)),
    }
}

/// Returns the error for a database that an unfinished copy has filled in part.
pub(crate) fn unfinished_copy(address: &str) -> StoreError {
    let message = format!("cannot use the store at {address}: a copy into this database has not finished");
    StoreError::unusable(message).with_remedy(Remedy::RepeatCopy)
}
