use tollgate_agent::gate::Permit;
use tollgate_agent::proposal::Proposal;

fn forge(proposal: Proposal) -> Permit {
    Permit { proposal }
}

fn main() {}
