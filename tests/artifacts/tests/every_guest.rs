//! Every guest assembles and matches its header.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;

use tollgate_artifacts::{Expectation, GATES, GOOD, Guest, HOSTILE, good, hostile};
use wasmparser::{ComponentExternalKind, Parser, Payload, Validator, WasmFeatures};

#[test]
fn every_guest_assembles() {
    for guest in HOSTILE.iter().chain(GATES).chain(GOOD) {
        assert!(!guest.bytes().is_empty(), "{}", guest.name);
    }
}

#[test]
fn guests_that_load_are_valid_components_that_export_the_tool_interface_unless_they_are_plain() {
    for guest in loadable() {
        let bytes = guest.bytes();
        let mut validator = Validator::new_with_features(WasmFeatures::all());
        validator.validate_all(&bytes).unwrap_or_else(|why| panic!("{}: {why}", guest.name));
        let exports = exports(&bytes);
        match guest.name.starts_with("plain-") || guest.name == "sparse-data" {
            false => assert_eq!(exports, ["tollgate:tool/tool@0.1.0"], "{}", guest.name),
            true => assert!(exports.iter().all(|name| !name.starts_with("tollgate:")), "{exports:?}"),
        }
    }
}

#[test]
fn guests_import_what_their_header_says_and_no_more() {
    let types = "tollgate:tool/types@0.1.0";
    assert_eq!(imports(&good::ECHO.bytes()), [types]);
    assert_eq!(imports(&hostile::EXIT.bytes()), ["wasi:cli/exit@0.2.12", types]);
}

#[test]
fn good_guests_load() {
    for guest in GOOD {
        assert!(!matches!(guest.expects, Expectation::Refused(_)), "{}", guest.name);
    }
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = HOSTILE.iter().chain(GOOD).map(|guest| guest.name).collect();
    assert_eq!(names.len(), HOSTILE.len() + GOOD.len());
}

#[test]
fn a_guest_is_written_under_its_name() {
    let folder = std::env::temp_dir();
    let path = good::ECHO.write_to(&folder);
    assert_eq!(path, folder.join("echo.wasm"));
    assert_eq!(std::fs::read(&path).unwrap(), good::ECHO.bytes());
}

fn loadable() -> impl Iterator<Item = &'static Guest> {
    let all = HOSTILE.iter().chain(GOOD);
    all.filter(|guest| !matches!(guest.expects, Expectation::Refused(_)))
}

fn imports(component: &[u8]) -> Vec<String> {
    top_level(component, |payload, names| {
        if let Payload::ComponentImportSection(section) = payload {
            names.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
        }
    })
}

fn exports(component: &[u8]) -> Vec<String> {
    top_level(component, |payload, names| {
        if let Payload::ComponentExportSection(section) = payload {
            let exports = section.into_iter().map(Result::unwrap);
            let instances = exports.filter(|export| export.kind == ComponentExternalKind::Instance);
            names.extend(instances.map(|export| export.name.name.to_owned()));
        }
    })
}

/// Returns the values that `collect` finds in the outermost component's sections.
fn top_level(component: &[u8], collect: impl Fn(Payload<'_>, &mut Vec<String>)) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            payload if depth == 0 => collect(payload, &mut names),
            _ => {}
        }
    }
    names
}
