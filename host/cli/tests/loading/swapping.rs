//! Tests ten thousand replacements of a tool under load: no call is lost, every answer is from the
//! version that its record names, and nothing is left behind.

use crate::versions::{Place, version};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tollgate::store::SqliteStore;
use tollgate::tools::directory::DirectoryState;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::{CallEnd, Event};

/// The growth of the store's pages and the allocator that is tolerated after a tenth of the
/// swaps, regardless of how many follow.
const MOST_GROWTH_BYTES: u64 = 48 << 20;

/// The additional mappings of threads and the allocator that are tolerated; they depend on how busy
/// the machine is.
const MOST_MORE_MAPPINGS: usize = 100;

/// Returns the number of replacements. Set `TOLLGATE_SWAPS=10000` for all, as `scripts/soak` does.
fn swaps() -> u32 {
    std::env::var("TOLLGATE_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_under_load_lose_no_call_and_leave_nothing_behind() {
    let place = Place::new();
    let versions: Vec<Vec<u8>> = (0..4).map(version).collect();
    place.put("version.wasm", &versions[0]);
    let loaded = place.load().await;
    // A store in memory would grow with each call.
    let store = SqliteStore::open(&place.folder.path().join("data")).unwrap();
    let host = Host::builder().toolbox(loaded.toolbox.clone()).store(Arc::new(store)).build().unwrap();
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    let digests: Arc<Vec<String>> = Arc::new(digests(&place, &versions).await);
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(call_all_the_time(host.clone(), digests.clone(), stop.clone(), calls.clone())))
        .collect();

    let swaps = swaps();
    let mut after_a_tenth = Left::behind();
    for swap in 1..=swaps {
        place.put("version.wasm", &versions[(swap % 4) as usize]);
        assert_eq!(live.refresh().await.len(), 1, "swap {swap}");
        if swap == swaps / 10 {
            after_a_tenth = Left::behind();
        }
    }
    stop.store(true, Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let calls = calls.load(Relaxed);
    assert!(calls > u64::from(swaps) / 10, "only {calls} calls were made meanwhile");
    let left = Left::behind();
    // Each version that is not released would keep several mappings and considerable memory.
    let most = after_a_tenth.mappings + MOST_MORE_MAPPINGS;
    assert!(left.mappings < most, "{left:?} after {after_a_tenth:?}");
    assert!(
        left.bytes < after_a_tenth.bytes + MOST_GROWTH_BYTES,
        "{left:?} after {after_a_tenth:?}, {calls} calls"
    );
}

async fn digests(place: &Place, versions: &[Vec<u8>]) -> Vec<String> {
    let mut digests = Vec::new();
    for bytes in versions {
        digests.push(place.sandbox.load_bytes("version", bytes.clone()).await.unwrap().digest().to_owned());
    }
    digests
}

async fn call_all_the_time(
    host: Host,
    digests: Arc<Vec<String>>,
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
) {
    while !stop.load(Relaxed) {
        let end = host.call(CallRequest::from_json("version", "{}")).await.unwrap();
        let CallEnd::Result(result) = end.last_call.unwrap().end.clone() else { panic!("a call was lost") };
        let events = host.store().events(&end.run_id, 0).await.unwrap();
        let called = events.iter().find_map(|event| match &event.event {
            Event::CallProposed(proposed) => proposed.owner.clone(),
            _ => None,
        });
        let answered: usize = result.data.to_string().parse().unwrap();
        assert_eq!(digests[answered], called.unwrap().version, "an answer of another version");
        calls.fetch_add(1, Relaxed);
    }
}

/// The resources of this process.
#[derive(Debug)]
struct Left {
    mappings: usize,
    bytes: u64,
}

impl Left {
    fn behind() -> Self {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let resident: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        Self { mappings, bytes: resident * 4096 }
    }
}
