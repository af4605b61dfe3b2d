//! Recorded runs of a scripted agent, for the tests of encoders. Host, gates, tools and store are
//! real.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::{Encode, FeedEnd};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::time::Duration;
use tollgate::models::{ModelFault, RetryPolicy, RetryingModel};
use tollgate::plugins::{Effects, HookError, HookedCall, Hooks, Parts, Plugin, StateKey};
use tollgate::run::LiveUpdate;
use tollgate::tools::{ProgressStatus, Report};
use tollgate::{
    Agent, Decision, FnTool, FollowUntil, Gate, Host, HostBuilder, LiveContent, ProposedCall, RunEnd,
    RunRequest, RunUpdate, ScriptedModel, ScriptedTurn, Ticket, ToolContext, ToolResult, Verdict,
    async_trait,
};
use tollgate_agent::message::{Finish, TokenUsage};
use tollgate_agent::outcome::ResumeMode;
use tollgate_agent::run::{Event, RunLimits};
use tollgate_agent::state::KeyScope;

/// A run with everything that its client received.
pub(crate) struct Recording {
    pub(crate) run_id: String,
    /// The updates, up to each rest of the run.
    pub(crate) segments: Vec<Vec<RunUpdate>>,
}

impl Recording {
    pub(crate) fn all(&self) -> Vec<RunUpdate> {
        self.segments.concat()
    }

    /// Returns how the last segment ends.
    pub(crate) fn end(updates: &[RunUpdate]) -> FeedEnd {
        match updates.last() {
            Some(RunUpdate::Stored(last)) if matches!(last.event, Event::RunWaiting) => FeedEnd::Waiting,
            _ => FeedEnd::Finished,
        }
    }
}

/// Asks about `delete`, and blocks `forbidden`.
struct Guard;

#[async_trait]
impl Gate for Guard {
    fn id(&self) -> &str {
        "guard"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        match call.tool.descriptor.name.as_str() {
            "forbidden" => Verdict::Block("it is forbidden".to_owned()),
            "delete" => Verdict::Suspend(Box::new(Ticket {
                action: "permit".to_owned(),
                message: "May it delete this?".to_owned(),
                parameters: Value::Null,
                response_schema: Some(json!({"const": true})),
                resume_mode: ResumeMode::ReplayToolCall,
            })),
            _ => Verdict::Allow,
        }
    }
}

/// A list in the thread's state, and a hook that reports each call of `count` as an event.
struct Tally;

struct Texts;

impl StateKey for Texts {
    const NAME: &'static str = "tally.texts";
    const COMMUTES: bool = true;
    const SCOPE: KeyScope = KeyScope::Thread;
    type Value = Vec<String>;
    type Update = String;

    fn apply(texts: &mut Vec<String>, text: String) {
        texts.push(text);
    }
}

impl Plugin for Tally {
    fn name(&self) -> &str {
        "tally"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        parts.state::<Texts>().hooks(Tally);
    }
}

#[async_trait]
impl Hooks for Tally {
    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        if call.tool_name != "note" {
            return Ok(Effects::none());
        }
        Ok(Effects::none().update::<Texts>("noted".to_owned()).event("noted", json!({"by": "tally"})))
    }
}

async fn note(_: Value, call: ToolContext) -> Value {
    let content = json!({"lines": []}).to_string();
    call.report(Report::Activity { kind: "page".to_owned(), content });
    let patch = json!([{"op": "add", "path": "/lines/-", "value": "one"}]);
    call.report(Report::ActivityDelta { kind: "page".to_owned(), patch });
    // The reports are sent before the call ends.
    tokio::time::sleep(Duration::from_millis(20)).await;
    json!("noted")
}

async fn count(arguments: Value, call: ToolContext) -> Value {
    call.report(Report::Progress {
        status: ProgressStatus::Running,
        message: Some("counting".to_owned()),
        progress: Some(0.5),
    });
    call.report(Report::Output("4 ".to_owned()));
    // The reports are sent before the call ends.
    tokio::time::sleep(Duration::from_millis(20)).await;
    json!({"words": arguments["text"].as_str().unwrap_or_default().split_whitespace().count()})
}

async fn ask(arguments: Value, call: ToolContext) -> ToolResult {
    match call.resumption() {
        Some(resumption) => ToolResult::success(resumption.value.clone()),
        None => ToolResult::suspended_with(Ticket {
            action: "approve".to_owned(),
            message: arguments["question"].as_str().unwrap_or("Sure?").to_owned(),
            parameters: Value::Null,
            response_schema: Some(json!({"type": "object", "required": ["approved"]})),
            resume_mode: ResumeMode::ReplayToolCall,
        }),
    }
}

/// Returns a host with the agent `clerk`, which plays these turns, and its helper `scout`.
pub(crate) fn host(turns: Vec<ScriptedTurn>) -> Host {
    builder(turns, RunLimits::default()).build().unwrap()
}

fn builder(turns: Vec<ScriptedTurn>, limits: RunLimits) -> HostBuilder {
    let policy = RetryPolicy { first_pause_ms: 1, ..RetryPolicy::default() };
    // A drawn run asks it several times.
    let scout = ScriptedModel::new(vec![ScriptedTurn::text("Found it."); 20]);
    Host::builder()
        .tool(FnTool::new("count", "count", "Counts words.", count))
        .tool(FnTool::new("note", "note", "Notes.", note))
        .tool(FnTool::new("ask", "ask", "Asks a person.", ask))
        .tool(FnTool::new("delete", "delete", "Deletes.", |_: Value, _| async { "deleted" }))
        .tool(FnTool::new("forbidden", "forbidden", "Never runs.", |_: Value, _| async { "no" }))
        .tool(FnTool::new("fails", "fails", "Fails.", |_: Value, _| async { Err::<String, _>("it broke") }))
        .gate(Guard)
        .agent(Agent::new("scout", scout).offered_as("scout"))
        .agent(
            Agent::new("clerk", RetryingModel::new(ScriptedModel::new(turns), policy))
                .with_tools(["*"])
                .with_limits(limits),
        )
}

/// Records a run of these turns. Whenever it waits, `decide` answers its questions.
pub(crate) async fn record(turns: Vec<ScriptedTurn>, decide: impl Fn(&RunEnd) -> Decision) -> Recording {
    record_with(host(turns), decide).await
}

async fn record_with(host: Host, decide: impl Fn(&RunEnd) -> Decision) -> Recording {
    let mut handle = host.run(RunRequest::new("clerk", "Go.").on_thread("ada/t")).await.unwrap();
    let run_id = handle.run_id.to_string();
    let mut segments = Vec::new();
    loop {
        let mut updates = Vec::new();
        while let Some(update) = handle.events.next().await {
            updates.push(update);
        }
        segments.push(updates);
        let end = handle.wait().await.unwrap();
        if end.waiting.is_empty() {
            return Recording { run_id, segments };
        }
        handle = host.decide(&run_id, decide(&end)).await.unwrap();
    }
}

fn usage(input_tokens: u64, output_tokens: u64) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens }
}

/// Text and reasoning around a call that reports its progress, and one that fails.
pub(crate) async fn calls() -> Recording {
    let turns = vec![
        ScriptedTurn::calls([("count", json!({"text": "never say never again"})), ("fails", json!({}))])
            .with_reasoning("I should count.")
            .with_text("Let me count.")
            .with_usage(usage(10, 5)),
        ScriptedTurn::text("There are 4 words.").with_usage(usage(20, 6)),
    ];
    record(turns, |_| panic!("nothing waits")).await
}

/// Two parallel questions, one of a gate and one of a tool. The gate's is answered first.
pub(crate) async fn questions() -> Recording {
    let turns = vec![
        ScriptedTurn::default()
            .with_call("d", "delete", json!({"id": 7}))
            .with_call("a", "ask", json!({"question": "Publish it?"}))
            .with_text("One moment."),
        ScriptedTurn::text("Both are done."),
    ];
    let decide = |end: &RunEnd| {
        let asked = end.waiting.iter().find(|asked| asked.gate.is_some()).unwrap_or(&end.waiting[0]);
        match asked.gate {
            Some(_) => Decision::resume(&asked.suspension_id, true),
            None => Decision::resume(&asked.suspension_id, json!({"approved": true})),
        }
    };
    record(turns, decide).await
}

/// A question that a person answers with no.
pub(crate) async fn refusal() -> Recording {
    let turns = vec![ScriptedTurn::calls([("delete", json!({}))]), ScriptedTurn::text("I did not.")];
    let no = |end: &RunEnd| Decision::cancel(&end.waiting[0].suspension_id).because("not today");
    record(turns, no).await
}

/// A reply that breaks off and starts anew.
pub(crate) async fn restart() -> Recording {
    let broken = ScriptedTurn::fault(ModelFault::transient("the connection broke", None));
    let turns = vec![broken.with_text("The answer is 41"), ScriptedTurn::text("The answer is 42.")];
    record(turns, |_| panic!("nothing waits")).await
}

/// A call of another agent.
pub(crate) async fn child() -> Recording {
    let turns = vec![
        ScriptedTurn::calls([("scout", json!({"request": "Where is it?"}))]),
        ScriptedTurn::text("It was found."),
    ];
    record(turns, |_| panic!("nothing waits")).await
}

/// Calls that change the visible state, show an activity and raise an event, then a question.
pub(crate) async fn state() -> Recording {
    let turns = vec![
        ScriptedTurn::calls([("note", json!({}))]),
        ScriptedTurn::calls([("note", json!({})), ("delete", json!({}))]),
        ScriptedTurn::text("Noted."),
    ];
    let builder = builder(turns, RunLimits::default()).plugin(Tally).visible_keys(["tally.*"]);
    let yes = |end: &RunEnd| Decision::resume(&end.waiting[0].suspension_id, true);
    record_with(builder.build().unwrap(), yes).await
}

/// A run that a gate ends.
pub(crate) async fn blocked() -> Recording {
    record(vec![ScriptedTurn::calls([("forbidden", json!({}))])], |_| panic!("nothing waits")).await
}

/// A run whose model fails.
pub(crate) async fn failed() -> Recording {
    let turns = vec![ScriptedTurn::fault(ModelFault::permanent("The quota is used up."))];
    record(turns, |_| panic!("nothing waits")).await
}

/// Records how a run of each end ends: its name, with what its client received.
pub(crate) async fn ends() -> Vec<(&'static str, Recording)> {
    let none = |_: &RunEnd| panic!("nothing waits");
    let cut = |finish| vec![ScriptedTurn::text("Half of").with_finish(finish); 8];
    // One turn, whose calls leave no room for an answer.
    let limits = RunLimits { model_turns: 1, ..RunLimits::default() };
    let stopped = vec![ScriptedTurn::calls([("count", json!({"text": "a"}))]).with_text("Let me see.")];
    vec![
        ("completed", record(vec![ScriptedTurn::text("Fine.")], none).await),
        ("length", record(cut(Finish::Length), none).await),
        ("filtered", record(cut(Finish::Filtered), none).await),
        ("stopped", record_with(builder(stopped, limits).build().unwrap(), none).await),
        ("cancelled", cancelled().await),
        ("blocked", blocked().await),
        ("failed", failed().await),
    ]
}

/// A run that its client cancels while it waits.
async fn cancelled() -> Recording {
    let host = host(vec![ScriptedTurn::calls([("delete", json!({}))]).with_text("One moment.")]);
    let mut handle = host.run(RunRequest::new("clerk", "Go.").on_thread("ada/t")).await.unwrap();
    let run_id = handle.run_id.to_string();
    while handle.events.next().await.is_some() {}
    handle.wait().await.unwrap();
    host.cancel(&run_id, Some("the user left".to_owned())).await.unwrap();
    let mut follower = host.follow_until(&run_id, 0, FollowUntil::End).await.unwrap();
    let mut updates = Vec::new();
    while let Some(update) = follower.next().await.unwrap() {
        updates.push(update);
    }
    Recording { run_id, segments: vec![updates] }
}

/// The number of runs that a property is tried with.
const DRAWN: u64 = 12;

/// Pseudo-random numbers, which are the same in each test run.
struct Draw(u64);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap_or_default()]
    }
}

/// Records runs of drawn shapes: turns with text of several scripts, reasoning, calls, children, questions of
/// a gate and of a tool with drawn answers, and replies that start anew if `restarts`.
pub(crate) async fn drawn(restarts: bool) -> Vec<Recording> {
    let mut recordings = Vec::new();
    for seed in 1..=DRAWN {
        let answers = RefCell::new(Draw::new(!seed));
        let decide = |end: &RunEnd| drawn_decision(&mut answers.borrow_mut(), end);
        recordings.push(record(drawn_turns(seed, restarts), decide).await);
    }
    let decisions = recordings.iter().map(|recording| recording.segments.len() - 1).sum::<usize>();
    assert!(decisions >= recordings.len(), "{decisions} decisions are too few to mean anything");
    recordings
}

/// Answers one of the questions, with a yes or a no.
fn drawn_decision(draw: &mut Draw, end: &RunEnd) -> Decision {
    let asked = draw.pick(&end.waiting);
    match (draw.below(3), &asked.gate) {
        (0, _) => Decision::cancel(&asked.suspension_id).because("not today"),
        (_, Some(_)) => Decision::resume(&asked.suspension_id, true),
        (answer, None) => Decision::resume(&asked.suspension_id, json!({"approved": answer == 1})),
    }
}

fn drawn_turns(seed: u64, restarts: bool) -> Vec<ScriptedTurn> {
    const WORDS: [&str; 8] =
        ["One", "two,", "\"three\"\n", "\u{1f9ed}", "v\u{e4}r", "\u{4e00}\u{4e8c}", "</a>", "data:"];
    // A child is a call, too. The last two ask.
    const CALLS: [&str; 5] = ["fails", "count", "scout", "delete", "ask"];
    let mut draw = Draw::new(seed);
    let mut turns = Vec::new();
    let count = 1 + draw.below(4);
    for turn in 1..=count {
        let words = 1 + draw.below(6);
        let text: Vec<&str> = (0..words).map(|_| *draw.pick(&WORDS)).collect();
        let text = text.join(" ");
        if restarts && draw.below(3) == 0 {
            let broken = ScriptedTurn::fault(ModelFault::transient("the connection broke", None));
            turns.push(broken.with_text(text.clone()));
        }
        let mut next = ScriptedTurn::text(text).with_usage(usage(draw.below(100), draw.below(100)));
        if draw.below(2) == 0 {
            next = next.with_reasoning("I should think.");
        }
        if turn < count {
            for call in 0..=draw.below(3) {
                let arguments = json!({"text": format!("turn {turn}"), "request": "Look."});
                next = next.with_call(format!("c{turn}-{call}"), *draw.pick(&CALLS), arguments);
            }
        }
        turns.push(next);
    }
    turns
}

/// Encodes a stream with its end.
pub(crate) fn encode<E: Encode>(encoder: &mut E, updates: &[RunUpdate]) -> Vec<E::Wire> {
    let mut out = Vec::new();
    updates.iter().for_each(|update| encoder.update(update, &mut out));
    encoder.ended(Recording::end(updates), &mut out);
    out
}

/// Encodes a stream that a client joins at this position: first the record up to there, then what
/// follows.
pub(crate) fn joined_at<E: Encode>(encoder: &mut E, updates: &[RunUpdate], at: usize) -> Vec<E::Wire> {
    let mut out = Vec::new();
    for update in updates[..at].iter().filter(|update| !update.is_transient()) {
        encoder.update(update, &mut out);
    }
    encoder.rejoined();
    if let Some(so_far) = text_so_far(&updates[..at]) {
        encoder.update(&so_far, &mut out);
    }
    updates[at..].iter().for_each(|update| encoder.update(update, &mut out));
    encoder.ended(Recording::end(updates), &mut out);
    out
}

/// Returns the text of the reply in progress, as a client that joins receives it.
fn text_so_far(updates: &[RunUpdate]) -> Option<RunUpdate> {
    let mut so_far: Option<LiveUpdate> = None;
    for update in updates {
        match update {
            RunUpdate::Stored(_) => so_far = None,
            RunUpdate::Child(_) => {}
            RunUpdate::Live(live) => match (&live.piece, &mut so_far) {
                (LiveContent::ReplyRestarted { .. }, _) => so_far = None,
                (LiveContent::TextDelta { text }, Some(LiveUpdate { index, piece, .. })) => {
                    *index = live.index;
                    if let LiveContent::TextSoFar { text: before } = piece {
                        before.push_str(text);
                    }
                }
                (LiveContent::TextDelta { text }, None) => {
                    so_far = Some(LiveUpdate {
                        piece: LiveContent::TextSoFar { text: text.clone() },
                        ..live.clone()
                    });
                }
                (_, Some(so_far)) => so_far.index = live.index,
                (_, None) => {}
            },
        }
    }
    so_far.map(RunUpdate::Live)
}

/// Returns the updates without the transient ones in this range, as a slow reader receives them.
/// The first one is never lost, because nothing waits before it.
pub(crate) fn without(updates: &[RunUpdate], lost: std::ops::Range<usize>) -> Vec<RunUpdate> {
    let first = updates.iter().position(RunUpdate::is_transient);
    let lost = lost.start.max(first.map_or(0, |first| first + 1))..lost.end;
    let kept = updates.iter().enumerate();
    let kept = kept.filter(|(at, update)| !lost.contains(at) || !update.is_transient());
    kept.map(|(_, update)| update.clone()).collect()
}

/// Writes JSON for a golden file: one value a line, without ids and times of this run.
pub(crate) fn golden<'a>(recording: &Recording, values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text: String = values.into_iter().map(|value| format!("{value}\n")).collect();
    let mut seconds = Vec::new();
    for update in recording.all() {
        let RunUpdate::Stored(stored) = &update else { continue };
        if let Event::ChildStarted { child_run_id, .. } = &stored.event {
            text = text.replace(child_run_id.as_str(), "CHILD");
        }
        text = text.replace(&time_of(stored.at_ms), "TIME").replace(&stored.at_ms.to_string(), "MS");
        seconds.push((stored.at_ms / 1_000).to_string());
    }
    // Milliseconds begin with their seconds, so seconds are replaced last.
    for seconds in seconds {
        text = text.replace(&seconds, "S");
    }
    text.replace(&recording.run_id, "RUN")
}

fn time_of(at_ms: u64) -> String {
    jiff::Timestamp::from_millisecond(i64::try_from(at_ms).unwrap()).unwrap().to_string()
}
