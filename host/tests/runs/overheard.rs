//! A recorded model that keeps its requests, as a provider would receive them.

use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use tollgate::models::{DeltaSink, ModelFault};
use tollgate::{Model, ScriptedModel, ScriptedTurn};
use tollgate_agent::message::{ModelReply, ModelRequest};

/// The model. Clones share the kept requests.
#[derive(Clone)]
pub(crate) struct Overheard {
    model: Arc<ScriptedModel>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Overheard {
    pub(crate) fn new(turns: Vec<ScriptedTurn>) -> Self {
        Self { model: Arc::new(ScriptedModel::new(turns)), requests: Arc::default() }
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl Model for Overheard {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        self.requests.lock().unwrap().push(request.clone());
        self.model.reply(request, deltas).await
    }
}
