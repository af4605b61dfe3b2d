use tollgate_gate::{Gate, ProposedCall, Verdict};

struct Forgetful;

impl Gate for Forgetful {
    const ID: &'static str = "forgetful";
    const DESCRIPTION: &'static str = "Forgot to say what its settings are.";

    fn judge(_: &ProposedCall, _: &Self::Settings) -> Verdict {
        Verdict::Allow
    }
}

fn main() {}
