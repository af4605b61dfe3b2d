//! Tests that calls of one turn that compute use all available cores, and end together when they
//! are cancelled.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tollgate::HostBuilder;
use tollgate::config::Config;
use tollgate::{
    Agent, Event, FnTool, Host, RunRequest, RunStatus, RunUpdate, ScriptedModel, ScriptedTurn, Toolbox,
};
use tollgate_artifacts::hostile;

fn two_cores() -> bool {
    std::thread::available_parallelism().unwrap().get() > 1
}

/// Creates a host whose run calls the tool twice in one turn.
fn twice(tool: &str, host: HostBuilder) -> Host {
    let turns =
        vec![ScriptedTurn::calls([(tool, json!({})), (tool, json!({}))]), ScriptedTurn::text("Done.")];
    host.agent(Agent::new("default", ScriptedModel::new(turns)).with_tools(["*"])).build().unwrap()
}

/// Neither yields while it computes, like ordinary Rust code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t7_two_calls_of_one_turn_compute_at_the_same_time() {
    let (begun, met) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begins, meets) = (Arc::clone(&begun), Arc::clone(&met));
    let tool = FnTool::new("meets", "meets", "Computes until the other does.", move |_: Value, _| {
        let (begins, meets) = (Arc::clone(&begins), Arc::clone(&meets));
        async move {
            let began = Instant::now();
            begins.fetch_add(1, Ordering::SeqCst);
            while begins.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(10) {
                std::hint::spin_loop();
            }
            meets.fetch_add(usize::from(begins.load(Ordering::SeqCst) == 2), Ordering::SeqCst);
            "computed"
        }
    });
    let host = twice("meets", Host::builder().tool(tool));
    let end = host.run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    assert_eq!(end.text, "Done.");
    assert_eq!(met.load(Ordering::SeqCst), 2, "the second began when the first had ended");
}

/// Returns how long threads of the runtime had a core, and how long they waited for one.
fn worked_and_waited() -> (f64, f64) {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|thread| {
        let dir = thread.ok()?.path();
        let name = std::fs::read_to_string(dir.join("comm")).ok()?;
        (name.trim() == "tollgate").then(|| std::fs::read_to_string(dir.join("schedstat")).ok())?
    });
    threads.fold((0.0, 0.0), |(worked, waited), stat| {
        let mut nanos = stat.split_whitespace().map(|n| n.parse::<f64>().unwrap());
        (worked + nanos.next().unwrap() / 1e9, waited + nanos.next().unwrap() / 1e9)
    })
}

/// Returns the number of cores used in the first span in which it was more than one, or in which
/// the machine had room for more; `None` if other processes need them all the time.
async fn cores_used() -> Option<f64> {
    for _ in 0..10 {
        let (before, began) = (worked_and_waited(), Instant::now());
        tokio::time::sleep(Duration::from_millis(400)).await;
        let (now, took) = (worked_and_waited(), began.elapsed().as_secs_f64());
        let (worked, waited) = ((now.0 - before.0) / took, (now.1 - before.1) / took);
        if worked > 1.4 || waited < 0.1 {
            return Some(worked);
        }
    }
    None
}

/// Returns how many cores two guests of one turn use, and how long they take to end once their run
/// is cancelled.
async fn two_guests() -> (Option<f64>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    // No call runs out of fuel.
    let fuel = "[limits]\nfuel = 1_000_000_000_000\n";
    let config = Config::parse(&dir.path().join("tollgate.toml"), fuel).unwrap();
    std::fs::create_dir(&config.tools_dir).unwrap();
    std::fs::write(config.tools_dir.join("spins.wasm"), hostile::SPIN_FOR_EVER.bytes()).unwrap();
    let toolbox = Toolbox::load_with(&config).await.unwrap();
    let host = twice(hostile::SPIN_FOR_EVER.name, Host::builder().toolbox(toolbox));
    let mut run = host.run(RunRequest::new("default", "go")).await.unwrap();
    let mut started = 0;
    while started < 2 {
        if let RunUpdate::Stored(event) = run.events.next().await.unwrap() {
            started += usize::from(matches!(event.event, Event::CallStarted { .. }));
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let cores = cores_used().await;

    let began = Instant::now();
    run.cancel();
    let end = run.wait().await.unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
    (cores, began.elapsed())
}

#[test]
fn t7_x1_two_guests_of_one_turn_use_two_cores_and_end_when_they_are_cancelled() {
    let runtime = tollgate_sandbox::runtime().unwrap();
    let (cores, ended_after) = runtime.block_on(two_guests());
    // The guarantee is 100 ms of grace and another 100 ms; the rest allows for a busy machine. Each
    // attempt alone may take 15 s.
    assert!(ended_after < Duration::from_secs(5), "{ended_after:?}");
    if let Some(cores) = cores.filter(|_| two_cores()) {
        assert!(cores > 1.4, "they used {cores:.2} cores");
    }
}
