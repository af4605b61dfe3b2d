//! The raw floor: the minimum cost of a fresh instance for each call. It uses the same engine,
//! component, arguments and context, an empty store, and the generated bindings. There is no
//! check, gate or state, and no limits beyond those of the engine. The guest's imports trap when
//! they are called.

use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

pub(crate) mod generated {
    #![allow(missing_docs, clippy::all, unreachable_pub)]
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "tollgate:tool/tool-component",
        ownership: Borrowing { duplicate_if_necessary: true },
        exports: { default: async },
    });
}

use generated::tollgate::tool::types;

/// A linked component, without a host around it.
#[derive(Clone)]
pub(crate) struct Floor {
    engine: Engine,
    tool: generated::ToolComponentPre<()>,
    name: &'static str,
}

impl Floor {
    /// Compiles and links a component.
    pub(crate) fn new(engine: &Engine, name: &'static str, bytes: &[u8]) -> Self {
        let component = Component::new(engine, bytes).unwrap();
        let mut linker = Linker::new(engine);
        linker.define_unknown_imports_as_traps(&component).unwrap();
        let tool = generated::ToolComponentPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
        Self { engine: engine.clone(), tool, name }
    }

    /// Calls the tool in a fresh instance and returns the length of its result.
    pub(crate) async fn call(&self, arguments: &str) -> usize {
        let mut store = Store::new(&self.engine, ());
        store.set_fuel(u64::MAX).unwrap();
        store.set_epoch_deadline(u64::MAX / 2);
        let tool = self.tool.instantiate_async(&mut store).await.unwrap();
        let returned = tool
            .tollgate_tool_tool()
            .call_execute(&mut store, arguments, context(self.name, &[]))
            .await
            .unwrap();
        returned.unwrap().result.data.len()
    }
}

/// Returns the context of a direct call of this tool, with these values of its state.
pub(crate) fn context<'a>(tool_name: &'a str, values: &'a [types::Entry<'a>]) -> types::ToolCallContext<'a> {
    types::ToolCallContext {
        call_id: "call-1",
        tool_name,
        run_identity: types::RunIdentity {
            run_id: "0199d2ae-7a4c-7c4e-8f5b-2f6e1f0f3a01",
            thread_id: "0199d2ae-7a4c-7c4e-8f5b-2f6e1f0f3a01",
            agent_id: tollgate::DIRECT_AGENT,
            parent_run_id: None,
            parent_thread_id: None,
            parent_call_id: None,
        },
        agent: types::AgentView { id: tollgate::DIRECT_AGENT, description: None, delegates: &[] },
        snapshot: types::Snapshot { revision: 0, values },
        deadline_ms: 15_000,
        attempt: 1,
        resume: None,
    }
}
