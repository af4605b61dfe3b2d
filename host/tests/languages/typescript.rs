//! The types of the library for TypeScript: the compiler has nothing to say against it,
//! the example and a new project, and something against code that does not fit them.

use crate::projects::tollgate;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// What the compiler says of a project; nothing where it is well typed.
fn tsc(project: &Path) -> String {
    let said = Command::new("tsc").args(["--noEmit", "--project"]).arg(project).output().unwrap();
    let words = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert_eq!(said.status.success(), words.is_empty(), "{words}");
    words
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_library_and_the_example_are_well_typed() {
    for project in ["guest-sdk/js", "example-tools/text-stats/typescript"] {
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
        ("minimum: 1", "minimum: wanted"),
        ("({ name, times })", "({ name, time })"),
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
