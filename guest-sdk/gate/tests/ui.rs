//! Types that are not gates do not compile, and the compiler explains why.
#![allow(missing_docs)]

#[test]
fn g7_only_a_gate_is_exported() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
