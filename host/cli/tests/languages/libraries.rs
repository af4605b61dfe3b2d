//! Runs the tests of the guest libraries, each in its own language, and the tools in their guides.

use crate::projects::{command, said, tollgate};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_libraries_pass_their_own_tests() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    // The output of `go` and `python3` if they found tests: finding none is a failure.
    for (folder, step, said) in [
        ("go", "go test -count=1 -v ./...", "--- PASS: TestSchema"),
        ("tests/python", "python3 -m unittest discover", "Ran "),
    ] {
        let tested = Command::new("sh")
            .args(["-c", step])
            .current_dir(sdk.join(folder))
            .env("PYTHONPATH", sdk.join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let words = String::from_utf8([tested.stdout, tested.stderr].concat()).unwrap();
        assert!(tested.status.success(), "{folder}: {words}");
        assert!(words.contains(said) && !words.contains("Ran 0 tests"), "{folder}: {words}");
    }
}

/// Returns the longest block of code in a guide.
fn example(guide: &str, fence: &str) -> String {
    let start = format!("```{fence}\n");
    let blocks = guide.split(&start).skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.max_by_key(|block| block.len()).unwrap().to_owned()
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_tools_in_the_guides_work() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    for (language, folder, fence, source) in [
        ("c", "c", "c", "tool.c"),
        ("go", "go", "go", "tool.go"),
        ("typescript", "js", "ts", "tool.ts"),
        ("python", "python", "python", "tool.py"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let call = |tool: &str, text: &str| {
            let (_, answer, words) = said(&mut command(place.path(), &["call", tool, text, "--thread", "t"]));
            answer + &words
        };
        tollgate(place.path(), &["new", "notes", "--lang", language, "--sdk", sdk.to_str().unwrap()]);
        let guide = fs::read_to_string(sdk.join(folder).join("README.md")).unwrap();
        fs::write(place.path().join("notes").join(source), example(&guide, fence)).unwrap();
        let built = command(place.path(), &["build", "notes"]).output().unwrap();
        assert!(built.status.success(), "{language}: {}", String::from_utf8_lossy(&built.stderr));
        for (tool, arguments, part) in [
            ("add_note", r#"{"text": ""}"#, "A note needs text."),
            ("add_note", r#"{"text": "milk"}"#, "1"),
            ("add_note", r#"{"text": "bread"}"#, "2"),
            ("publish", "{}", "Publish 2 notes?"),
        ] {
            let answer = call(tool, arguments);
            assert!(answer.contains(part), "{language}: {tool} {arguments}: {answer}");
        }
    }
}
