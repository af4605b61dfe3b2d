//! Tests tools of all languages together, with the default configuration: as many calls run and
//! wait as docs/configuration.md states, and no more.
//!
//! No toolchain is needed, because the guests are those of a release.

use crate::bounded::endless;
use crate::built::{LANGUAGES, limits_of_each, load};
use crate::frozen::newest;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tollgate::{CallRequest, Host, RunEnd};
use tollgate_agent::run::{CallEnd, RunStatus};
use tollgate_sandbox::Sandbox;

/// The default of `concurrent_calls` in docs/configuration.md.
const RUNNING: u32 = 64;
/// The default of `waiting_calls` in docs/configuration.md.
const WAITING: u32 = 1_024;
/// Calls beyond both.
const BEYOND: u32 = 12;

#[test]
fn the_reference_documents_these_numbers() {
    let page = include_str!("../../../../docs/configuration.md");
    let said = |name: &str| {
        let line = page.lines().rev().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
        line.unwrap().trim().replace('_', "").parse::<u32>().unwrap()
    };
    assert_eq!((said("concurrent_calls"), said("waiting_calls")), (RUNNING, WAITING));
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_calls_as_are_documented_run_and_wait_and_none_fails() {
    let place = newest();
    let (toolbox, sandbox) = load(place.path(), "").await;
    let host = Host::builder().toolbox(toolbox).build().unwrap();
    let most = most_at_once(sandbox);
    let arguments = json!({"text": "one two two"}).to_string();
    let calls = (0..RUNNING + WAITING).map(|at| {
        let host = host.clone();
        let language = &LANGUAGES[at as usize % LANGUAGES.len()];
        let request = CallRequest::from_json(language.tool(), arguments.clone());
        tokio::spawn(async move { host.call(request).await.unwrap().last_call.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        let finished = call.await.unwrap();
        assert!(matches!(&finished.end, CallEnd::Result(result) if result.is_success()), "{finished:?}");
    }
    // How many of these short calls run at once depends on the machine; the next test fills every slot.
    let (running, waiting) = most.stop();
    assert!((RUNNING / 2..=RUNNING).contains(&running), "{running} ran, and {waiting} waited");
    assert!(waiting > 0, "none had to wait");
}

/// The maximum numbers of running and waiting calls observed so far.
struct Most {
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<(u32, u32)>,
}

fn most_at_once(sandbox: Sandbox) -> Most {
    let is_over = Arc::new(AtomicBool::new(false));
    let looks = Arc::clone(&is_over);
    // A separate thread, because those of the runtime are busy.
    let looking = std::thread::spawn(move || {
        let (mut running, mut waiting) = (0, 0);
        while !looks.load(Relaxed) {
            let now = sandbox.occupancy();
            (running, waiting) = (running.max(now.running_calls), waiting.max(now.waiting_calls));
            std::thread::sleep(Duration::from_micros(200));
        }
        (running, waiting)
    });
    Most { is_over, looking }
}

impl Most {
    fn stop(self) -> (u32, u32) {
        self.is_over.store(true, Relaxed);
        self.looking.join().unwrap()
    }
}

/// Endless calls, of all languages in turn.
struct Endless {
    host: Host,
    made: usize,
    stop: CancellationToken,
}

impl Endless {
    /// Starts this many more calls. The result of each arrives once it has ended.
    fn more(&mut self, calls: u32) -> UnboundedReceiver<RunEnd> {
        let (told, ends) = unbounded_channel();
        let endless = endless();
        for _ in 0..calls {
            let language = &LANGUAGES[self.made % LANGUAGES.len()];
            self.made += 1;
            let mut request = CallRequest::from_json(language.tool(), endless.clone());
            request.cancel = self.stop.child_token();
            let (host, told) = (self.host.clone(), told.clone());
            tokio::spawn(async move { told.send(host.call(request).await.unwrap()) });
        }
        ends
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_calls_past_the_documented_number_are_overloaded() {
    let place = newest();
    // Everything else has its default. The calls hold their slots until they are stopped.
    let limits = limits_of_each(|_| "timeout_ms = 300_000\nfuel = 1_000_000_000_000".to_owned());
    let (toolbox, sandbox) = load(place.path(), &limits).await;
    let host = Host::builder().toolbox(toolbox).build().unwrap();
    let mut endless = Endless { host, made: 0, stop: CancellationToken::new() };
    let occupied = async |running: u32, waiting: u32| {
        let mut now = sandbox.occupancy();
        for _ in 0..3_000 {
            now = sandbox.occupancy();
            if (now.running_calls, now.waiting_calls) == (running, waiting) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{running} run and {waiting} wait: {now:?}");
    };

    let mut running = endless.more(RUNNING);
    occupied(RUNNING, 0).await;
    let mut waiting = endless.more(WAITING);
    occupied(RUNNING, WAITING).await;
    let mut beyond = endless.more(BEYOND);
    for _ in 0..BEYOND {
        let end = beyond.recv().await.unwrap().last_call.unwrap().end.clone();
        assert!(matches!(&end, CallEnd::Fault(fault) if fault.code.as_str() == "overloaded"), "{end:?}");
    }
    endless.stop.cancel();
    for (ends, calls) in [(&mut running, RUNNING), (&mut waiting, WAITING)] {
        for _ in 0..calls {
            let status = ends.recv().await.unwrap().status;
            assert!(matches!(status, Some(RunStatus::Cancelled { .. })), "{status:?}");
        }
    }
}
