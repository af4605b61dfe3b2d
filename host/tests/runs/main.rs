//! Tests of whole runs through the host: native tools, a recorded model, real stores.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod audit;
mod builtin;
mod calls;
mod children;
mod commits;
mod contention;
mod cores;
mod failures;
mod fixture;
mod gates;
mod growth;
mod hooks;
#[path = "../stores/ids.rs"]
mod ids;
mod keeping;
mod listening;
mod native;
mod overheard;
mod place;
#[path = "../stores/pruning.rs"]
mod pruning;
#[path = "../stores/record_limits.rs"]
mod record_limits;
mod recovery;
mod replay;
#[path = "../stores/rules.rs"]
mod rules;
mod stopping;
mod suspension;
mod team;
mod threads;
#[path = "../watched/mod.rs"]
mod watched;
mod world;

/// Runs each test body once for each kind of store. Another kind is one more line.
macro_rules! with_each_store {
    ($($(#[$attribute:meta])* async fn $name:ident($store:ident: StoreAt) $body:block)*) => {
        $(
            mod $name {
                use super::*;
                async fn body($store: crate::place::StoreAt) $body

                crate::on_store!($(#[$attribute])* memory);
                crate::on_store!($(#[$attribute])* sqlite);
            }
        )*
    };
}
pub(crate) use with_each_store;

/// The test for the kind of store that [`place::StoreAt`] makes under this name.
macro_rules! on_store {
    ($(#[$attribute:meta])* $place:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])*
        async fn $place() {
            body(crate::place::StoreAt::$place()).await;
        }
    };
}
pub(crate) use on_store;
