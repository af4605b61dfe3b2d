//! The Model Context Protocol, on both sides of it, and the only place that knows
//! rmcp.
//!
//! As a server, the host's tools are offered to a client over standard input and
//! output or over HTTP: each call is a direct call on the session's thread, with the
//! gate, the limits and the events of any other. As a client (`remote`), servers
//! that the operator names bring tools, which run behind the same gate.

mod answer;
mod asking;
mod calling;
mod connections;
mod door;
mod form;
mod http;
mod leaving;
mod lines;
mod load;
mod notices;
mod offer;
mod out;
mod pending;
mod remote;
mod server;
mod sessions;
mod stdio;
mod tasks;
mod weight;
mod wire;

pub use http::{HTTP_PATH, HttpOptions, HttpServer, METRICS_PATH, new_token};
pub use lines::MAX_MESSAGE_BYTES;
pub use load::{MAX_REQUEST_BYTES, MAX_REQUESTS};
pub use offer::{Offer, OfferError};
pub use remote::{MAX_BYTES_PER_SECOND, MAX_LISTED, MAX_LISTED_BYTES, MAX_LISTED_NODES, Servers};
pub use sessions::MAX_SESSIONS;
pub use stdio::{serve_stdio, serve_stdio_until};
