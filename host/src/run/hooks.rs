//! Hooks of plugins, called one after another, each with a time limit.

use crate::plugins::{
    BeforeModel, Effects, HookError, HookPoints, HookedCall, HookedTurn, InstalledHooks, StateView,
};
use crate::store::now_ms;
use futures::FutureExt;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::catalog::Catalog;
use tollgate_agent::hook::{HookAnswer, ModelHooked};
use tollgate_agent::message::{Message, ModelReply, ModelRequest};
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::{CallEnd, EndedCall, Input, Question, Run, RunSpec};
use tollgate_agent::state::{Access, Snapshot};
use tollgate_agent::text::clean;

/// The maximum size of a note from a hook before the model, in bytes; longer notes are cut.
const MAX_NOTE_BYTES: usize = 16 * 1024;

/// The hooks of every plugin, in the order of installation. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HookSet {
    hooks: Arc<[InstalledHooks]>,
    timeout: Duration,
}

impl HookSet {
    pub(crate) fn new(hooks: Vec<InstalledHooks>, timeout: Duration) -> Self {
        Self { hooks: hooks.into(), timeout }
    }

    fn at(&self, point: impl Fn(HookPoints) -> bool) -> impl Iterator<Item = &InstalledHooks> {
        self.hooks.iter().filter(move |installed| point(installed.points))
    }

    /// Returns whether any hook runs before or after turns of the model.
    pub(super) fn has_model_hooks(&self) -> bool {
        self.at(|points| points.before_model || points.after_model).next().is_some()
    }

    /// Awaits one hook; returns the reason if it failed.
    async fn within<T>(&self, hook: impl Future<Output = Result<T, HookError>>) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, AssertUnwindSafe(hook).catch_unwind()).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(why))) => Err(why.to_string()),
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(_) => Err(format!("it took longer than {:?}", self.timeout)),
        }
    }
}

/// The context of the run shown to hooks, besides the call or turn.
pub(super) struct HookContext {
    panel: HookSet,
    catalog: Arc<Catalog>,
    spec: Arc<RunSpec>,
    snapshot: Snapshot,
}

impl HookContext {
    pub(super) fn new(panel: &HookSet, catalog: &Arc<Catalog>, run: &Run) -> Self {
        Self {
            panel: panel.clone(),
            catalog: Arc::clone(catalog),
            spec: Arc::clone(run.spec()),
            snapshot: run.state().snapshot(),
        }
    }

    /// Returns the answers of the hooks before a call.
    pub(super) async fn before_call(&self, question: &Question) -> Vec<HookAnswer> {
        let proposal = &question.proposal;
        let (tool, nothing) = (proposal.tool(), Access::default());
        let mut answers = Vec::new();
        for installed in self.panel.at(|points| points.before_call) {
            let call = HookedCall {
                call_id: proposal.call_id(),
                tool_name: &tool.descriptor.name,
                owner_id: Some(&tool.owner.id),
                arguments: proposal.arguments().value(),
                identity: &self.spec.identity,
                agent: &self.spec.agent.view,
                state: self.state(installed, &nothing),
                now_ms: now_ms(),
                end: None,
                usage: Usage::default(),
            };
            let answer = self.panel.within(installed.hooks.before_call(&call)).await;
            answers.push(answered(installed, answer));
        }
        answers
    }

    /// Returns the answers of the hooks after a call. Each hook sees the result as changed by the
    /// hooks before it.
    pub(super) async fn after_call(self, ended: EndedCall) -> Input {
        let mut end = ended.ending.end.clone();
        let (nothing, none) = (Access::default(), Value::Null);
        let mut answers = Vec::new();
        for installed in self.panel.at(|points| points.after_call) {
            let call = HookedCall {
                call_id: &ended.call_id,
                tool_name: &ended.tool_name,
                owner_id: ended.version.as_ref().map(|version| version.id.as_str()),
                arguments: ended.arguments.as_ref().map_or(&none, |arguments| arguments.value()),
                identity: &self.spec.identity,
                agent: &self.spec.agent.view,
                state: self.state(installed, &nothing),
                now_ms: now_ms(),
                end: Some(&end),
                usage: ended.usage,
            };
            let answer = answered(installed, self.panel.within(installed.hooks.after_call(&call)).await);
            if let Some(result) = answer.result.as_ref().filter(|_| ended.ending.may_be_replaced()) {
                end = CallEnd::Result(Arc::new((**result).clone()));
            }
            answers.push(answer);
        }
        Input::Hooked { call_id: ended.call_id, answers }
    }

    fn state<'a>(&'a self, installed: &InstalledHooks, nothing: &'a Access) -> StateView<'a> {
        let owner = self.catalog.hook_owner(&installed.plugin);
        let access = owner.map_or(nothing, |owner| owner.access.as_ref());
        StateView { snapshot: &self.snapshot, keys: self.catalog.keys(), access }
    }

    fn turn<'a>(&'a self, installed: &InstalledHooks, nothing: &'a Access, ask: u32) -> HookedTurn<'a> {
        HookedTurn {
            identity: &self.spec.identity,
            agent: &self.spec.agent.view,
            ask,
            state: self.state(installed, nothing),
            now_ms: now_ms(),
        }
    }

    /// Returns the request after the hooks before the model, and the reply if one of them
    /// replaced it.
    pub(super) async fn before_model(
        &self,
        mut request: ModelRequest,
        ask: u32,
        hooked: &mut ModelHooked,
    ) -> (ModelRequest, Option<ModelReply>) {
        let nothing = Access::default();
        let offered: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut reply = None;
        for installed in self.panel.at(|points| points.before_model) {
            let turn = self.turn(installed, &nothing, ask);
            let said = self.panel.within(installed.hooks.before_model(&turn, &request)).await;
            match said {
                Ok(said) => reply = change(&mut request, said, &installed.plugin, hooked),
                Err(why) => failed(hooked, &installed.plugin, &why),
            }
            if reply.is_some() {
                hooked.answered_by = Some(installed.plugin.to_string());
                break;
            }
        }
        let is_told = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
        hooked.hidden = offered.into_iter().filter(|name| !is_told(name)).collect();
        (request, reply)
    }

    /// Returns the reply after the hooks after the model.
    pub(super) async fn after_model(
        &self,
        mut reply: ModelReply,
        ask: u32,
        hooked: &mut ModelHooked,
    ) -> ModelReply {
        let nothing = Access::default();
        for installed in self.panel.at(|points| points.after_model) {
            let turn = self.turn(installed, &nothing, ask);
            match self.panel.within(installed.hooks.after_model(&turn, &reply)).await {
                Ok(Some(mut changed)) if changed != reply => {
                    // A hook changes the words. The model that was asked stays the same.
                    changed.model.clone_from(&reply.model);
                    let first = std::mem::replace(&mut reply, changed);
                    hooked.first_reply.get_or_insert_with(|| Arc::new(first));
                    hooked.reply_changed_by.push(installed.plugin.to_string());
                }
                Ok(_) => {}
                Err(why) => failed(hooked, &installed.plugin, &why),
            }
        }
        reply
    }
}

fn answered(installed: &InstalledHooks, answer: Result<Effects, String>) -> HookAnswer {
    match answer {
        Ok(effects) => effects.into_answer(&installed.plugin),
        Err(why) => HookAnswer::failed(&*installed.plugin, &why),
    }
}

/// Applies a hook's answer to a request; returns the reply if the answer is one.
fn change(
    request: &mut ModelRequest,
    said: BeforeModel,
    plugin: &str,
    hooked: &mut ModelHooked,
) -> Option<ModelReply> {
    if let Some(changed) = said.request {
        *request = changed;
        hooked.request_changed_by.push(plugin.to_owned());
    }
    if said.hide.iter().any(|name| request.tools.iter().any(|tool| tool.name == *name)) {
        Arc::make_mut(&mut request.tools).retain(|tool| !said.hide.contains(&tool.name));
    }
    if let Some(note) = said.note {
        let note = format!("Note left by the plugin '{plugin}':\n{}", clean(&note, MAX_NOTE_BYTES));
        Arc::make_mut(&mut request.messages).push(Message::Note(note.clone()));
        hooked.notes.push(note);
    }
    said.answer
}

fn failed(hooked: &mut ModelHooked, plugin: &str, why: &str) {
    tracing::warn!("a hook of the plugin {plugin} around the model failed: {}", clean(why, 500));
    let why = HookAnswer::failed(plugin, why).failed.unwrap_or_default();
    hooked.failed.insert(plugin.to_owned(), why);
}
