//! The parts that the driver of one run works with.

use super::services::{RunHost, RunServices};
use crate::stream::Publisher;
use crate::tools::Toolbox;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The parts that the driver of one run works with.
pub(crate) struct RunParts {
    /// The store, gates, hooks, models and newest tools of the host.
    pub(crate) services: Arc<RunServices>,
    pub(crate) host: Arc<dyn RunHost>,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) publisher: Publisher,
    pub(crate) cancel: CancellationToken,
    pub(crate) run_id: Arc<str>,
    pub(crate) thread_id: Arc<str>,
    /// The epoch in which this process drives the run.
    pub(crate) epoch: u64,
    /// The command that the next commit carries out.
    pub(crate) command: Option<Arc<str>>,
}
