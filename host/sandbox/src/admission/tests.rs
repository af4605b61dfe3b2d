//! Room for calls is bounded, returned, and shared fairly between components.
#![allow(clippy::unwrap_used)]
use super::*;

fn limited(concurrent: u32, waiting: u32) -> Admission {
    Admission::new(&SandboxConfig {
        memory_budget_bytes: 64 << 20,
        concurrent_calls: concurrent,
        waiting_calls: waiting,
        ..SandboxConfig::default()
    })
}

#[tokio::test]
async fn calls_fit_the_budget_and_the_number() {
    let admission = limited(4, 1);
    let patience = Duration::from_millis(1);
    let running: Vec<_> =
        [1, 1, 1, 1].map(|bytes| admission.take(None, bytes, patience)).into_iter().collect();
    let running = futures::future::join_all(running).await;
    assert!(running.iter().all(Result::is_ok));
    assert_eq!(admission.take(None, 1, patience).await.err(), Some(NotAdmitted::TooLate));
    drop(running);
    let large = admission.take(None, 1 << 40, patience).await.unwrap();
    assert!(admission.take(None, 1, patience).await.is_err(), "one call may take all of it");
    drop(large);
    assert!(admission.take(None, 1, patience).await.is_ok());
}

#[tokio::test]
async fn the_queue_is_bounded_and_gives_its_places_back() {
    let admission = limited(1, 1);
    let running = admission.take(None, 1, Duration::ZERO).await.unwrap();
    let patient = admission.take(None, 1, Duration::from_secs(60));
    let mut patient = std::pin::pin!(patient);
    assert!(futures::poll!(patient.as_mut()).is_pending());
    assert_eq!(admission.take(None, 1, Duration::from_secs(60)).await.err(), Some(NotAdmitted::QueueFull));
    // The call has its memory already and waits for a slot.
    let full = Occupancy { running_calls: 1, waiting_calls: 1, memory_bytes: 8 << 10, lending_calls: 0 };
    assert_eq!(admission.occupancy(), full);
    drop(running);
    drop(patient.await.unwrap());
    assert!(admission.take(None, 1, Duration::ZERO).await.is_ok());
    assert_eq!(admission.occupancy(), Occupancy::default());
}

#[tokio::test]
async fn z3_the_host_s_memory_for_a_call_is_taken_from_its_share_and_then_from_the_budget() {
    let admission = limited(4, 1);
    let slot = Arc::new(admission.take(None, 20 << 20, Duration::ZERO).await.unwrap());
    assert_eq!(slot.charge(15 << 20), Ok(()));
    assert_eq!(admission.memory().reserved_bytes(), 20 << 20, "the share had room");
    let charge = slot.charge_while(10 << 20).unwrap();
    assert_eq!(admission.memory().reserved_bytes(), 25 << 20);
    assert_eq!(slot.charge(10 << 20), Ok(()));
    assert_eq!(slot.charge(20 << 20), Err(MemoryExhausted::Call), "20 MiB and 24 MiB are its most");
    drop(charge);
    assert_eq!(slot.charge(10 << 20), Ok(()), "what was given back is there again");
    let beside = admission.take(None, 20 << 20, Duration::ZERO).await.unwrap();
    assert_eq!(beside.charge(30 << 20), Err(MemoryExhausted::Budget));
    assert_eq!(beside.charge(20 << 20), Ok(()), "its own share is always there");
    drop(beside);
    let answer = slot.hand_over(3 << 20).unwrap();
    assert!(slot.hand_over(1_000).is_none());
    drop(slot);
    assert_eq!((admission.memory().reserved_bytes(), answer.bytes()), (3 << 20, 3 << 20));
    drop(answer);
    assert_eq!(admission.occupancy(), Occupancy::default());
}

#[tokio::test]
async fn d7_a_call_that_waits_for_its_child_lends_its_place_and_keeps_its_memory() {
    let admission = limited(1, 1);
    let parent = admission.take(None, 20 << 20, Duration::ZERO).await.unwrap();
    assert!(admission.take(None, 1, Duration::ZERO).await.is_err(), "one call at a time");
    let child = async {
        assert!(admission.take(None, 60 << 20, Duration::ZERO).await.is_err(), "the memory is the parent's");
        let child = admission.take(None, 20 << 20, Duration::ZERO).await.unwrap();
        child.yield_slot(async {}).await.is_err()
    };
    assert_eq!(parent.yield_slot(child).await, Ok(true), "half of the memory at most waits");
    assert!(admission.take(None, 1, Duration::ZERO).await.is_err(), "the parent has its place again");
    drop(parent);
    drop(admission.take(None, 64 << 20, Duration::ZERO).await.unwrap());
    assert_eq!((admission.lending.bytes.load(Relaxed), admission.lending.calls.load(Relaxed)), (0, 0));
}

/// A component with more calls than slots leaves room for another component, whose calls neither
/// run nor wait behind them.
#[tokio::test]
async fn t7_calls_of_one_component_leave_places_for_those_of_another() {
    let admission = limited(4, 4);
    let [flood, good] = [(); 2].map(|()| ComponentPlaces::new(3, 4));
    let hour = Duration::from_secs(3_600);
    let running = futures::future::join_all((0..3).map(|_| admission.take(Some(&flood), 1, hour))).await;
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(admission.take(Some(&flood), 1, hour))).collect();
    for call in &mut waiting {
        assert!(futures::poll!(call.as_mut()).is_pending());
    }
    assert_eq!(admission.take(Some(&flood), 1, hour).await.err(), Some(NotAdmitted::QueueFull));
    let first = admission.take_at_once(Some(&good), 1).unwrap();
    let mut second = std::pin::pin!(admission.take(Some(&good), 1, hour));
    assert!(futures::poll!(second.as_mut()).is_pending(), "all four places are taken");
    drop(first);
    let second = second.await.unwrap();
    assert!(futures::poll!(waiting[0].as_mut()).is_pending(), "the free place was not for its component");
    drop((running, second));
    futures::future::join_all(waiting).await;
    assert_eq!(admission.occupancy(), Occupancy::default());
}

/// The budget is 64 MiB; each of four calls takes 16 MiB.
#[tokio::test]
async fn t7_calls_of_one_component_leave_memory_for_those_of_another() {
    let admission = limited(4, 4);
    let [flood, good] = [(); 2].map(|()| ComponentPlaces::new(3, 4));
    let large = admission.take_at_once(Some(&flood), 40 << 20).unwrap();
    let mut next = std::pin::pin!(admission.take(Some(&flood), 24 << 20, Duration::from_secs(3_600)));
    assert!(futures::poll!(next.as_mut()).is_pending());
    assert!(admission.take_at_once(Some(&good), 16 << 20).is_some());
    drop(large);
    drop(next.await.unwrap());
    assert!(admission.take_at_once(Some(&flood), 64 << 20).is_some(), "one call may take all of it");
}

#[tokio::test]
async fn d7_a_call_that_lends_its_place_lends_its_component_s_too() {
    let (admission, only) = (limited(1, 1), ComponentPlaces::new(1, 1));
    let parent = admission.take_at_once(Some(&only), 1).unwrap();
    assert!(admission.take_at_once(Some(&only), 1).is_none());
    let child = async { admission.take_at_once(Some(&only), 1).is_some() };
    assert_eq!(parent.yield_slot(child).await, Ok(true));
    assert!(admission.take_at_once(Some(&only), 1).is_none(), "the parent has its place again");
}
