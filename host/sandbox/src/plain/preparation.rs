//! Functions that toolchains export in addition to the author's. They run while a component is
//! built, so that it is saved with an initialized interpreter.
//!
//! They must not become tools: a call would replace the author's program with another. Only the
//! type distinguishes them from an author's function of the same name, so the whole type has to
//! match.

use super::shape::Shape;

/// The exports of componentize-qjs, and of jco, which includes it. One for each of its versions.
const OF_JAVASCRIPT: [&str; 3] = [
    "init: func(shim: string, script: string) -> result<_, string>",
    "init: func(shim: string, script: string, disable-gc: bool) -> result<_, string>",
    "init: func(shim: string, script: string, entry-path: option<string>, disable-gc: bool) -> result<_, string>",
];

/// Returns whether a function of this signature, outside any interface, prepares the JavaScript
/// component that contains it.
pub(super) fn is_of_javascript(signature: &str) -> bool {
    OF_JAVASCRIPT.contains(&signature)
}

/// Returns whether a function of this interface prepares a Python component, as componentize-py
/// exports it. `symbols` are the functions and types of the author's world; their details differ
/// between versions.
pub(super) fn is_of_python(
    interface: &str,
    function: &str,
    parameters: &[(String, Shape)],
    result: Option<&Shape>,
) -> bool {
    let named: Vec<(&str, &Shape)> = parameters.iter().map(|(name, shape)| (name.as_str(), shape)).collect();
    let symbols = match named[..] {
        [("app-name", Shape::String), ("symbols", Shape::Record(symbols))]
        | [("app-name", Shape::String), ("symbols", Shape::Record(symbols)), ("stub-wasi", Shape::Bool)] => {
            symbols
        }
        _ => return false,
    };
    let fails_in_words =
        matches!(result, Some(Shape::Result(None, Some(err))) if matches!(**err, Shape::String));
    let lists = |name: &str| symbols.iter().any(|(of, shape)| of == name && matches!(shape, Shape::List(_)));
    (interface, function) == ("exports", "init")
        && fails_in_words
        && lists("exports")
        && (lists("types") || lists("records") && lists("variants"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Shape {
        Shape::List(Box::new(Shape::String))
    }

    fn symbols(lists: &[&str]) -> (String, Shape) {
        ("symbols".to_owned(), Shape::Record(lists.iter().map(|name| ((*name).to_owned(), list())).collect()))
    }

    #[test]
    fn only_a_whole_type_is_a_toolchains() {
        let fails = |err| Some(Shape::Result(None, Some(Box::new(err))));
        let app = || ("app-name".to_owned(), Shape::String);
        let stub = || ("stub-wasi".to_owned(), Shape::Bool);
        let newest = || vec![app(), symbols(&["exports", "records", "variants"]), stub()];
        let is = |interface: &str, function: &str, parameters: &[(String, Shape)], result: Option<Shape>| {
            is_of_python(interface, function, parameters, result.as_ref())
        };
        assert!(is("exports", "init", &newest(), fails(Shape::String)));
        assert!(is("exports", "init", &[app(), symbols(&["exports", "types"])], fails(Shape::String)));

        assert!(!is("docs:exports/exports", "init", &newest(), fails(Shape::String)));
        assert!(!is("exports", "start", &newest(), fails(Shape::String)));
        assert!(!is("exports", "init", &newest(), fails(Shape::Bool)));
        assert!(!is("exports", "init", &newest(), Some(Shape::String)));
        assert!(!is("exports", "init", &newest(), None));
        assert!(!is("exports", "init", &[app()], fails(Shape::String)));
        assert!(!is("exports", "init", &[app(), symbols(&["exports"]), stub()], fails(Shape::String)));
        let turned = [symbols(&["exports", "types"]), app()];
        assert!(!is("exports", "init", &turned, fails(Shape::String)));
    }
}
