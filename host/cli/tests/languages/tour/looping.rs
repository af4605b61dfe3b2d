//! Tests of features that need an agent: actions, state of a run, a call below another's.

use super::{ALL, all_fault, building};
use crate::built::{LANGUAGES, Language};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tollgate::models::{DeltaSink, ModelFault};
use tollgate::{
    Agent, Composition, Host, Model, RunEnd, RunRequest, ScriptedModel, ScriptedTurn, async_trait,
};
use tollgate_agent::message::{ModelReply, ModelRequest};
use tollgate_agent::run::{CallEnd, Event, RunStatus};

/// A model that keeps the last request.
struct Overheard(ScriptedModel, Arc<Mutex<String>>);

#[async_trait]
impl Model for Overheard {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        *self.1.lock().unwrap() = format!("{:?}", request.messages);
        self.0.reply(request, deltas).await
    }
}

/// Creates an agent whose model plays these turns.
fn agent(id: &str, turns: Vec<ScriptedTurn>) -> Agent {
    Agent::new(id, ScriptedModel::new(turns)).with_tools(["*"])
}

fn turn(language: &Language, arguments: Value) -> ScriptedTurn {
    ScriptedTurn::calls([(language.tour(), arguments)])
}

async fn run(host: &Host, agent: &str) -> RunEnd {
    host.run(RunRequest::new(agent, "Go.")).await.unwrap().wait().await.unwrap()
}

fn data(end: &RunEnd) -> Value {
    match &end.last_call.as_ref().unwrap().end {
        CallEnd::Result(result) if result.is_success() => Value::clone(&result.data),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_asks_in_vain_for_actions_that_are_not_granted() {
    let host = building("").await.build().unwrap();
    for how in ["add-context", "transfer", "escalate"] {
        let (code, words) = all_fault(&host, how, &json!({"what": "act", "how": how})).await;
        assert_eq!(code, "bad_action", "{how}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_leaves_a_note_for_the_model() {
    for language in &LANGUAGES {
        let heard = Arc::new(Mutex::new(String::new()));
        let act = json!({"what": "act", "how": "add-context", "text": "Mind the gap."});
        let recorded = ScriptedModel::new(vec![turn(language, act), ScriptedTurn::text("Done.")]);
        let agent = Agent::new("walker", Overheard(recorded, Arc::clone(&heard))).with_tools(["*"]);
        let host = building(ALL).await.agent(agent).build().unwrap();
        assert_eq!(data(&run(&host, "walker").await), "acted", "{}", language.name);
        // The text occurs in the arguments of the call as well.
        let heard = heard.lock().unwrap();
        let (_, after) = heard.split_once("acted").unwrap();
        assert!(after.contains("Note(") && after.contains("Mind the gap."), "{}: {heard}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_hands_the_conversation_over() {
    for language in &LANGUAGES {
        let act = json!({"what": "act", "how": "transfer", "text": "other"});
        let first = agent("first", vec![turn(language, act)]).with_delegates(["other"]);
        let other = agent("other", vec![ScriptedTurn::text("Here I am.")]);
        let host = building(ALL).await.agent(first).agent(other).build().unwrap();
        assert_eq!(run(&host, "first").await.text, "Here I am.", "{}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_the_loop_around_it() {
    for language in &LANGUAGES {
        let act = json!({"what": "act", "how": "escalate"});
        let one =
            agent("one", vec![ScriptedTurn::text("first"), turn(language, act), ScriptedTurn::text("third")]);
        let rounds = Composition::Loop { agents: vec!["one".to_owned()], max_rounds: 9 };
        let looped = Agent::made_of("looped", rounds);
        let host = building(ALL).await.agent(one).agent(looped).build().unwrap();
        let end = run(&host, "looped").await;
        assert_eq!(end.status, Some(RunStatus::Completed), "{}", language.name);
        assert_eq!(end.usage.children.runs, 2, "{}: it ends in its second round", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_finds_the_state_of_its_run_and_is_told_whose_it_is() {
    for language in &LANGUAGES {
        let turns = vec![
            turn(language, json!({"what": "reduce", "text": "somebody"})),
            turn(language, json!({"what": "read"})),
            ScriptedTurn::text(format!("{{{{{}}}}}", language.tour())),
        ];
        let host = building(ALL).await.agent(agent("walker", turns)).build().unwrap();
        assert_eq!(data(&run(&host, "walker").await)["passing"], "somebody", "{}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_is_told_of_the_call_above_it() {
    for language in &LANGUAGES {
        let tour = language.tour();
        let below =
            vec![turn(language, json!({"what": "context"})), ScriptedTurn::text(format!("{{{{{tour}}}}}"))];
        let below = agent("below", below)
            .with_description("Asks who it is.")
            .with_delegates(["above"])
            .offered_as("ask_below");
        let ask = ScriptedTurn::default().with_call("asks-1", "ask_below", json!({"request": "Who?"}));
        let above = agent("above", vec![ask, ScriptedTurn::text("{{ask_below/response}}")]);
        let host = building(ALL).await.agent(below).agent(above).build().unwrap();
        let end = run(&host, "above").await;
        let told: Value = serde_json::from_str(&end.text).unwrap();
        let agent = json!({"id": "below", "description": "Asks who it is.", "delegates": ["above"]});
        assert_eq!(told["agent"], agent, "{}", language.name);
        let parent = json!({"run": &*end.run_id, "thread": &*end.thread_id, "call": "asks-1"});
        assert_eq!(told["parent"], parent, "{}", language.name);
        assert_eq!((&told["tool"], &told["timely"]), (&json!(tour), &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k14_every_language_runs_other_agents_and_reads_how_they_end() {
    let grants = r#"delegates = [{ agent = "scout" }, { agent = "mute" }]"#;
    for language in &LANGUAGES {
        let scout = vec![
            turn(language, json!({"what": "echo"})).with_text("Let me look. "),
            ScriptedTurn::text("Here it is."),
        ];
        let calls = ["scout", "mute", "stranger"]
            .map(|agent| turn(language, json!({"what": "child", "text": agent, "how": "Look."})));
        let front = agent("front", [calls.to_vec(), vec![ScriptedTurn::text("Done.")]].concat());
        let host = building(grants).await.agent(front).agent(agent("scout", scout));
        let host =
            host.agent(agent("mute", Vec::new())).agent(agent("stranger", Vec::new())).build().unwrap();
        let end = run(&host, "front").await;
        let events = host.store().events(&end.run_id, 0).await.unwrap();
        let ends: Vec<Value> = events
            .iter()
            .filter_map(|event| match &event.event {
                Event::CallFinished(finished) => Some(json!(finished.end)),
                _ => None,
            })
            .collect();
        let name = language.name;
        let data = json!({"response": "Here it is.", "streamed": "Let me look. Here it is.", "steps": 2});
        assert_eq!(ends[0]["result"]["data"], data, "{name}");
        let fault = |at: usize| (ends[at]["fault"]["code"].clone(), ends[at]["fault"]["message"].to_string());
        let (code, words) = fault(1);
        assert!(
            code == "tool_failed" && words.contains("The child agent failed: "),
            "{name}: {code} {words}"
        );
        let (code, words) = fault(2);
        assert!(
            code == "tool_denied" && words.contains("`stranger` is not granted"),
            "{name}: {code} {words}"
        );
    }
}
