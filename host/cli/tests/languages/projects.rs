//! Tests of `tollgate new` in every language: its own test passes, it is built and answers, and
//! nothing is rebuilt without changes.

use crate::built::cache;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// A language that has a compiler, and its new projects.
struct Project {
    language: &'static str,
    /// A project name that the language reserves, such as a keyword or a package, if there is one.
    name: &'static str,
    /// The file for a person to edit.
    source: &'static str,
    /// A dependency of the tool outside its project, if allowed: the line that imports it, the
    /// file, and the file's contents.
    beside: Option<[&'static str; 3]>,
    /// The commands that run its own tests.
    tests: &'static [&'static str],
    /// The step of its compiler in the progress of `build`.
    step: &'static str,
    /// The message of `build` if the compiler is missing.
    missing: &'static str,
}

const NPM: &str = "npm install --silent --no-audit --no-fund";

const PROJECTS: [Project; 5] = [
    Project {
        language: "c",
        name: "hello-struct",
        source: "tool.c",
        beside: Some(["#include \"../beside.h\"", "beside.h", "#define BESIDE"]),
        tests: &[
            "mkdir -p build",
            "zig cc -I $SDK/c -o build/test test.c tool.c $SDK/c/tollgate_testing.c",
            "build/test",
        ],
        step: "compiling with zig cc",
        missing: "a compiler is missing: zig; run: tollgate toolchains install c",
    },
    Project {
        language: "go",
        name: "strings",
        source: "tool.go",
        beside: None,
        tests: &["go test"],
        step: "compiling with go",
        missing: "a compiler is missing: go; run: tollgate toolchains install go",
    },
    Project {
        language: "javascript",
        name: "function",
        source: "tool.js",
        beside: Some(["import \"../beside.js\";", "beside.js", "export const beside = 1;"]),
        tests: &[NPM, "npm test --silent"],
        step: "compiling with esbuild and componentize-qjs",
        missing: "compilers are missing: node, tsc, esbuild, componentize-qjs",
    },
    Project {
        language: "typescript",
        name: "interface",
        source: "tool.ts",
        beside: Some(["import \"../beside\";", "beside.ts", "export const beside: number = 1;"]),
        tests: &[NPM, "npm test --silent", "npm run check --silent"],
        step: "compiling with esbuild and componentize-qjs",
        missing: "compilers are missing: node, tsc, esbuild, componentize-qjs",
    },
    Project {
        language: "python",
        name: "class",
        source: "tool.py",
        beside: None,
        tests: &["python3 -m unittest"],
        step: "compiling with componentize-py",
        missing: "a compiler is missing: componentize-py; run: tollgate toolchains install python",
    },
];

pub(crate) fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).current_dir(place);
    command.env("TOLLGATE_DATA", place.join("data")).env("TOLLGATE_CACHE", cache());
    command
}

/// Returns whether a command succeeded, and its standard output and error.
pub(crate) fn said(command: &mut Command) -> (bool, String, String) {
    parts(command.output().unwrap())
}

fn parts(said: Output) -> (bool, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (said.status.success(), text(said.stdout), text(said.stderr))
}

/// Runs `tollgate` with a person's arguments and returns its output.
pub(crate) fn tollgate(place: &Path, arguments: &[&str]) -> String {
    let (success, answer, words) = said(&mut command(place, arguments));
    assert!(success, "{arguments:?}: {words}");
    answer
}

/// Makes a command that runs in an empty home directory, without anything of this environment but the
/// path. The compilers keep what they downloaded and compiled.
fn in_a_new_home(place: &Path, program: &str) -> Command {
    let home = place.join("home");
    let caches =
        ["CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOCACHE", "ZIG_GLOBAL_CACHE_DIR", "npm_config_cache"];
    let usual = [".cargo", ".rustup", "go", ".cache/go-build", ".cache/zig", ".npm"];
    let of_home = std::env::home_dir().unwrap();
    let kept = caches.into_iter().zip(usual).map(|(variable, usual)| {
        (variable, std::env::var_os(variable).unwrap_or_else(|| of_home.join(usual).into_os_string()))
    });
    fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(program);
    command.current_dir(place).env_clear().envs(kept).env("HOME", home).env("LANG", "C.UTF-8");
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("TOLLGATE_CACHE", cache());
    command
}

/// Makes a command of a person who has only the program, and no checkout.
fn newcomer(place: &Path, arguments: &[&str]) -> Command {
    let mut command = in_a_new_home(place, env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments);
    command
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_new_project_passes_its_test_is_built_once_and_answers() {
    let place = tempfile::tempdir().unwrap();
    let type_in = |arguments: &[&str]| {
        let (success, answer, words) = said(&mut newcomer(place.path(), arguments));
        assert!(success, "{arguments:?}: {words}");
        answer
    };
    for project in &PROJECTS {
        let Project { language, name, .. } = *project;
        type_in(&["new", name, "--lang", language]);
        let versions = place.path().join("home/.local/share/tollgate/sdk");
        let sdk = fs::read_dir(versions).unwrap().next().unwrap().unwrap().path().join("guest-sdk");
        for step in project.tests {
            let mut tested = in_a_new_home(place.path(), "sh");
            tested.args(["-c", step]).current_dir(place.path().join(name));
            let tested = tested.env("SDK", &sdk).env("PYTHONPATH", sdk.join("python")).output().unwrap();
            let words = [tested.stdout, tested.stderr].concat();
            assert!(tested.status.success(), "{language}: {step}: {}", String::from_utf8_lossy(&words));
        }
        type_in(&["test", name]);
        if language == "typescript" {
            let source = place.path().join(name).join(project.source);
            let text = fs::read_to_string(&source).unwrap();
            fs::write(&source, format!("{text}\nexport const wrong: number = \"\";\n")).unwrap();
            let (success, _, words) = said(&mut newcomer(place.path(), &["test", name]));
            assert!(!success && words.contains("TS2322"), "types are not checked: {words}");
            fs::write(&source, text).unwrap();
        }
        is_built_once(place.path(), project);
        let said = type_in(&["call", &name.replace('-', "_"), r#"{"name": "Ada", "times": 2}"#]);
        assert_eq!(said, "Hello, Ada! Hello, Ada!\n", "{language}");
    }
}

/// Builds a new project: without its compiler, with it, again, and after a change.
fn is_built_once(place: &Path, project: &Project) {
    let Project { language, name, source, beside, step, missing, .. } = project;
    let source = place.join(name).join(source);
    if let Some([line, file, text]) = beside {
        fs::write(place.join(file), text).unwrap();
        fs::write(&source, format!("{line}\n{}", fs::read_to_string(&source).unwrap())).unwrap();
    }
    let build = || newcomer(place, &["build", name]);
    let nothing = place.join("nothing");
    fs::create_dir_all(&nothing).unwrap();

    let (success, answer, words) = said(build().env("PATH", &nothing));
    assert!(!success && words.contains(missing), "{language}: {answer}{words}");
    let (success, answer, words) = parts(build().output().unwrap());
    let is_new = ["built", "installed"].iter().any(|what| answer.contains(&format!("{what} {name}")));
    assert!(success && is_new, "{language}: {answer}{words}");
    assert!(words.lines().any(|line| line == *step), "{language}: {words}");

    // No compiler runs without changes, because none is on the path.
    let (success, answer, words) = said(build().env("PATH", &nothing));
    assert!(success && answer.contains(&format!("unchanged {name}")), "{language}: {answer}{words}");
    assert!(!words.lines().any(|line| line == *step), "{language}: {words}");

    let would_compile = || {
        let (success, answer, words) = said(build().env("PATH", &nothing));
        assert!(!success && words.contains(missing), "{language}: {answer}{words}");
    };
    if let Some([_, file, text]) = beside {
        fs::write(place.join(file), format!("{text}\n")).unwrap();
        would_compile();
        fs::write(place.join(file), text).unwrap();
        assert!(said(build().env("PATH", &nothing)).0, "{language}");
    }
    OpenOptions::new().append(true).open(source).unwrap().write_all(b"\n").unwrap();
    would_compile();
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_functions_in_which_a_tool_in_c_traps_have_names() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    let place = tempfile::tempdir().unwrap();
    tollgate(place.path(), &["new", "broken", "--lang", "c", "--sdk", sdk.to_str().unwrap()]);
    let source = place.path().join("broken/tool.c");
    let code = fs::read_to_string(&source).unwrap();
    let (before, call) = ("static void greet(", "  json_writer greeting = {0}");
    assert!(code.contains(before) && code.contains(call), "{code}");
    let code = code
        .replace(before, "#include <stdlib.h>\n\n__attribute__((noinline)) void explode(void) { abort(); }\n\nstatic void greet(")
        .replace(call, "  if (times == 10) explode();\n  json_writer greeting = {0}");
    fs::write(&source, code).unwrap();
    let built = command(place.path(), &["build", "broken"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let arguments = r#"{"name": "Ada", "times": 10}"#;
    let (success, answer, words) = said(&mut command(place.path(), &["call", "broken", arguments]));
    assert!(!success && words.contains("it aborted") && words.contains("explode"), "{answer}{words}");
}

#[test]
fn the_text_format_needs_no_compiler() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/text-format");
    let place = tempfile::tempdir().unwrap();
    tollgate(place.path(), &["build", project.to_str().unwrap()]);
    let said = tollgate(place.path(), &["call", "return_arguments", r#"{"any":["object"]}"#, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["data"], serde_json::json!({"any": ["object"]}));
}
