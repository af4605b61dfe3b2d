//! What is not a gate does not compile, and the compiler says why.
#![allow(missing_docs)]

#[test]
fn g7_only_a_gate_is_exported() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
