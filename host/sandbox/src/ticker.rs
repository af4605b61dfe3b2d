//! The clock that interrupts guests: a plain thread that ticks each millisecond while calls run,
//! and sleeps while there are none.
//!
//! It is not a task of the runtime, because it must tick when every worker of the runtime is busy
//! with guests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wasmtime::Engine;

/// The interval at which guests are interrupted.
const TICK: Duration = Duration::from_millis(1);
/// The number of ticks without a call before it sleeps. Waking it costs a call a few
/// microseconds, which consecutive calls should not have to pay.
const TICKS_BEFORE_REST: u32 = 100;

/// Ticks until it is dropped.
pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TickerState {
    running: AtomicU32,
    started: AtomicU64,
    resting: AtomicBool,
    ended: AtomicBool,
}

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(TickerState::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("tollgate-ticker".to_owned())
            .spawn(move || of_thread.run(&engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Keeps it ticking for as long as the guard lives.
    pub(crate) fn keep_ticking(&self) -> TickerGuard<'_> {
        self.shared.running.fetch_add(1, SeqCst);
        self.shared.started.fetch_add(1, SeqCst);
        if self.shared.resting.load(SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        TickerGuard(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only sleeps and counts; its result carries no information.
            let _ = thread.join();
        }
    }
}

/// Keeps the ticker running while it lives.
pub(crate) struct TickerGuard<'a>(&'a TickerState);

impl Drop for TickerGuard<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl TickerState {
    fn run(&self, engine: &Engine) {
        let mut idle_ticks = 0;
        let mut seen = 0;
        while !self.ended.load(SeqCst) {
            thread::sleep(TICK);
            engine.increment_epoch();
            let started = self.started.load(SeqCst);
            let idle = self.running.load(SeqCst) == 0 && started == seen;
            seen = started;
            idle_ticks = if idle { idle_ticks + 1 } else { 0 };
            if idle_ticks >= TICKS_BEFORE_REST {
                self.rest();
                idle_ticks = 0;
            }
        }
    }

    fn rest(&self) {
        self.resting.store(true, SeqCst);
        // A call that began before this store is seen here; one that begins after it sees the
        // store and wakes this thread.
        while self.running.load(SeqCst) == 0 && !self.ended.load(SeqCst) {
            thread::park();
        }
        self.resting.store(false, SeqCst);
    }
}
