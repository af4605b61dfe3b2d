//! PostgreSQL follows the same rules as the other stores, directly and behind a connection pooler.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../../../tests/stores/ids.rs"]
mod ids;
mod place;
#[path = "../../../tests/stores/pruning.rs"]
mod pruning;
#[path = "../../../tests/stores/record_limits.rs"]
mod record_limits;
#[path = "../../../tests/stores/request_keys.rs"]
mod request_keys;
#[allow(dead_code, reason = "tests of whole runs use the rest")]
#[path = "../../../tests/stores/rules.rs"]
mod rules;

/// Runs each test body once on PostgreSQL.
macro_rules! with_each_store {
    ($($(#[$attribute:meta])* async fn $name:ident($store:ident: StoreAt) $body:block)*) => {
        $(
            mod $name {
                use super::*;
                async fn body($store: crate::place::StoreAt) $body

                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn postgres() {
                    body(crate::place::StoreAt::postgres().await).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn pgbouncer() {
                    match crate::place::StoreAt::pgbouncer().await {
                        Some(at) => body(at).await,
                        None => crate::cluster::without_pooler(),
                    }
                }
            }
        )*
    };
}
pub(crate) use with_each_store;

#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_the_keys_of_requests() {
    let at = place::StoreAt::postgres().await;
    let (one, two) = (at.host().await, at.host().await);
    request_keys::keys_of_requests_are_shared(&one, &two).await;
}
