struct Nothing;

tollgate_gate::export_gate!(Nothing);

fn main() {}
