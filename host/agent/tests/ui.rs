//! Tests that code which runs a call without a gate's verdict does not compile.

#[test]
fn g1_a_permit_is_made_by_the_gates_alone_and_a_proposal_by_its_check() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
