//! docs/attacks.md is generated from the table of hostile guests and up to date.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::path::Path;
use tollgate_artifacts::{Guest, HOSTILE};

const HEAD: &str = "\
# Attacks\n\n\
This table lists the hostile guests in\n\
[tests/guests/hostile](https://github.com/tollgate/tollgate/tree/main/tests/guests/hostile):\n\
the attack that each one tries, the limit or check that stops it, and its outcome.\n\
The outcome is one of:\n\n\
- a [code](codes.md), which ends the call;\n\
- a refusal, which keeps the component from being loaded;\n\
- a result: the attack had no effect, and the guest continued.\n\n\
The tests run all of them and generate this page:\n\
`TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-artifacts --test table`.\n\n\
| Attack | What the guest does | Stopped by | Outcome |\n|---|---|---|---|\n";
const SOURCES: &str = "https://github.com/tollgate/tollgate/blob/main/tests/guests/hostile";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for guest in HOSTILE {
        let Guest { name, attack, limit, expects, .. } = guest;
        let in_cell = |text: &str| text.replace('|', "\\|");
        let file = format!("[{name}]({SOURCES}/{name}.wat)");
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
    assert!(there == page(), "docs/attacks.md is out of date; run the command that it names");
}
