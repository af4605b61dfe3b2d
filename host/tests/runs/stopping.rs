//! Tests of the causes that end a run, and of the results that it keeps.

use crate::place::StoreAt;
use crate::world::{decision, host, toolbox};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tollgate::models::{ModelFault, RetryPolicy, RetryingModel};
use tollgate::store::{MemoryStore, RunFilter, Store};
use tollgate::{
    Agent, CallRequest, Event, FnTool, Host, HostError, LiveContent, RunEnd, RunLimits, RunOptions,
    RunRequest, RunStatus, RunUpdate, ScriptedModel, ScriptedTurn,
};
use tollgate_agent::descriptor::ExecutionPolicy;
use tollgate_agent::message::{Finish, Message, TokenUsage};
use tollgate_sandbox::MemoryBudget;

fn echo() -> ScriptedTurn {
    ScriptedTurn::calls([("echo", json!({}))]).with_text("Let me see.")
}

async fn ended(limits: RunLimits, turns: Vec<ScriptedTurn>) -> (RunEnd, Host) {
    let agent = Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"]).with_limits(limits);
    let host = Host::builder().toolbox(toolbox()).agent(agent).build().unwrap();
    let request = RunRequest::new("default", "go").on_thread("t");
    (host.run(request).await.unwrap().wait().await.unwrap(), host)
}

/// Checks that each call of the conversation has one answer, right after its turn.
async fn assert_valid(host: &Host) {
    let mut open: Vec<String> = Vec::new();
    for message in host.store().thread("t").await.unwrap().messages.iter() {
        match message {
            Message::Answer(answer) => assert_eq!(open.remove(0), answer.call_id),
            Message::Assistant(said) => open.extend(said.calls.iter().map(|call| call.id.clone())),
            Message::User(_) | Message::Note(_) => assert!(open.is_empty(), "{open:?} have no answer"),
        }
    }
    assert!(open.is_empty(), "{open:?} have no answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_each_condition_ends_the_run_by_its_name_and_keeps_what_it_has() {
    let limits = |change: fn(&mut RunLimits)| {
        let mut limits = RunLimits::default();
        change(&mut limits);
        limits
    };
    let slow = || ScriptedTurn::calls([("slow", json!({}))]).with_text("Let me see.");
    let costly = echo().with_usage(TokenUsage { input_tokens: 90, output_tokens: 10 });
    for (name, limits, turns) in [
        ("model_turns", limits(|l| l.model_turns = 2), vec![echo(), echo()]),
        ("tool_calls", limits(|l| l.tool_calls = 1), vec![echo(), echo()]),
        ("tokens", limits(|l| l.tokens = Some(100)), vec![costly]),
        ("wall_ms", limits(|l| l.wall_ms = 50), vec![slow()]),
        ("stop_on_tools", limits(|l| l.stop_on_tools = vec!["echo".to_owned()]), vec![echo()]),
        ("stop_on_texts", limits(|l| l.stop_on_texts = vec!["me see".to_owned()]), vec![echo()]),
        ("identical_turns", limits(|l| l.identical_turns = 2), vec![echo(), echo()]),
    ] {
        let (end, host) = ended(limits, turns).await;
        assert_eq!(end.status, Some(RunStatus::Stopped { limit: name.to_owned() }));
        assert_eq!(end.text, "Let me see.", "{name}: the last text is kept");
        assert_valid(&host).await;
    }
}

/// Returns the end of a run whose model replies with a call with this many numbers.
async fn of_numbers(budget: &MemoryBudget, count: usize) -> RunEnd {
    let turns =
        vec![ScriptedTurn::calls([("echo", json!({"list": vec![7; count]}))]), ScriptedTurn::text("Done.")];
    let limits = RunLimits { wall_ms: 300, ..RunLimits::default() };
    let agent = Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"]).with_limits(limits);
    let host = Host::builder().toolbox(toolbox()).agent(agent).memory_budget(budget.clone());
    let run = host.build().unwrap().run(RunRequest::new("default", "go")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), run.wait()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn z4_a_reply_does_not_take_the_memory_of_all_others_and_waits_as_long_as_its_run() {
    let budget = MemoryBudget::new(16 << 20);
    let held = budget.try_reserve(8 << 20).unwrap();
    let Some(RunStatus::Failed { error }) = of_numbers(&budget, 200_000).await.status else {
        panic!("it was read");
    };
    assert!(error.contains("memory_budget_bytes = 16777216"), "{error}");
    assert_eq!(of_numbers(&budget, 5_000).await.status, Some(RunStatus::Completed));
    let rest = budget.try_reserve(8 << 20).unwrap();
    let stopped = Some(RunStatus::Stopped { limit: "wall_ms".to_owned() });
    assert_eq!(of_numbers(&budget, 5_000).await.status, stopped);
    drop((held, rest));
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_run_keeps_long_replies_only_while_it_has_memory_for_them() {
    let budget = MemoryBudget::new(16 << 20);
    let seen = Arc::new(AtomicU64::new(0));
    let run = async |replies: u32| {
        let (seen, of_tool) = (Arc::clone(&seen), budget.clone());
        let look = FnTool::new("look", "look", "Looks.", move |arguments: Value, _| {
            seen.store(of_tool.reserved_bytes(), Relaxed);
            async move { arguments }
        });
        let long = |n| ScriptedTurn::calls([("look", json!({ "n": n }))]).with_text("x".repeat(2 << 20));
        let turns = (0..replies).map(long).chain([ScriptedTurn::text("Done.")]).collect();
        let agent = Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"]);
        let host = Host::builder().tool(look).agent(agent).memory_budget(budget.clone());
        let run = host.build().unwrap().run(RunRequest::new("default", "go")).await.unwrap();
        run.wait().await.unwrap().status
    };
    assert_eq!(run(2).await, Some(RunStatus::Completed));
    assert!(seen.load(Relaxed) >= 8 << 20, "{seen:?} for two replies of 2 MiB");
    assert_eq!(budget.reserved_bytes(), 0);
    let Some(RunStatus::Failed { error }) = run(5).await else { panic!("all were kept") };
    assert!(error.contains("no memory for the model's reply") && error.contains("16777216"), "{error}");
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_run_continues_only_if_there_is_memory_for_the_long_replies_in_its_record() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let budget = MemoryBudget::new(16 << 20);
    let with = |turns| {
        let agent = Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"]);
        let host = Host::builder().toolbox(toolbox()).agent(agent).store(Arc::clone(&store));
        host.memory_budget(budget.clone()).build().unwrap()
    };
    let asks = ScriptedTurn::calls([("ask", json!({}))]).with_text("x".repeat(2 << 20));
    let run = with(vec![asks]).run(RunRequest::new("default", "go").on_thread("t")).await.unwrap();
    let end = run.wait().await.unwrap();
    assert_eq!(budget.reserved_bytes(), 0, "nothing is kept while it waits");
    let next = with(vec![ScriptedTurn::text("Done.")]);
    let decided = || decision("d", &end.waiting[0].call_id, json!({"ok": true}));
    let held = budget.try_reserve(13 << 20).unwrap();
    let Err(HostError::Overloaded { message: words, memory_budget_bytes: 16_777_216 }) =
        next.decide(&end.run_id, decided()).await
    else {
        panic!("it was continued")
    };
    assert!(
        words.contains("long replies") && words.contains("memory_budget_bytes (now 16777216)"),
        "{words}"
    );
    drop(held);
    let end = next.decide(&end.run_id, decided()).await.unwrap().wait().await.unwrap();
    assert_eq!(end.text, "Done.");
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_the_answers_of_a_turn_take_memory_before_it_is_complete() {
    const ANSWER: usize = 250 << 10;
    let budget = MemoryBudget::new(128 << 20);
    let seen = Arc::new(AtomicU64::new(0));
    let (seen_last, of_tool) = (Arc::clone(&seen), budget.clone());
    let long = FnTool::new("long", "long", "Answers at length.", move |_: Value, _| {
        seen_last.store(of_tool.reserved_bytes(), Relaxed);
        async { "x".repeat(ANSWER) }
    });
    let turn = ScriptedTurn::calls((0..8).map(|n| ("long", json!({ "n": n }))));
    let limits = RunLimits { concurrency: 1, ..RunLimits::default() };
    let agent = Agent::new("default", ScriptedModel::new(vec![turn, ScriptedTurn::text("Done.")]));
    let agent = agent.with_tools(["*"]).with_limits(limits);
    let host = Host::builder().tool(long).agent(agent).memory_budget(budget.clone());
    let end =
        host.build().unwrap().run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.status, Some(RunStatus::Completed));
    let of_earlier_calls = 7 * ANSWER as u64;
    assert!(seen.load(Relaxed) >= of_earlier_calls, "{seen:?} during the last call");
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_run_keeps_the_answers_to_its_calls_only_while_it_has_memory_for_them() {
    const ANSWER: usize = 250 << 10;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let budget = MemoryBudget::new(128 << 20);
    let with = |turns: Vec<ScriptedTurn>| {
        let long = FnTool::new("long", "long", "Answers at length.", async |_: Value, _| "x".repeat(ANSWER));
        let agent = Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"]);
        let host = Host::builder().toolbox(toolbox()).tool(long).agent(agent).store(Arc::clone(&store));
        host.memory_budget(budget.clone()).build().unwrap()
    };
    let turn = |n| ScriptedTurn::calls((0..8).map(|call| ("long", json!({"n": n * 8 + call}))));
    let run = async |turns: usize, last: ScriptedTurn| {
        let turns = (0..turns).map(turn).chain([last]).collect();
        with(turns).run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap()
    };
    // 8 MiB in all, for which the run waits.
    let held = budget.try_reserve(122 << 20).unwrap();
    let waiting = run(4, ScriptedTurn::text("Done."));
    let freed = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(held);
    };
    assert_eq!(tokio::join!(waiting, freed).0.status, Some(RunStatus::Completed));
    let Some(RunStatus::Failed { error }) = run(9, ScriptedTurn::text("Done.")).await.status else {
        panic!("all were kept")
    };
    assert!(error.contains("may keep 16777216 of them") && error.contains("= 134217728"), "{error}");
    assert_eq!(budget.reserved_bytes(), 0);

    let end = run(4, ScriptedTurn::calls([("ask", json!({}))])).await;
    assert_eq!(budget.reserved_bytes(), 0, "nothing is kept while it waits");
    let next = with(vec![ScriptedTurn::text("Done.")]);
    let decided = || decision("d", &end.waiting[0].call_id, json!({"ok": true}));
    let held = budget.try_reserve(122 << 20).unwrap();
    let Err(HostError::Overloaded { message: words, .. }) = next.decide(&end.run_id, decided()).await else {
        panic!("it was continued")
    };
    assert!(words.contains("long answers"), "{words}");
    drop(held);
    let end = next.decide(&end.run_id, decided()).await.unwrap().wait().await.unwrap();
    assert_eq!(end.text, "Done.");
    assert_eq!(budget.reserved_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a_reply_that_its_length_cut_off_is_one_answer_in_the_end() {
    let part = |text: &str| ScriptedTurn::text(text).with_finish(Finish::Length);
    let (end, _) =
        ended(RunLimits::default(), vec![part("One, "), part("two, "), ScriptedTurn::text("three.")]).await;
    assert_eq!(
        (end.status, end.text.as_str(), end.usage.steps),
        (Some(RunStatus::Completed), "One, two, three.", 1)
    );
}

/// Creates a model that answers the second request.
fn broken_once() -> RetryingModel<ScriptedModel> {
    let fault = ModelFault::transient("the stream broke", None);
    let turns = vec![ScriptedTurn::fault(fault).with_text("This is voi"), ScriptedTurn::text("This is it.")];
    RetryingModel::new(ScriptedModel::new(turns), RetryPolicy { first_pause_ms: 1, ..RetryPolicy::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_a6_what_was_streamed_of_a_broken_attempt_is_void_and_the_rest_is_the_whole() {
    let host = Host::builder().agent(Agent::new("default", broken_once())).build().unwrap();
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    let (mut streamed, mut restarts, mut whole) = (String::new(), Vec::new(), None);
    while let Some(told) = run.events.next().await {
        match told {
            RunUpdate::Live(moment) => match moment.piece {
                LiveContent::TextDelta { text } => streamed.push_str(&text),
                LiveContent::ReplyRestarted { attempt, reason, .. } => {
                    assert_eq!((streamed.as_str(), reason.contains("broke")), ("This is voi", true));
                    restarts.push(attempt);
                    streamed.clear();
                }
                other => panic!("{other:?}"),
            },
            RunUpdate::Stored(numbered) => {
                if let Event::ModelReplied { reply, .. } = &numbered.event {
                    whole = Some((reply.message.text.clone(), streamed.clone()));
                }
            }
            RunUpdate::Child(_) => panic!("there is none"),
        }
    }
    assert_eq!(restarts, [2], "the attempt that begins anew is announced");
    let whole = whole.unwrap();
    assert_eq!(whole, ("This is it.".to_owned(), "This is it.".to_owned()), "told before it is finished");
    let end = run.wait().await.unwrap();
    let stored = host.store().events(&end.run_id, 0).await.unwrap();
    assert!(!serde_json::to_string(&stored).unwrap().contains("voi"), "a delta is stored nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a6_a_run_is_cancelled_while_its_model_is_waited_for() {
    let fault = ModelFault::transient("come back later", Some(Duration::from_secs(60)));
    let model =
        RetryingModel::new(ScriptedModel::new(vec![ScriptedTurn::fault(fault)]), RetryPolicy::default());
    let host = Host::builder().agent(Agent::new("default", model)).build().unwrap();
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    while let Some(told) = run.events.next().await {
        if matches!(&told, RunUpdate::Live(moment) if matches!(moment.piece, LiveContent::ReplyRestarted { .. }))
        {
            break;
        }
    }
    let began = Instant::now();
    run.cancel();
    let end = run.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for the provider");
}

#[tokio::test]
async fn x1_t4_a_run_is_cancelled_between_two_attempts_and_no_other_begins() {
    let begun = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&begun);
    let late = FnTool::new("late", "late", "Never ends.", move |_: serde_json::Value, _| {
        counted.fetch_add(1, Relaxed);
        std::future::pending::<String>()
    });
    let policy = ExecutionPolicy { idempotent: true, timeout_ms: Some(20), ..ExecutionPolicy::default() };
    let agent = Agent::new("default", ScriptedModel::new(vec![ScriptedTurn::calls([("late", json!({}))])]))
        .with_tools(["*"]);
    let host = Host::builder().tool(late.with_execution(policy)).agent(agent).build().unwrap();
    let mut run = host.run(RunRequest::new("default", "go").on_thread("t")).await.unwrap();
    while let Some(told) = run.events.next().await {
        if matches!(&told, RunUpdate::Stored(event) if matches!(event.event, Event::CallRetried { .. })) {
            break;
        }
    }
    // The next attempt begins half a second after the first; cancelling takes less.
    run.cancel();
    let end = run.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(begun.load(Relaxed), 1);
    assert_valid(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x3_the_thread_of_a_cancelled_run_goes_on() {
    let turns = vec![
        ScriptedTurn::calls([("echo", json!({})), ("slow", json!({}))]),
        ScriptedTurn::text("Now I am back."),
    ];
    let host = host(&StoreAt::memory(), turns);
    let say = |text: &str| RunRequest::new("default", text).on_thread("t");
    let mut run = host.run(say("go")).await.unwrap();
    while let Some(told) = run.events.next().await {
        if matches!(&told, RunUpdate::Stored(event) if matches!(event.event, Event::CallReturned { .. } | Event::CallFinished(_)))
        {
            break;
        }
    }
    run.cancel();
    run.wait().await.unwrap();
    assert_valid(&host).await;
    let end = host.run(say("And now?")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.text, "Now I am back.");
    assert_valid(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_call_that_was_cancelled_before_it_began_is_recorded_as_cancelled() {
    let host = Host::builder().toolbox(toolbox()).build().unwrap();
    let request = CallRequest::from_json("slow", "{}").on_thread("t");
    request.cancel.cancel();
    let end = host.call(request).await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
    let runs = host.store().runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.status.as_str()).collect::<Vec<_>>(), ["cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_options_of_one_run_replace_the_limits_of_its_agent() {
    let agent = Agent::new("default", ScriptedModel::new(vec![echo(), echo(), ScriptedTurn::text("Done.")]))
        .with_tools(["*"])
        .with_limits(RunLimits { model_turns: 2, ..RunLimits::default() });
    let host = Host::builder().toolbox(toolbox()).agent(agent).build().unwrap();
    let ended = async |options: RunOptions| {
        let request = RunRequest::new("default", "go").with_options(options);
        host.run(request).await.unwrap().wait().await.unwrap().status.unwrap()
    };
    let stopped = |limit: &str| RunStatus::Stopped { limit: limit.to_owned() };
    assert_eq!(
        ended(RunOptions { model_turns: Some(1), ..RunOptions::default() }).await,
        stopped("model_turns")
    );
    let calls = RunOptions { model_turns: Some(5), tool_calls: Some(0), ..RunOptions::default() };
    assert_eq!(ended(calls).await, stopped("tool_calls"));
    let enough = RunOptions { model_turns: Some(5), ..RunOptions::default() };
    assert_eq!(ended(enough).await, RunStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_the_timeout_of_one_run_stays_below_the_ceiling() {
    for (ceiling_ms, wanted_ms) in [(300_000, 50), (50, 300_000)] {
        let slow = || ScriptedTurn::calls([("slow", json!({}))]);
        let agent = Agent::new("default", ScriptedModel::new(vec![slow(), ScriptedTurn::text("Done.")]))
            .with_tools(["*"])
            .with_limits(RunLimits { timeout_ceiling_ms: ceiling_ms, ..RunLimits::default() });
        let host = Host::builder().toolbox(toolbox()).agent(agent).build().unwrap();
        let options = RunOptions { timeout_ms: Some(wanted_ms), ..RunOptions::default() };
        let request = RunRequest::new("default", "go").with_options(options);
        let end = host.run(request).await.unwrap().wait().await.unwrap();
        let fault = end.last_call.as_ref().and_then(|call| call.end.code());
        assert_eq!(fault, Some(tollgate_agent::code::Code::TimedOut), "{ceiling_ms} {wanted_ms}");
    }
}
