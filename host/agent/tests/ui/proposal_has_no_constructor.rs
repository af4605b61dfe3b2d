use std::sync::Arc;
use tollgate_agent::catalog::Tool;
use tollgate_agent::proposal::{Arguments, Proposal};

fn skip_the_check(tool: Arc<Tool>, arguments: Arguments) -> Proposal {
    Proposal::recorded("a", tool, arguments)
}

fn main() {}
