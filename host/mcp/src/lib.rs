//! The Model Context Protocol, as server and as client. Only this module uses rmcp.
//!
//! As a server, the host offers its tools to clients over standard input and output or over HTTP.
//! Each call is a direct call on the session's thread, with the gate, the limits and the events
//! of any other. As a client (`remote`), the host connects to servers that the operator names,
//! and their tools run behind the same gate.

mod call_result;
mod client;
mod connections;
mod disconnects;
mod elicitation;
mod form;
mod guard;
mod http;
mod memory_share;
mod mounted_client;
mod notifications;
mod reader;
mod request_limit;
mod server;
mod sessions;
mod stdio;
mod suspended_calls;
mod task_runs;
mod tasks;
mod tool_calls;
mod tool_list;
mod transport;
mod weight;
mod writer;

pub use client::{
    MAX_BYTES_PER_SECOND, MAX_LISTED, MAX_LISTED_BYTES, MAX_LISTED_NODES, MAX_UNANSWERED, Servers, is_program,
};
pub use connections::{ClientConnection, LimitedListener, RequestInProgress, connections_within};
pub use http::{HTTP_PATH, METRICS_PATH, MountedServer, TokenOptions, new_token};
pub use memory_share::{MemoryShare, NoSharedMemory, SharedMemory};
pub use mounted_client::{ClientAccess, MountedClient};
pub use notifications::MAX_TOKEN_BYTES;
pub use reader::MAX_MESSAGE_BYTES;
pub use request_limit::{MAX_REQUEST_BYTES, MAX_REQUESTS, RequestLimiter, RequestPermit};
pub use sessions::MAX_SESSIONS;
pub use stdio::{serve_stdio, serve_stdio_until};
pub use tool_list::{DecideCommand, OfferError, OfferedAgents, ToolList};
