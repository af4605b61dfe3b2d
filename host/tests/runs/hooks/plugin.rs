//! The plugin of these tests, which keeps a diary of calls under its own key.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate::plugins::{
    Effects, HookError, HookPoints, HookedCall, Hooks, Parts, Plugin, StateKey, async_trait,
};
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::KeyScope;

/// A plugin that records the hooks called, and how calls ended.
pub(crate) struct Diary;

impl StateKey for Diary {
    const NAME: &'static str = "keeper.diary";
    const COMMUTES: bool = true;
    const SCOPE: KeyScope = KeyScope::Thread;
    const PERSISTENT: bool = true;
    type Value = Vec<String>;
    type Update = String;

    fn apply(diary: &mut Vec<String>, line: String) {
        diary.push(line);
    }
}

/// Writes a line before and after each call.
#[derive(Clone)]
pub(crate) struct Keeper {
    /// The points at which it is called.
    pub(crate) points: HookPoints,
    /// The semaphore from which it takes a permit after a call, and the one with which it signals
    /// that it waits.
    pub(crate) waits: Option<(Arc<Semaphore>, Arc<Semaphore>)>,
}

impl Default for Keeper {
    fn default() -> Self {
        Self { points: HookPoints::ALL, waits: None }
    }
}

impl Plugin for Keeper {
    fn name(&self) -> &str {
        "keeper"
    }

    fn register(self: Box<Self>, parts: &mut Parts) {
        let leaf = crate::world::named("leaf");
        parts.state::<Diary>().tool(leaf).hooks(*self);
    }
}

#[async_trait]
impl Hooks for Keeper {
    fn points(&self) -> HookPoints {
        self.points
    }

    async fn before_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        assert!(call.end.is_none());
        Ok(Effects::none().update::<Diary>(format!("before {}", call.tool_name)))
    }

    async fn after_call(&self, call: &HookedCall<'_>) -> Result<Effects, HookError> {
        if let Some((reached, leave)) = &self.waits {
            reached.add_permits(1);
            leave.acquire().await.map_err(|e| HookError::new(e.to_string()))?.forget();
        }
        let end = call.end.and_then(CallEnd::code).map_or("success", |code| code.as_str());
        let line = format!("after {}: {end}", call.tool_name);
        let known = call.state.read::<Diary>().len();
        Ok(Effects::none().update::<Diary>(line).event("written", known))
    }
}

/// Creates a keeper that waits after calls, with the semaphore that signals its wait and the one
/// that releases it.
pub(crate) fn waiting() -> (Keeper, Arc<Semaphore>, Arc<Semaphore>) {
    let (reached, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let waits = Some((Arc::clone(&reached), Arc::clone(&leave)));
    (Keeper { waits, ..Keeper::default() }, reached, leave)
}

/// Long enough for every hook of these tests.
pub(crate) const LONG: Duration = Duration::from_secs(60);
