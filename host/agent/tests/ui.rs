//! Code that must not compile: running a call that no gate judged.

#[test]
fn g1_a_permit_is_made_by_the_gates_alone_and_a_proposal_by_its_check() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
