//! `tollgate:tool/agents`, refusing: no delegate can be granted to a component.

use crate::instance::Instance;
use crate::v0_1_0::agents::{self, ChildError, ChildOutcome, ChildRun};
use wasmtime::component::{HasSelf, Linker};

pub(crate) fn add_refusing(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    agents::add_to_linker::<_, HasSelf<Instance>>(linker, |instance| instance)
}

impl agents::Host for Instance {
    fn run_child(&mut self, request: ChildRun) -> Result<ChildOutcome, ChildError> {
        let agent = tollgate_agent::text::clean(&request.agent_id, 64);
        Err(ChildError::NotGranted(format!("The agent '{agent}' is not granted to this component.")))
    }
}

impl crate::v0_1_0::types::Host for Instance {}
