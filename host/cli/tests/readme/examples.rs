//! Tests that the programs in `host/examples` print the output in their documentation.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The minimum number of examples.
const FEWEST: usize = 13;
/// The maximum length of an example, in lines.
const LONGEST_LINES: usize = 90;

#[test]
fn every_example_prints_what_it_says() {
    let examples = examples();
    assert!(examples.len() >= FEWEST, "{examples:?}");
    for source in examples {
        let text = std::fs::read_to_string(&source).unwrap();
        let said = said_to_be_printed(&text);
        assert!(!said.is_empty(), "{} does not say what it prints", source.display());
        let output = Command::new(built(&source)).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", source.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{}: {errors}", source.display());
    }
}

#[test]
fn the_example_in_python_passes_its_own_tests() {
    let place = tempfile::tempdir().unwrap();
    let search = root().join("host/examples/search");
    // The interpreter writes its caches beside the files that it runs.
    for file in ["tool.py", "test_tool.py", "tool.toml"] {
        let text = std::fs::read_to_string(search.join(file)).unwrap();
        let sdk = root().join("guest-sdk/python");
        let text = text.replace("../../../guest-sdk/python", sdk.to_str().unwrap());
        std::fs::write(place.path().join(file), text).unwrap();
    }
    let mut test = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    test.args(["test", "."]).current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
    let output = test.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("Ran 2 tests"), "{said}");
}

#[test]
fn every_example_is_read_in_a_minute() {
    for source in examples() {
        let lines = std::fs::read_to_string(&source).unwrap().lines().count();
        assert!(lines <= LONGEST_LINES, "{} has {lines} lines", source.display());
    }
}

/// Returns the sources, one for each example.
fn examples() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("host/examples")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    files.sort();
    files
}

/// Returns the example's program in the directory in which cargo builds the tests.
fn built(source: &Path) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let program = beside.join("examples").join(source.file_stem().unwrap());
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let is_new = changed(&program).is_some_and(|built| Some(built) >= changed(source));
    assert!(is_new, "{} is not built yet: cargo build --workspace --examples", program.display());
    program
}

/// Returns the block of output in an example's documentation.
fn said_to_be_printed(source: &str) -> String {
    let documentation = source.lines().map_while(|line| line.strip_prefix("//!"));
    let block = documentation.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let block = block.skip_while(|line| *line != "```text").skip(1).take_while(|line| *line != "```");
    block.flat_map(|line| [line, "\n"]).collect()
}
