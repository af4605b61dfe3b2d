//! Tests of the types of tools in JavaScript and TypeScript. The compiler accepts the library, the
//! example and a new project, and rejects code that does not fit. Schemas are derived from the
//! types, and types that cannot be described are reported.

use crate::built::cache;
use crate::projects::{command, tollgate};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the compiler's output for a project; empty if it is well typed.
fn tsc(project: &Path) -> String {
    let said = Command::new("tsc").args(["--noEmit", "--project"]).arg(project).output().unwrap();
    let words = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert_eq!(said.status.success(), words.is_empty(), "{words}");
    words
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_library_and_its_examples_are_well_typed() {
    for project in [
        "guest-sdk/js",
        "example-tools/text-stats/typescript",
        "example-tools/weather/typescript",
        "tests/guests/tour/typescript",
    ] {
        assert_eq!(tsc(&root().join(project)), "", "{project}");
        let settings =
            Command::new("tsc").args(["--showConfig", "--project"]).arg(root().join(project)).output();
        let settings: Value = serde_json::from_slice(&settings.unwrap().stdout).unwrap();
        assert_eq!(settings["compilerOptions"]["strict"], true, "{project}: {settings}");
    }
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_new_project_is_well_typed_until_its_code_does_not_fit() {
    let place = tempfile::tempdir().unwrap();
    let sdk = root().join("guest-sdk");
    tollgate(place.path(), &["new", "hello", "--lang", "ts", "--sdk", sdk.to_str().unwrap()]);
    let project = place.path().join("hello");
    let npm = ["install", "--silent", "--no-audit", "--no-fund"];
    assert!(Command::new("npm").args(npm).current_dir(&project).status().unwrap().success());
    assert_eq!(tsc(&project), "");
    let code = fs::read_to_string(project.join("tool.ts")).unwrap();
    for (right, wrong) in [
        ("Integer<1, 10>", "Integer<1, Many>"),
        ("({ name, times = 1 }", "({ name, time = 1 }"),
        ("Array(times)", "Array(times.length)"),
        ("idempotent: true", "idempotent: \"yes\""),
        (".join(\" \")", ".join(times)"),
    ] {
        assert!(code.contains(right), "{code}");
        fs::write(project.join("tool.ts"), code.replace(right, wrong)).unwrap();
        let words = tsc(&project);
        assert!(words.contains("tool.ts(") && words.contains("error TS"), "{wrong}: {words}");
    }
}

/// Returns the directory of the library's tests.
fn library_tests() -> PathBuf {
    root().join("guest-sdk/js/tests")
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_library_passes_its_own_tests() {
    let said = Command::new("node").arg("--test").current_dir(library_tests()).output().unwrap();
    let words = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert!(said.status.success() && !words.contains("# tests 0"), "{words}");
}

/// Creates a project with this source, in a separate directory.
fn project(source: &Path) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("project");
    fs::create_dir(&dir).unwrap();
    let name = source.file_name().unwrap().to_str().unwrap();
    fs::copy(source, dir.join(name)).unwrap();
    let language = if name.ends_with(".ts") { "typescript" } else { "javascript" };
    let sdk = root().join("guest-sdk/js");
    let recipe = format!("language = \"{language}\"\nsource = \"{name}\"\nsdk = \"{}\"\n", sdk.display());
    fs::write(dir.join("tool.toml"), recipe).unwrap();
    place
}

/// Returns the command that builds such a project.
fn build(place: &Path) -> Command {
    let mut build = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    build.args(["build", "project"]).current_dir(place);
    build.env("TOLLGATE_DATA", place.join("data")).env("TOLLGATE_CACHE", cache());
    build
}

/// Returns whether such a project builds, and the standard output and error.
fn built(place: &Path) -> (bool, String, String) {
    let said = build(place).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (said.status.success(), text(said.stdout), text(said.stderr))
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_types_of_a_function_are_what_the_model_reads() {
    let expected = fs::read_to_string(library_tests().join("described/parameters.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for source in ["tool.ts", "tool.js"] {
        let place = project(&library_tests().join("described").join(source));
        let (success, _, told) = built(place.path());
        assert!(success, "{source}: {told}");
        let listed: Value = serde_json::from_str(&tollgate(place.path(), &["tools", "--json"])).unwrap();
        let tools = listed["tools"].as_array().unwrap().iter().map(|tool| {
            let words = json!({"description": tool["description"], "parameters": tool["parameters"]});
            (tool["name"].as_str().unwrap().to_owned(), words)
        });
        let tools: Value = tools.collect::<Map<_, _>>().into();
        assert_eq!(tools, expected, "{source}: {tools:#}");
        // A call with only the required arguments gets the defaults of the others.
        let arguments = json!({"what": "done", "words": ["a"], "rows": [], "scores": {}, "pair": ["a"],
            "nobody": null, "either": "none", "tree": {"label": "t", "children": []}, "any": 1, "__proto__": "p"});
        let answer = tollgate(place.path(), &["call", "all", &arguments.to_string(), "--json"]);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["data"], json!(["plain", 3, -0.5, true, 2, ["a", "]"], "1234", 1]), "{source}");
    }
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn what_cannot_be_described_is_not_built() {
    for (source, words) in
        [("tool.ts", "typescript.txt"), ("tool.js", "javascript.txt"), ("none.ts", "none.txt")]
    {
        let place = project(&library_tests().join("wrong").join(source));
        let (success, answer, told) = built(place.path());
        assert!(!success && answer.is_empty(), "{source}: {answer}{told}");
        let expected = fs::read_to_string(library_tests().join("wrong").join(words)).unwrap();
        assert!(told.contains(&expected), "{source}: {told}");
        assert!(told.contains("does not compile"), "{source}: {told}");
        assert!(!place.path().join("tools").exists(), "{source}");
    }
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_type_that_lies_elsewhere_is_part_of_what_is_built() {
    let source = "import { component } from \"tollgate\";\nimport type { Arguments } from \"../kinds\";\n\
        export const tool = component({ id: \"far\", tools: [{ name: \"far\", description: \"Far.\",\n\
        execute: (args: Arguments) => args.text }] });\n";
    let place = tempfile::tempdir().unwrap();
    let kinds = |text: &str| fs::write(place.path().join("kinds.ts"), text).unwrap();
    kinds("export interface Arguments { text: string }\n");
    fs::write(place.path().join("tool.ts"), source).unwrap();
    let far = project(&place.path().join("tool.ts"));
    fs::rename(far.path().join("project"), place.path().join("project")).unwrap();
    let answered = |what: &str| {
        let (success, answer, told) = built(place.path());
        assert!(success && answer.contains(what), "{answer}{told}");
    };
    answered("built far");
    answered("unchanged far");
    kinds("export interface Arguments { text: string; more?: number }\n");
    answered("built far");
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn packages_of_npm_are_bundled_and_missing_ones_are_explained() {
    let written = tempfile::tempdir().unwrap();
    let source = written.path().join("tool.ts");
    let write = |imported: &str| {
        let tool = "import { component } from \"tollgate\";\nexport const tool = component({ id: \"pack\", tools: [{\n\
            name: \"pack\", description: \"Packs.\", execute: () => packed(\"it\") }] });\n";
        fs::write(&source, format!("// @ts-ignore\nimport packed from \"{imported}\";\n{tool}")).unwrap();
    };
    // The oldest form of a package: one CommonJS file, which `main` names.
    write("packed");
    let place = project(&source);
    let package = place.path().join("project/node_modules/packed");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("package.json"), r#"{"name": "packed", "main": "all.js"}"#).unwrap();
    fs::write(package.join("all.js"), "module.exports = (what) => `packed ${what}`;\n").unwrap();
    let (success, _, words) = built(place.path());
    assert!(success, "{words}");
    assert_eq!(tollgate(place.path(), &["call", "pack", "{}"]), "packed it\n");

    for (imported, advice) in [
        ("node:net", "Of Node's modules, a tool can import fs and fs/promises."),
        ("@scope/none/sub", "run in the tool's directory: npm install @scope/none\n"),
    ] {
        write(imported);
        let (success, _, words) = built(project(&source).path());
        assert!(!success && words.contains(advice) && !words.contains("mark the path"), "{words}");
    }
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_stack_of_an_error_has_the_lines_of_the_source() {
    let written = tempfile::tempdir().unwrap();
    let source = written.path().join("tool.ts");
    let tool = "import { component } from \"tollgate\";\n\ninterface Nothing {\n}\n\n\
        /** Fails. */\nfunction fails(_: Nothing): string {\n  throw new Error(\"no\");\n}\n\n\
        export const tool = component({ id: \"fails\", tools: [{ name: \"fails\", execute: fails }] });\n";
    fs::write(&source, tool).unwrap();
    let place = project(&source);
    let (success, _, words) = built(place.path());
    assert!(success, "{words}");
    let called = command(place.path(), &["call", "fails", "{}"]).output().unwrap();
    let words = String::from_utf8(called.stderr).unwrap();
    assert!(words.contains("at fails (tool.ts:8)"), "{words}");
}

#[test]
fn a_compiler_without_a_module_is_told_with_what_to_type() {
    let place = project(&library_tests().join("described/tool.ts"));
    let programs = place.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let told = || {
        let said = build(place.path()).env("PATH", &programs).output().unwrap();
        assert!(!said.status.success());
        String::from_utf8(said.stderr).unwrap()
    };
    // The programs are looked up, but none is run.
    for program in ["esbuild", "componentize-qjs", "node"] {
        fs::write(programs.join(program), "").unwrap();
    }
    let words = told();
    assert!(words.contains("tsc; run: tollgate toolchains install javascript"), "{words}");
    fs::write(programs.join("tsc"), "").unwrap();
    let words = told();
    assert!(words.contains("tsc is not from TypeScript 6, which reads the types"), "{words}");
    assert!(words.contains("; run: npm install --global typescript@6, or within the project: "), "{words}");
}
