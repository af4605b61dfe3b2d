//! `counter`: two keys that parallel calls may all add to.

use serde::Serialize;
use tollgate_sdk::{Context, Key, ToolError, component, reducer::Add, tool};

/// Ends with the run.
static RUN: Key<i64, Add> = Key::run("counter.run").add();

/// Lives as long as the thread and outlives the host's process.
static TOTAL: Key<i64, Add> = Key::thread("counter.total").add().persistent();

/// Both counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// In this run.
    pub run: i64,
    /// In this thread.
    pub total: i64,
}

/// Adds to a counter of this run and one of this conversation, and returns both
/// as this call sees them.
///
/// Args:
///     by: How much to add; may be negative.
#[tool(category = "demo", state(RUN, TOTAL))]
pub fn counter(#[default = 1] by: i32, ctx: &Context) -> Result<Counts, ToolError> {
    ctx.add(&RUN, i64::from(by))?;
    ctx.add(&TOTAL, i64::from(by))?;
    Ok(Counts { run: ctx.get(&RUN)?, total: ctx.get(&TOTAL)? })
}

component! { id: "counter", tools: [counter] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Reducer, Scope, json};

    #[test]
    fn it_adds_to_what_it_finds() {
        let mut ctx = Context::for_test().with_tool_name("counter").with_state("counter.total", json!(40));
        let output = Exported::execute(r#"{"by":2}"#, &mut ctx).unwrap();
        assert_eq!(output.result.data(), json!({"run": 2, "total": 42}));
        let updates: Vec<_> = output.mutations.iter().map(|m| (m.key(), m.update())).collect();
        assert_eq!(updates, [("counter.run", json!(2)), ("counter.total", json!(2))]);
    }

    #[test]
    fn one_is_added_where_nothing_is_said() {
        let ctx = Context::for_test();
        assert_eq!(counter(1, &ctx).unwrap(), Counts { run: 1, total: 1 });
        let tool = &Exported::describe().tools[0];
        assert_eq!(tool.parameters["properties"]["by"]["default"], 1);
    }

    #[test]
    fn its_keys_commute_and_have_their_own_lives() {
        let state = Exported::describe().state;
        let keys: Vec<_> = state.iter().map(|access| access.defines.as_ref().unwrap()).collect();
        assert!(keys.iter().all(|key| key.reducer == Reducer::Add && key.initial == json!(0)));
        assert_eq!((keys[0].scope, keys[0].persistent), (Scope::Run, false));
        assert_eq!((keys[1].scope, keys[1].persistent), (Scope::Thread, true));
    }
}
