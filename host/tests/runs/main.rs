//! Whole runs through the host: native tools, a recorded model, real stores.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod audit;
mod calls;
mod commits;
mod replay;
mod store;
mod suspension;
mod world;

/// Runs each test body once for each store.
macro_rules! with_each_store {
    ($($(#[$attribute:meta])* async fn $name:ident($store:ident: StoreAt) $body:block)*) => {
        $(
            mod $name {
                use super::*;
                async fn body($store: crate::world::StoreAt) $body

                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn memory() {
                    body(crate::world::StoreAt::memory()).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                $(#[$attribute])*
                async fn sqlite() {
                    body(crate::world::StoreAt::sqlite()).await;
                }
            }
        )*
    };
}
pub(crate) use with_each_store;
