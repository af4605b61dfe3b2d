//! Tests of `tollgate new` and `tollgate build`.

use crate::place::Place;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tollgate_artifacts::good;

fn sdk() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").display().to_string()
}

#[test]
fn a_new_tool_is_built_and_answers_at_once() {
    let place = Place::new();
    place.type_in(&["new", "hello", "--lang", "rust", "--sdk", &sdk()]).ends_with(0).says("build hello");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-tool");
    let build_with = |options: &[&str]| {
        let mut command = place.tollgate(&[&["build", "hello"], options].concat());
        crate::place::Said::of(&command.env("CARGO_TARGET_DIR", &target).assert()).ends_with(0)
    };
    let build = || build_with(&[]);
    build().answers("built hello").says("Compiling hello").says("call hello '{\"name\":\"...\"}'");
    assert!(place.path().join("tools/hello.wasm").is_file());
    build().answers("unchanged hello");
    assert_eq!(build_with(&["--quiet"]).answers("unchanged hello").stderr, "");
    let said = place.type_in(&["call", "hello", r#"{"name": "Ada", "times": 2}"#]).ends_with(0);
    assert_eq!(said.stdout, "Hello, Ada! Hello, Ada!\n");
    let answer =
        place.type_in(&["call", "hello", r#"{"name": "Ada", "times": 11}"#, "--json"]).ends_with(1).json();
    assert_eq!(answer["error"]["code"], "tool_error");
}

/// Cargo takes packages of one name for one package, wherever they are.
#[test]
fn projects_of_one_name_that_share_a_target_directory_do_not_get_each_others_tool() {
    let (one, other) = (Place::new(), Place::new());
    for place in [&one, &other] {
        place.type_in(&["new", "hello", "--sdk", &sdk()]).ends_with(0);
    }
    // Older than the first build, so that cargo sees no change.
    let source = other.path().join("hello/src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap().replace("Hello, ", "Servus, ");
    std::fs::write(&source, text).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-tool");
    for _ in 0..2 {
        for (place, greeting) in [(&one, "Hello, Ada!\n"), (&other, "Servus, Ada!\n")] {
            let mut build = place.tollgate(&["build", "hello"]);
            crate::place::Said::of(&build.env("CARGO_TARGET_DIR", &target).assert()).ends_with(0);
            assert_eq!(place.type_in(&["call", "hello", r#"{"name": "Ada"}"#]).ends_with(0).stdout, greeting);
        }
    }
}

/// The tool's name is a keyword of the language. Cargo tests the project exactly as a person finds
/// it.
#[test]
fn a_new_tool_passes_its_test_and_may_be_called_as_a_keyword() {
    let place = Place::new();
    place.type_in(&["new", "match", "--sdk", &sdk()]).ends_with(0);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-tool");
    let mut build = place.tollgate(&["build", "match"]);
    crate::place::Said::of(&build.env("CARGO_TARGET_DIR", &target).assert()).ends_with(0).answers("match");
    let said = place.type_in(&["call", "match", r#"{"name": "Ada"}"#]).ends_with(0);
    assert_eq!(said.stdout, "Hello, Ada!\n");
    let tested = std::process::Command::new(env!("CARGO"))
        .arg("test")
        .current_dir(place.path().join("match"))
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{words}{}", String::from_utf8_lossy(&tested.stderr));
    assert!(words.contains("2 passed"), "{words}");
}

#[test]
fn the_text_format_is_a_language_without_a_compiler() {
    let place = Place::new();
    place.type_in(&["new", "say-hello", "--lang", "wat"]).ends_with(0).answers("say-hello/tool.wat");
    let mut build = place.tollgate(&["build"]);
    // From within the project, as its README shows; the tools directory is beside it.
    let build = build.current_dir(place.path().join("say-hello")).env("PATH", place.path());
    crate::place::Said::of(&build.assert()).ends_with(0).answers("built say-hello").says("cd .. && ");
    let long = "é".repeat(50_000);
    for name in ["Ada", "", &long] {
        let arguments = serde_json::json!({"name": name}).to_string();
        let said = place.type_in(&["call", "say-hello", &arguments]).ends_with(0);
        let greeting = format!("Hello, {name}!\n");
        assert!(
            said.stdout == greeting || name == long && said.stdout.contains("Hello, éé"),
            "{}",
            said.stdout
        );
    }
    let readme = std::fs::read_to_string(place.path().join("say-hello/README.md")).unwrap();
    assert!(readme.contains("tollgate call say-hello '{\"name\": \"Ada\"}'"), "{readme}");
}

#[test]
fn a_version_that_is_not_served_is_not_called_ready() {
    let place = Place::new();
    place.type_in(&["new", "greet", "--lang", "wat"]).ends_with(0);
    place.write("greet/greet.toml", "[asks]\nhttp = [\"https://a.test/\"]\n");
    place.type_in(&["build", "greet"]).ends_with(0).says("next: ");
    place.type_in(&["grant", "greet", "--asked"]).ends_with(0);
    place.write("greet/greet.toml", "[asks]\nhttp = [\"https://a.test/\", \"https://b.test/\"]\n");
    let built = place.type_in(&["build", "greet"]).ends_with(0);
    let built = built.says("greet.wasm is not served: ").says("tollgate grant greet --asked");
    assert!(!built.stderr.contains("next: "), "{}", built.stderr);
    let built = place.type_in(&["build", "greet", "--json"]).ends_with(0).json();
    assert!(built[0]["not_served"].as_str().unwrap().contains("asks for more"), "{built}");
    let granted = place.type_in(&["grant", "greet", "--http", "https://b.test/"]).ends_with(0);
    granted.says("greet is not served yet").says("tollgate grant greet --asked");
    place.type_in(&["grant", "greet", "--asked"]).ends_with(0);
    place.type_in(&["call", "greet", r#"{"name": "Ada"}"#]).ends_with(0);
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
        ("c", "a compiler is missing: zig; run: tollgate toolchains install c"),
        ("go", "a compiler is missing: go; run: tollgate toolchains install go"),
        ("javascript", "compilers are missing: node, tsc, esbuild, componentize-qjs; run: "),
        ("typescript", ", then tollgate toolchains install javascript"),
        ("python", "a compiler is missing: componentize-py; run: tollgate toolchains install python"),
    ] {
        let name = format!("hello-{language}");
        place.type_in(&["new", &name, "--lang", language, "--sdk", &sdk()]).ends_with(0).says("build hello");
        build(&name).says(missing);
    }
    build("hello-rust").says("Install it from https://rustup.rs, then try again");
    // The second program is still missing.
    place.write("esbuild", "");
    build("hello-typescript").says("compilers are missing: node, tsc, componentize-qjs; run: ");
}

/// Writes a compiler that does this work, and then copies a component to the requested path.
fn write_compiler(place: &Place, work: &str) {
    place.write(
        "compiler/componentize-py",
        format!(
            "#!/bin/sh\n{work}\nfor out; do :; done\ncp '{}' \"$out\"\n",
            place.path().join("made.wasm").display()
        ),
    );
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path().join("compiler/componentize-py"), executable).unwrap();
}

#[test]
fn another_compiler_compiles_anew_and_one_that_went_does_not_matter() {
    let place = Place::new();
    std::fs::write(place.path().join("made.wasm"), good::PLAIN_DIVIDE.bytes()).unwrap();
    place.type_in(&["new", "hello", "--lang", "python", "--sdk", &sdk()]).ends_with(0);
    write_compiler(&place, ":");
    let path = std::env::join_paths(
        std::iter::once(place.path().join("compiler"))
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    let build = || {
        let mut build = place.tollgate(&["build", "hello"]);
        crate::place::Said::of(&build.env("PATH", &path).assert()).ends_with(0)
    };
    let compiles = |said: &crate::place::Said| said.stderr.contains("compiling with componentize-py");
    assert!(compiles(&build()));
    assert!(!compiles(&build()));
    write_compiler(&place, "sleep 5");
    let said = build().says("componentize-py is still running after 4 s");
    assert!(compiles(&said));
    assert!(!compiles(&build()));
    std::fs::remove_file(place.path().join("compiler/componentize-py")).unwrap();
    assert!(!compiles(&build()));
}

#[test]
fn what_cannot_be_started_says_why() {
    let place = Place::new();
    place.type_in(&["new", "Hello"]).ends_with(2).says("it must fit [a-z][a-z0-9-]{0,63}");
    place.type_in(&["new", "host"]).ends_with(2).says("not be host or tollgate");
    place.type_in(&["new", "../x"]).ends_with(2);
    place.type_in(&["new", "super"]).ends_with(2).says("a Rust function cannot have this name");
    place.type_in(&["new", "search-history"]).ends_with(2).says("such as my-search-history");
    place.write("there/file", "");
    place.type_in(&["new", "there"]).ends_with(2).says("there already exists");
    place
        .type_in(&["new", "x", "--sdk", "nowhere"])
        .ends_with(2)
        .says("--sdk must name the directory guest-sdk");
    assert!(!place.path().join("x").exists());
}

#[test]
fn what_cannot_be_built_says_why() {
    let place = Place::new();
    place.type_in(&["build"]).ends_with(2).says("it has no Cargo.toml");
    place.type_in(&["build", "nowhere"]).ends_with(2).says("it has no Cargo.toml");
}
