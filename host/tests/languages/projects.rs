//! `tollgate new` in every language: its own test passes, it is built, and it answers.

use std::path::Path;
use std::process::Command;

/// A language, and how a person runs its project's own tests.
const TESTS: [(&str, &[&str]); 5] = [
    ("c", &["mkdir -p build", "zig cc -o build/test test.c", "build/test"]),
    ("go", &["go test"]),
    ("javascript", &["npm install --silent --no-audit --no-fund", "npm test --silent"]),
    ("typescript", &["npm install --silent --no-audit --no-fund", "npm test --silent"]),
    ("python", &["python3 -m unittest"]),
];

fn tollgate(place: &Path, arguments: &[&str]) -> String {
    let said = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(place)
        .env("TOLLGATE_DATA", place.join("data"))
        .env("TOLLGATE_CACHE", place.join("cache"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{arguments:?}: {words}");
    String::from_utf8(said.stdout).unwrap()
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_new_project_passes_its_test_is_built_and_answers() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-sdk").canonicalize().unwrap();
    let place = tempfile::tempdir().unwrap();
    for (language, steps) in TESTS {
        let name = format!("hello-{language}");
        tollgate(place.path(), &["new", &name, "--lang", language, "--sdk", sdk.to_str().unwrap()]);
        for step in steps {
            let tested = Command::new("sh")
                .args(["-c", step])
                .current_dir(place.path().join(&name))
                .env("PYTHONPATH", sdk.join("python"))
                .output()
                .unwrap();
            let words = [tested.stdout, tested.stderr].concat();
            assert!(tested.status.success(), "{language}: {step}: {}", String::from_utf8_lossy(&words));
        }
        let built = tollgate(place.path(), &["build", &name]);
        assert!(built.contains(&format!("built {name}")), "{built}");
        let built = tollgate(place.path(), &["build", &name]);
        assert!(built.contains(&format!("unchanged {name}")), "{built}");
        let tool = name.replace('-', "_");
        let said = tollgate(place.path(), &["call", &tool, r#"{"name": "Ada", "times": 2}"#]);
        assert_eq!(said, "Hello, Ada! Hello, Ada!\n", "{language}");
    }
}

#[test]
fn the_text_format_needs_no_compiler() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/text-format");
    let place = tempfile::tempdir().unwrap();
    tollgate(place.path(), &["build", project.to_str().unwrap()]);
    let said = tollgate(place.path(), &["call", "return_arguments", r#"{"any":["object"]}"#, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["data"], serde_json::json!({"any": ["object"]}));
}
