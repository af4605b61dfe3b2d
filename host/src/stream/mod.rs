//! The updates of a run that clients and subscribers receive.

mod clients;
mod inbox;
mod publisher;
mod subscribers;
mod update;
mod visibility;

pub use clients::EventStream;
pub(crate) use clients::{Hub, PATIENCE};
pub(crate) use inbox::{Delivery, Inbox, next as next_delivery};
pub(crate) use publisher::Publisher;
pub(crate) use subscribers::Bus;
pub use subscribers::{RunEvent, Subscriber};
pub(crate) use update::redact_text;
pub use update::{ChildUpdate, LiveContent, LiveUpdate, RunUpdate};
