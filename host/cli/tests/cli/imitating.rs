//! Tests of untrusted text on the terminal: no line of it can be mistaken for one of the host's.

use crate::place::Place;
use tollgate_artifacts::{Expectation, Guest, good, hostile};

fn assert_marked(shown: &str) {
    assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}']), "{shown:?}");
    let imitates = |line: &&str| {
        ["error: the disk", "let it go on: tollgate decide x"].iter().any(|of| line.starts_with(of))
    };
    assert_eq!(shown.lines().find(imitates), None, "{shown}");
}

#[test]
fn z14_the_lines_of_a_ticket_are_marked() {
    let place = Place::new().with_tools(&[hostile::IMITATE_THE_HOST]).with_config("");
    let said = place.type_in(&["call", "imitate-the-host"]).ends_with(3).says("error: the disk is full");
    assert_marked(&said.stderr);
    let runs = place.type_in(&["runs", "--json"]).json();
    let run = runs[0]["run_id"].as_str().unwrap();
    let said = place.type_in(&["show", run]).ends_with(0);
    assert_marked(&said.stdout);
}

#[test]
fn z14_the_reports_of_a_tool_are_marked() {
    let place = Place::new().with_tools(&[hostile::REPORT_LIKE_THE_HOST]).with_config("");
    let said = place.type_in(&["call", "report-like-the-host"]).ends_with(0).says("to grant it: ");
    let words = ["not granted", "to grant it", "error"];
    let imitates = |line: &&str| words.iter().any(|word| line.trim_start().starts_with(word));
    assert_eq!(said.stderr.lines().find(imitates), None, "{}", said.stderr);
}

#[test]
fn z14_the_name_of_a_file_is_one_line() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("");
    place.write("tools/x\nerror: the disk is full\u{1b}[2J.wasm", "no component");
    for arguments in
        [&["tools"][..], &["call", "nothing"], &["inspect", "tools/x\nerror: the disk is full\u{1b}[2J.wasm"]]
    {
        let said = place.type_in(arguments);
        assert_marked(&said.stderr);
        assert_marked(&said.stdout);
        assert!(format!("{}{}", said.stdout, said.stderr).contains("the disk is full"), "{said:?}");
    }
}

/// Returns a component that imports a function of this name.
fn importing(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    // The type of a function without parameters and result, and an import of that type.
    bytes.extend([7, 5, 1, 0x40, 0, 1, 0]);
    bytes.extend([10, length + 5, 1, 0, length]);
    bytes.extend(name.as_bytes());
    bytes.extend([1, 0]);
    bytes
}

#[test]
fn z14_the_name_of_an_import_is_marked() {
    let place = Place::new().with_config("");
    let name = "url=<a\u{1b}[2J\nerror: the disk is full\u{202e}>";
    place.write("tools/imports.wasm", importing(name));
    for arguments in [&["tools"][..], &["inspect", "tools/imports.wasm"]] {
        let said = place.type_in(arguments);
        assert_marked(&said.stdout);
        assert_marked(&said.stderr);
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(shown.contains("| error: the disk is full"), "{arguments:?}: {shown}");
    }
}

#[test]
fn z14_json_shows_a_terminal_nothing_to_obey() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("");
    let said = place.type_in(&["call", "echo", "{\"a\": \"\u{9b}2J\u{202e}\"}", "--json"]).ends_with(0);
    assert!(!said.stdout.contains(['\u{9b}', '\u{202e}']), "{:?}", said.stdout);
    assert_eq!(said.json()["data"]["a"], "\u{9b}2J\u{202e}");
}

#[test]
fn z14_the_call_that_is_suggested_for_a_tool_is_one_command() {
    let place = Place::new().with_tools(&[hostile::DEFAULT_FOR_THE_SHELL]).with_config("");
    for arguments in [&["tools"][..], &["tools", "default-for-the-shell"]] {
        let said = place.type_in(arguments).ends_with(0).stderr;
        let line = said.lines().find(|line| line.contains(" call default-for-the-shell ")).expect(&said);
        let (_, typed) = line.split_once("default-for-the-shell ").unwrap();
        let said = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {typed}")])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert_eq!(said.stdout.split(|byte| *byte == b'\n').count(), 2, "several words: {line}");
        assert!(!place.path().join("owned").exists(), "{line}");
    }
}

#[test]
fn z14_a_file_that_is_suggested_is_one_word() {
    let place = Place::new().with_config("");
    for (file, version) in [("a; touch owned", "1.0.0"), ("b", "2.0.0")] {
        let source = format!(
            ";; Has an id.\n;;\n;; descriptor: {{\"version\": \"{version}\"}}\n;; expects: succeeds\n"
        );
        let source = Box::leak(source.into_boxed_str());
        let guest = Guest { name: "twice", attack: "", limit: "", expects: Expectation::Succeeds, source };
        place.write(&format!("tools/{file}.wasm"), guest.bytes());
    }
    let listed = place.type_in(&["tools"]).ends_with(0).stdout;
    assert!(listed.contains("--file 'tools/a; touch owned.wasm'"), "{listed}");
    let said = place.type_in(&["grant", "twice", "--asked"]).ends_with(2).stderr;
    assert!(said.contains("--file 'tools/a; touch owned.wasm'"), "{said}");
}

#[test]
fn z14_a_manifest_that_cannot_be_read_ends_nothing() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("");
    for manifest in ["x = ".to_owned() + &"[".repeat(60_000), "a.".repeat(30_000), "[a]\n".repeat(15_000)] {
        place.write("tools/echo.toml", &manifest);
        let said = place.type_in(&["tools"]).ends_with(0);
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(
            shown.contains("its manifest") && shown.len() < 8_000,
            "{} bytes: {shown:.3000}",
            shown.len()
        );
    }
}
