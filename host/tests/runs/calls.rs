//! Tests of runs and direct calls that end.

use crate::with_each_store;
use crate::world::host;
use serde_json::{Value, json};
use tollgate::models::ScriptedTurn;
use tollgate::run::RunUpdate;
use tollgate::{CallRequest, Host, HostError, RunRequest};
use tollgate_agent::code::Code;
use tollgate_agent::run::{CallEnd, Event, RunStatus};

async fn call(host: &Host, thread: &str, tool: &str, arguments: Value) -> CallEnd {
    let request = CallRequest::from_json(tool, arguments.to_string()).on_thread(thread);
    host.call(request).await.unwrap().last_call.unwrap().end.clone()
}

fn data(end: CallEnd) -> Value {
    match end {
        CallEnd::Result(result) => Value::clone(&result.data),
        CallEnd::Fault(fault) => panic!("{fault:?}"),
    }
}

with_each_store! {
    async fn a1_a_run_calls_tools_and_answers(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("add", json!({"n": 2})), ("add", json!({"n": 3})), ("nope", json!({}))]),
            ScriptedTurn::text("It is done."),
        ];
        let host = host(&store, turns);
        let mut handle = host.run(RunRequest::new("default", "Add!").on_thread("t")).await.unwrap();
        let mut numbers = Vec::new();
        while let Some(told) = handle.events.next().await {
            if let RunUpdate::Stored(event) = told {
                numbers.push(event.number);
            }
        }
        let end = handle.wait().await.unwrap();
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "It is done."));
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "e1: no gaps");
        let stored = host.store().events(&end.run_id, 0).await.unwrap();
        assert_eq!(stored.len(), numbers.len());
        let finished = stored.iter().filter(|e| matches!(e.event, Event::RunFinished { .. })).count();
        assert_eq!(finished, 1, "e3");
        let thread = store.open().thread("t").await.unwrap();
        assert_eq!(thread.state.get("basics.total"), Some(&json!(5)));
        assert_eq!(thread.messages.len(), 6, "user, assistant, three answers, assistant");
    }

    async fn a9_direct_calls_share_the_threads_state(store: StoreAt) {
        let host = host(&store, Vec::new());
        assert_eq!(data(call(&host, "t", "add", json!({"n": 4})).await), json!(0));
        assert_eq!(data(call(&host, "t", "add", json!({"n": 1})).await), json!(4));
        assert_eq!(data(call(&host, "other", "add", json!({"n": 1})).await), json!(0));
        let CallEnd::Fault(fault) = call(&host, "t", "ad", json!({})).await else { panic!() };
        assert_eq!(fault.code, Code::NotFound);
        assert!(fault.message.contains("'add'"), "{}", fault.message);
    }

    async fn a9_a_call_that_begins_a_thread_reads_nothing_and_loses_nothing(store: StoreAt) {
        let host = host(&store, Vec::new());
        call(&host, "t", "add", json!({"n": 4})).await;
        let request = CallRequest::from_json("add", r#"{"n": 1}"#).on_new_thread("t");
        let end = host.call(request).await.unwrap().last_call.unwrap().end.clone();
        assert_eq!(data(end), json!(0));
        assert_eq!(store.open().thread("t").await.unwrap().state.get("basics.total"), Some(&json!(5)));
    }

    async fn s9_many_writers_of_one_thread_lose_nothing(store: StoreAt) {
        let hosts: Vec<Host> = (0..4).map(|_| host(&store, Vec::new())).collect();
        let calls = (0..100).map(|n| {
            let host = hosts[n % hosts.len()].clone();
            tokio::spawn(async move { call(&host, "t", "add", json!({"n": 1})).await })
        });
        for end in futures::future::join_all(calls).await {
            data(end.unwrap());
        }
        let thread = store.open().thread("t").await.unwrap();
        assert_eq!((thread.state.revision(), thread.state.get("basics.total")), (100, Some(&json!(100))));
    }

    async fn s6_keys_live_as_long_as_they_say(store: StoreAt) {
        let host = host(&store, Vec::new());
        call(&host, "t", "step", json!({})).await;
        assert_eq!(data(call(&host, "t", "step", json!({})).await), json!([0, 1]), "a run's key ends with the run");
        if store.is_durable() {
            let restarted = crate::world::host(&store, Vec::new());
            assert_eq!(data(call(&restarted, "t", "step", json!({})).await), json!([0, 0]), "it did not persist");
        }
    }

    async fn unknown_agents_tools_and_runs_are_errors_of_their_own(store: StoreAt) {
        let host = host(&store, Vec::new());
        let started = host.run(RunRequest::new("nobody", "Hello.")).await;
        let Err(HostError::UnknownAgent { id, known }) = started else { panic!("it runs") };
        assert!(id == "nobody" && known.iter().any(|known| known == "default"), "{known:?}");
        let Err(HostError::UnknownTool { name, known }) = host.enable("ad").await else { panic!("it is enabled") };
        assert!(name == "ad" && known.iter().any(|known| known == "add"), "{known:?}");
        let unknown = host.run_end("none").await.err();
        assert!(matches!(&unknown, Some(HostError::UnknownRun(id)) if id == "none"), "{unknown:?}");
    }

    async fn a_run_is_found_by_its_whole_id(store: StoreAt) {
        let host = host(&store, Vec::new());
        for id in ["a", "ab"] {
            let mut request = CallRequest::from_json("add", r#"{"n": 1}"#);
            request.run_id = Some(id.to_owned());
            host.call(request).await.unwrap();
        }
        assert_eq!(host.summary("a").await.unwrap().unwrap().run_id, "a");
        assert!(host.summary("").await.unwrap().is_none());
    }

    async fn a8_a_thread_runs_one_run_at_a_time(store: StoreAt) {
        let host = host(&store, vec![ScriptedTurn::calls([("slow", json!({}))])]);
        let mut first = host.run(RunRequest::new("default", "one").on_thread("t")).await.unwrap();
        while let Some(told) = first.events.next().await {
            if matches!(told, RunUpdate::Stored(event) if matches!(event.event, Event::CallStarted { .. })) {
                break;
            }
        }
        let second = host.run(RunRequest::new("default", "two").on_thread("t")).await;
        assert!(matches!(second, Err(HostError::Busy(_))));
        first.cancel();
        let started = std::time::Instant::now();
        let end = first.wait().await.unwrap();
        assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
        assert!(started.elapsed().as_secs() < 10, "x1: the tool would take 30 s");
        let messages = host.store().thread("t").await.unwrap().messages;
        assert_eq!(messages.len(), 3, "x3: the call has its answer: {messages:?}");
    }
}
