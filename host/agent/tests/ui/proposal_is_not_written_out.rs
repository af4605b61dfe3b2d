use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::catalog::Tool;
use tollgate_agent::proposal::{Arguments, Proposal};

fn forge(tool: Arc<Tool>, arguments: Arguments) -> Proposal {
    Proposal { call_id: SmolStr::default(), tool, arguments }
}

fn main() {}
