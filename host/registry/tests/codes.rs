//! Every code of this crate is explained in docs/registry-codes.md, and nothing else is.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;
use tollgate_registry::{Code, Error};

/// The rows of the page: meaning and fix by code.
fn rows() -> BTreeMap<String, Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/registry-codes.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (code, rest) = row.split_once('`').unwrap();
        let cells = rest.split(" | ").skip(1).map(|cell| cell.trim_end_matches(" |").to_owned());
        (code.to_owned(), cells.collect())
    })
    .collect()
}

#[test]
fn every_code_is_explained_and_nothing_else_is() {
    let rows = rows();
    for code in Code::ALL {
        let cells = rows.get(code.as_str()).unwrap_or_else(|| panic!("`{}` is not explained", code.as_str()));
        let [exit, meaning, fix] = cells.as_slice() else { panic!("{cells:?}") };
        assert!(exit == "1" || exit == "2", "{code:?}: {exit}");
        assert!(meaning.split_whitespace().count() >= 5 && !fix.is_empty(), "{code:?}: {cells:?}");
    }
    let known: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    for code in rows.keys() {
        assert!(known.contains(&code.as_str()), "`{code}` is not a code");
    }
    assert_eq!(rows.len(), Code::ALL.len());
}

#[test]
fn a_failure_ends_with_the_fix_that_the_page_states() {
    // The page is a sentence, and a message one part of one.
    let plain = |text: &str| {
        let text = text.to_lowercase().replace('`', "");
        text.trim_end_matches('.').replace(['.', ';'], "").replace("\"host\"", "host")
    };
    let rows = rows();
    for code in Code::ALL {
        let Some(fix) = code.fix() else { continue };
        // The page may add the command.
        assert!(plain(&rows[code.as_str()][2]).starts_with(&plain(fix)), "{code:?}: {fix}");
        assert_eq!(Error::new(*code, "it failed").to_string(), format!("it failed; {fix}"));
    }
    for (code, row) in &rows {
        let code = Code::ALL.iter().find(|known| known.as_str() == code).unwrap();
        assert_eq!(row[0], if code.is_of_the_world() { "1" } else { "2" }, "{code:?}");
    }
}
