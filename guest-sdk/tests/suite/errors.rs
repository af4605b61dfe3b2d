//! K1: the macros' error messages, word for word.

#[test]
fn k1_mistakes_are_compile_errors_that_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
