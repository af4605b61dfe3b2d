//! Tests of hooks of plugins through whole hosts: their inputs, their permitted effects, and that
//! they are asked once.

mod durable;
pub(crate) mod plugin;

use crate::place::StoreAt;
use crate::with_each_store;
use crate::world::host_with;
use plugin::{Diary, Keeper};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::models::ScriptedTurn;
use tollgate::plugins::{
    BeforeModel, Effects, HookError, HookPoints, HookedCall, HookedTurn, Hooks, Parts, Plugin, async_trait,
};
use tollgate::run::{RunEnd, RunEvent};
use tollgate::tools::NativePlugin;
use tollgate::{Agent, CallRequest, Host, RunRequest, ScriptedModel};
use tollgate_agent::code::Code;
use tollgate_agent::gate::permissions::{DefaultRule, Permissions};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::outcome::ToolResult;
use tollgate_agent::run::{CallEnd, Event, RunStatus};

async fn run(host: &Host) -> RunEnd {
    host.run(RunRequest::new("default", "go").on_thread("t")).await.unwrap().wait().await.unwrap()
}

async fn events(host: &Host, end: &RunEnd) -> Vec<Event> {
    host.store().events(&end.run_id, 0).await.unwrap().iter().map(|event| event.event.clone()).collect()
}

/// Returns how the calls of a run ended, in order.
async fn codes(host: &Host, end: &RunEnd) -> Vec<Option<Code>> {
    let codes = events(host, end).await.into_iter().filter_map(|event| match event {
        Event::CallFinished(finished) => Some((finished.call_id.clone(), finished.end.code())),
        _ => None,
    });
    codes.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Installs hooks as a plugin named `tested`.
struct Tested<H>(H);

impl<H: Hooks + 'static> Plugin for Tested<H> {
    fn name(&self) -> &str {
        "tested"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.hooks(self.0);
    }
}

with_each_store! {
    async fn h1_hooks_add_to_calls_and_commit_with_them(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("add", json!({"n": 2})), ("echo", json!({})), ("nope", json!({}))]),
            ScriptedTurn::text("Done."),
        ];
        let (send, told) = std::sync::mpsc::channel();
        let host = host_with(&store, turns, |builder| {
            let tell = move |happening: &RunEvent| send.send(happening.payload.clone()).unwrap_or_default();
            builder.plugin(Keeper::default()).subscribe("custom", tell)
        });
        let end = run(&host).await;
        assert_eq!(end.status, Some(RunStatus::Completed));
        let state = store.open().thread("t").await.unwrap().state;
        let diary = json!(["before add", "after add: success", "before echo", "after echo: success"]);
        assert_eq!(state.get(<Diary as tollgate::plugins::StateKey>::NAME), Some(&diary));
        assert_eq!(state.get("basics.total"), Some(&json!(2)));
        assert_eq!(state.revision(), 2, "h3: one change for each call");
        for known in 0..2 {
            let event = told.recv_timeout(Duration::from_secs(10)).unwrap();
            assert_eq!((&event["plugin"], &event["data"]), (&json!("keeper"), &json!(known * 2)), "{event}");
        }
    }

    async fn h4_hooks_that_fail_fail_their_calls_alone(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("echo", json!({"how": "errs"})), ("add", json!({"n": 1}))]),
            ScriptedTurn::calls([("echo", json!({"how": "panics"})), ("echo", json!({"how": "hangs"}))]),
            ScriptedTurn::text("Done."),
        ];
        let host = host_with(&store, turns, |builder| {
            builder.plugin(Tested(Fails)).hook_timeout(Duration::from_millis(50))
        });
        let end = run(&host).await;
        let failed = Some(Code::HookFailed);
        assert_eq!(codes(&host, &end).await, [failed, None, failed, failed]);
        assert_eq!(end.status, Some(RunStatus::Completed));
        let recorded = serde_json::to_string(&events(&host, &end).await).unwrap();
        for why in ["on purpose", "it panicked", "it took longer than"] {
            assert!(recorded.contains(why), "{why}");
        }
    }

    async fn h2_hooks_answer_in_the_models_place_with_calls_that_are_made(store: StoreAt) {
        let host = host_with(&store, vec![ScriptedTurn::text("The model's own.")], |builder| builder.plugin(Tested(Answers)));
        let end = run(&host).await;
        assert_eq!(end.text, "The model's own.", "the hook answers the first turn alone");
        assert_eq!(codes(&host, &end).await, [None]);
        let answered = events(&host, &end).await.into_iter().any(|event| {
            matches!(event, Event::ModelHooked { hooked, .. } if hooked.answered_by.as_deref() == Some("tested"))
        });
        assert!(answered);
    }
}

/// Fails in the way that the arguments state.
struct Fails;

#[async_trait]
impl Hooks for Fails {
    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        match call.arguments["how"].as_str() {
            Some("errs") => Err("on purpose".into()),
            Some("panics") => panic!("on purpose"),
            Some("hangs") => std::future::pending().await,
            _ => Ok(Effects::none()),
        }
    }
}

fn says(text: &str) -> ModelReply {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    ModelReply { message, ..ModelReply::default() }
}

/// Answers the first turn with a call.
struct Answers;

#[async_trait]
impl Hooks for Answers {
    async fn before_model(&self, turn: &HookedTurn<'_>, _: &ModelRequest) -> Result<BeforeModel, HookError> {
        let call = ModelCall { name: "echo".to_owned(), arguments: "{}".to_owned(), ..ModelCall::default() };
        let mut answer = says("");
        answer.message.calls = vec![call].into();
        Ok(BeforeModel { answer: (turn.ask == 1).then_some(answer), ..BeforeModel::default() })
    }
}

/// Hides tools from the model, and makes its reply polite.
struct Polite;

#[async_trait]
impl Hooks for Polite {
    async fn before_model(
        &self,
        _: &HookedTurn<'_>,
        request: &ModelRequest,
    ) -> Result<BeforeModel, HookError> {
        let note = Some("Say please.".to_owned());
        let request = ModelRequest { system: Arc::from("Be polite."), ..request.clone() };
        Ok(BeforeModel { request: Some(request), hide: vec!["add".to_owned()], note, answer: None })
    }

    async fn after_model(
        &self,
        _: &HookedTurn<'_>,
        reply: &ModelReply,
    ) -> Result<Option<ModelReply>, HookError> {
        if !reply.message.calls.is_empty() {
            return Ok(None);
        }
        Ok(Some(says(&format!("{} Please.", reply.message.text))))
    }
}

/// A second plugin, which sees the request as the first one changed it.
struct Watches(Arc<Mutex<Vec<ModelRequest>>>);

impl Plugin for Watches {
    fn name(&self) -> &str {
        "watches"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.hooks(*self);
    }
}

#[async_trait]
impl Hooks for Watches {
    fn points(&self) -> HookPoints {
        HookPoints { before_model: true, ..HookPoints::NONE }
    }

    async fn before_model(
        &self,
        _: &HookedTurn<'_>,
        request: &ModelRequest,
    ) -> Result<BeforeModel, HookError> {
        self.0.lock().unwrap().push(request.clone());
        Ok(BeforeModel::default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_hooks_change_requests_hide_tools_add_notes_and_change_replies() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let turns = vec![ScriptedTurn::calls([("add", json!({"n": 1}))]), ScriptedTurn::text("Give.")];
    let watches = Watches(Arc::clone(&asked));
    let host = host_with(&StoreAt::memory(), turns, |builder| builder.plugin(Tested(Polite)).plugin(watches));
    let end = run(&host).await;
    assert_eq!(end.text, "Give. Please.");
    assert_eq!(codes(&host, &end).await, [Some(Code::NotFound)], "a hidden tool that is called anyway");
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!(&*asked[0].system, "Be polite.");
    let note = "Note left by the plugin 'tested':\nSay please.";
    assert_eq!(
        asked[0].messages.last(),
        Some(&Message::Note(note.to_owned())),
        "a10: after the system prompt"
    );
    assert!(!asked[0].tools.iter().any(|tool| tool.name == "add"));
    let notes = asked[1].messages.iter().filter(|message| matches!(message, Message::Note(_))).count();
    assert_eq!(notes, 1, "a note is for its turn");
    let kept = host.store().thread("t").await.unwrap().messages;
    assert!(!kept.iter().any(|message| matches!(message, Message::Note(_))));
    let first = events(&host, &end).await.into_iter().any(|event| {
        matches!(event, Event::ModelHooked { hooked, .. } if hooked.first_reply.as_ref().is_some_and(|r| r.message.text == "Give."))
    });
    assert!(first, "the record keeps what the model replied");
}

/// Adds one part of each kind.
struct Brings(&'static str, fn(&mut Parts));

impl Plugin for Brings {
    fn name(&self) -> &str {
        self.0
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        (self.1)(parts);
    }
}

#[test]
fn h5_what_two_plugins_both_bring_is_an_error_that_names_both() {
    fn gate(parts: &mut Parts) {
        parts.gate(Permissions::new(DefaultRule::Allow));
    }
    fn key(parts: &mut Parts) {
        parts.state::<Diary>();
    }
    fn tool(parts: &mut Parts) {
        parts.tool(crate::world::echo());
    }
    for (what, bring) in [("gate", gate as fn(&mut Parts)), ("state key", key), ("tool", tool)] {
        let built = Host::builder().plugin(Brings("keeper", bring)).plugin(Brings("other", bring)).build();
        let words = built.err().unwrap().to_string();
        assert!(words.contains("\"keeper\" and \"other\"") && words.contains(what), "{words}");
    }
    let nothing = |_: &mut Parts| {};
    let twice = Host::builder().plugin(Brings("keeper", nothing)).plugin(Brings("keeper", nothing)).build();
    assert!(twice.err().unwrap().to_string().contains("\"keeper\""));
    for bad in ["Keeper", "", "host", "a b"] {
        assert!(Host::builder().plugin(Brings(bad, nothing)).build().is_err(), "{bad}");
    }
    let foreign = Host::builder().plugin(Brings("other", key)).build();
    assert!(foreign.err().unwrap().to_string().contains("keeper.diary"), "a key belongs to its plugin");
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_plugin_stays_installed_whatever_toolbox_is_published() {
    let host = host_with(&StoreAt::memory(), Vec::new(), |builder| builder.plugin(Keeper::default()));
    host.publish(tollgate::tools::Toolbox::default()).unwrap();
    let end = host.call(CallRequest::from_json("leaf", "{}").on_thread("t")).await.unwrap();
    assert_eq!(end.last_call.unwrap().end.code(), None);
    let diary = json!(["before leaf", "after leaf: success"]);
    assert_eq!(host.store().thread("t").await.unwrap().state.get("keeper.diary"), Some(&diary));
    let taken = host.update_toolbox(|toolbox| NativePlugin::new("keeper").install(toolbox));
    assert!(taken.is_err());
}

#[test]
fn h4_a_time_for_hooks_has_bounds() {
    for bad in [Duration::ZERO, Duration::from_secs(301)] {
        assert!(Host::builder().hook_timeout(bad).build().is_err());
    }
}

/// Replaces every end with a result.
struct Replaces;

#[async_trait]
impl Hooks for Replaces {
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        let own = call.end.and_then(CallEnd::code).map_or("success", Code::as_str);
        Ok(Effects::none().replace(ToolResult::success(format!("was {own}"))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h1_a_result_is_replaced_and_the_model_reads_that() {
    let turns = vec![ScriptedTurn::calls([("echo", json!({}))]), ScriptedTurn::text("Done.")];
    let host = host_with(&StoreAt::memory(), turns, |builder| builder.plugin(Tested(Replaces)));
    run(&host).await;
    let messages = host.store().thread("t").await.unwrap().messages;
    let read = messages.iter().find_map(|message| match message {
        Message::Answer(answer) => Some(answer.content.to_string()),
        _ => None,
    });
    assert_eq!(read.as_deref(), Some("was success"));
}

/// Counts where it is asked.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u32>>>);

impl Counts {
    fn count(&self, what: &str) {
        *self.0.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }
}

#[async_trait]
impl Hooks for Counts {
    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        self.count(&format!("before {} of {}", call.tool_name, call.agent.id));
        Ok(Effects::none())
    }

    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        self.count(&format!("after {} of {}", call.tool_name, call.agent.id));
        Ok(Effects::none())
    }

    async fn before_model(&self, turn: &HookedTurn<'_>, _: &ModelRequest) -> Result<BeforeModel, HookError> {
        self.count(&format!("before {}", turn.agent.id));
        Ok(BeforeModel::default())
    }

    async fn after_model(
        &self,
        turn: &HookedTurn<'_>,
        _: &ModelReply,
    ) -> Result<Option<ModelReply>, HookError> {
        self.count(&format!("after {}", turn.agent.id));
        Ok(None)
    }
}

/// Hooks of one agent, as a plugin.
struct Attached(Counts);

impl Plugin for Attached {
    fn name(&self) -> &str {
        "attached"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.hooks_of("second", self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_hooks_of_one_agent_run_for_it_alone() {
    let (of_agent, of_plugin) = (Counts::default(), Counts::default());
    let turns =
        || ScriptedModel::new(vec![ScriptedTurn::calls([("echo", json!({}))]), ScriptedTurn::text("Done.")]);
    let agent = |id: &str| Agent::new(id, turns()).with_tools(["*"]);
    let host = Host::builder()
        .toolbox(crate::world::toolbox())
        .agent(agent("first").with_hooks(of_agent.clone()))
        .agent(agent("second"))
        .plugin(Attached(of_plugin.clone()))
        .build()
        .unwrap();
    for id in ["first", "second"] {
        host.run(RunRequest::new(id, "go")).await.unwrap().wait().await.unwrap();
    }
    let of = |id: &str| {
        let counts = [(format!("before {id}"), 2), (format!("after {id}"), 2)];
        let calls = ["before", "after"].map(|point| (format!("{point} echo of {id}"), 1));
        counts.into_iter().chain(calls).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(*of_agent.0.lock().unwrap(), of("first"));
    assert_eq!(*of_plugin.0.lock().unwrap(), of("second"));
}
