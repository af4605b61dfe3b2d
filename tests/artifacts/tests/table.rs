//! The table of attacks in the documentation is made from the guests, and is current.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::path::Path;
use tollgate_artifacts::{Guest, HOSTILE};

const HEAD: &str = "\
# Attacks\n\n\
What the hostile guests in [tests/guests/hostile](../tests/guests/hostile) try, what\n\
stops each, and how it ends. A code ends a call; a refusal keeps the component from\n\
being loaded; a result means that the attempt came to nothing, and the guest went on.\n\
Each is run by the tests, which also make this page:\n\
`TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-artifacts --test table`.\n\n\
| attack | what it does | stopped by | ends as |\n|---|---|---|---|\n";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for guest in HOSTILE {
        let Guest { name, attack, limit, expects, .. } = guest;
        let in_cell = |text: &str| text.replace('|', "\\|");
        let file = format!("[{name}](../tests/guests/hostile/{name}.wat)");
        writeln!(
            page,
            "| {file} | {} | {} | {} |",
            in_cell(attack),
            in_cell(limit),
            in_cell(&expects.to_string())
        )
        .unwrap();
    }
    page
}

#[test]
fn the_table_of_attacks_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/attacks.md");
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page(), "docs/attacks.md is not what the guests say; write it anew as it says itself");
}
