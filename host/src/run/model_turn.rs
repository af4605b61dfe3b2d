//! The request to the model at each turn, built from the tools served then and from the agent
//! that the run belongs to then.

use super::attempt::{ModelResources, ask, ask_with_hooks};
use super::conversation_memory::AnswerMemory;
use super::driver::Driver;
use super::hooks::HookContext;
use crate::store::{Store, StoreErrorKind};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::limit_places::LimitScope;
use tollgate_agent::message::ModelRequest;
use tollgate_agent::prompt;
use tollgate_agent::run::Input;
use tollgate_sandbox::MemoryBudget;

/// The pause before a store that cannot be used is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until a request may be sent to the model.
///
/// # Errors
/// There is no memory for the answers to calls in the run's conversation.
async fn until_ready(answers: &AnswerMemory, budget: &MemoryBudget, store: &dyn Store) -> Result<(), String> {
    answers.reserve(budget).await?;
    until_admitted(store).await;
    Ok(())
}

/// Waits while the store cannot be used: a turn whose reply could not be recorded is paid for in vain. If
/// another process may drive the run meanwhile, this one [stops](super::RunStops) it.
async fn until_admitted(store: &dyn Store) {
    while let Err(why) = store.admit(None, None, None).await
        && why.kind() == StoreErrorKind::Unavailable
    {
        tokio::time::sleep(PAUSE).await;
    }
}

impl Driver {
    /// Switches to the newest toolbox when a turn of the model begins. No call is in flight then,
    /// so all attempts of one call, and all calls of one turn, use one version.
    pub(super) fn take_up_toolbox(&mut self) {
        let newest = self.parts.services.tools.current();
        if !Arc::ptr_eq(&newest, &self.parts.toolbox) {
            self.parts.toolbox = newest;
            self.tool_specs = None;
        }
    }

    pub(super) fn ask_model(&mut self, number: u32) -> BoxFuture<'static, Input> {
        let answers = self.answers.clone();
        let request = self.request();
        let store = Arc::clone(&self.parts.services.store);
        let model = self.parts.services.model_of(&self.run.spec().identity.agent_id);
        let resources = model.map(|model| ModelResources {
            model,
            memory_budget: self.parts.services.memory_budget.clone(),
            replies: self.replies.clone(),
            publisher: self.parts.publisher.clone(),
        });
        match resources {
            Some(resources) if self.parts.services.hooks.has_model_hooks() => {
                let context =
                    HookContext::new(&self.parts.services.hooks, self.parts.toolbox.catalog(), &self.run);
                Box::pin(async move {
                    if let Err(error) = until_ready(&answers, &resources.memory_budget, &*store).await {
                        return Input::ModelFailed { ask: number, error };
                    }
                    ask_with_hooks(context, resources, request, number).await
                })
            }
            Some(resources) => Box::pin(async move {
                if let Err(error) = until_ready(&answers, &resources.memory_budget, &*store).await {
                    return Input::ModelFailed { ask: number, error };
                }
                ask(resources, request, number).await
            }),
            None => {
                let place = self.parts.toolbox.catalog().limit_places().of(LimitScope::Model);
                let error = format!("the agent has no model; configure one for it{place}");
                Box::pin(std::future::ready(Input::ModelFailed { ask: number, error }))
            }
        }
    }

    fn request(&mut self) -> ModelRequest {
        let catalog = self.parts.toolbox.catalog();
        let spec = Arc::clone(self.run.spec());
        let tools = match &self.tool_specs {
            Some((agent, specs)) if *agent == spec.identity.agent_id && self.run.filter().is_open() => {
                Arc::clone(specs)
            }
            _ => Arc::new(self.run.tool_specs(catalog)),
        };
        if self.run.filter().is_open() {
            self.tool_specs = Some((spec.identity.agent_id.clone(), Arc::clone(&tools)));
        }
        ModelRequest {
            system: prompt::fill(&spec.agent.system(), catalog, &spec.agent, self.run.state()),
            messages: self.history.shown(self.run.messages(), spec.limits.history_bytes),
            tools,
            memory: None,
        }
    }
}
