//! docs/attacks.md is generated from the table of hostile guests and the list of other attempts, and is
//! up to date.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod attempts;

use attempts::{Attempt, attempts};
use std::fmt::Write as _;
use std::path::Path;
use tollgate_artifacts::{GATES, Guest, HOSTILE};

const HEAD: &str = "\
# Attacks\n\n\
This table lists the hostile guests in\n\
[tests/guests/hostile](https://github.com/tollgate/tollgate/tree/main/tests/guests/hostile):\n\
the attack that each one tries, the limit or check that stops it, and its outcome.\n\
The outcome is one of:\n\n\
- a [code](codes.md), which ends the call;\n\
- a refusal, which keeps the component from being loaded;\n\
- a result: the attack had no effect, and the guest continued.\n\n\
`[limits]` of `tollgate.toml` has the settings, unless another table is named. A fixed limit is a number that no\n\
setting changes ([why](configuration.md#fixed-limits)). A rule has no number: the attempt is always refused.\n\n\
The tests run all of them and generate this page:\n\
`TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-artifacts --test table`.\n\n\
| Attack | What the guest does | Stopped by | Setting | Outcome |\n|---|---|---|---|---|\n";
const GATES_HEAD: &str = "\n## Gates\n\n\
A gate that fails, exceeds a limit or cannot be loaded allows nothing. The limits of a question are in\n\
`[gates.NAME.limits]` ([Permissions and gates](permissions.md#gates)).\n\n\
| Attack | What the gate does | Stopped by | Setting | Outcome |\n|---|---|---|---|---|\n";
const OTHERS_HEAD: &str = "\n## Servers, clients, models and others\n\n\
Guests are not the only strangers. Each of these attempts has a test as well.\n\n\
| Party | What it does | Outcome | Limit or setting | Test |\n|---|---|---|---|---|\n";
const TESTS: &str = "https://github.com/tollgate/tollgate/blob/main";
const SOURCES: &str = "https://github.com/tollgate/tollgate/blob/main/tests/guests";

/// The settings of each limit that the guests' files name.
const SETTINGS: &[(&str, &str)] = &[
    ("ABI", RULE),
    ("HTTP", "`[grants]`"),
    ("JSON", RULE),
    ("JSON depth", FIXED),
    ("JSON nodes", "`json_nodes`"),
    ("a failure denies", RULE),
    ("actions", "`[grants]`"),
    ("activity, progress, log, streamed output", "`reports`, `report_bytes`, `reports_bytes`"),
    ("an answer is read with care", RULE),
    ("bytes across the boundary", "`crossing_bytes`, `boundary_bytes`"),
    ("bytes in one crossing", FIXED),
    ("describe", FIXED),
    ("description", FIXED),
    ("descriptor", FIXED),
    ("exit", RULE),
    ("exports", RULE),
    ("file", RULE),
    ("files", "`[grants]`"),
    ("fuel of a question", "`fuel`"),
    ("growth of the record", "`component_record_bytes`, `thread_record_bytes` in `[store]`"),
    ("handles", "`handles`"),
    ("header fields, 16 KiB", FIXED),
    ("host memory", "`host_memory_bytes`"),
    ("imports", RULE),
    ("instances, memories", "`instances`, `memories`"),
    ("instructions", "`fuel`"),
    ("listings", "`listings`"),
    ("loading", FIXED),
    ("memories", "`memories`"),
    ("memory", "`memory_bytes`"),
    ("memory of a question", "`memory_bytes`"),
    ("mutations", FIXED),
    ("names", RULE),
    ("open files", "`open_files`"),
    ("paths", FIXED),
    ("powers", "`[grants]`"),
    ("questions to people", FIXED),
    ("random bytes asked at once", "`random_bytes`"),
    ("result seen by the model", FIXED),
    ("schemas", FIXED),
    ("stack", "`stack_bytes`"),
    ("standard output and error", "`console_bytes`"),
    ("state", "`[grants]`"),
    ("state shown to gates", FIXED),
    ("table elements", "`table_elements`"),
    ("tables", "`tables`"),
    ("text is cleaned", RULE),
    ("traps", RULE),
    ("wall time", "`timeout_ms`, `timeout_ceiling_ms`"),
    ("what a person reads", RULE),
    ("what the host stamps", RULE),
    ("what the model reads", RULE),
    ("written bytes", "`written_bytes`; `quota_bytes` in `[grants]`"),
];
const RULE: &str = "rule";
const FIXED: &str = "fixed";

fn setting(limit: &str) -> &'static str {
    let found = SETTINGS.iter().find(|(name, _)| *name == limit);
    found.unwrap_or_else(|| panic!("the limit \"{limit}\" of a guest is not in SETTINGS")).1
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    add_guests(&mut page, "hostile", HOSTILE);
    page.push_str(GATES_HEAD);
    add_guests(&mut page, "gates", GATES);
    page.push_str(OTHERS_HEAD);
    for Attempt { party, does, outcome, limit, file, test } in attempts() {
        writeln!(page, "| {party} | {does} | {outcome} | {limit} | [`{test}`]({TESTS}/{file}) |").unwrap();
    }
    page
}

fn add_guests(page: &mut String, folder: &str, guests: &[Guest]) {
    for Guest { name, attack, limit, expects, .. } in guests {
        let in_cell = |text: &str| text.replace('|', "\\|");
        let file = format!("[{name}]({SOURCES}/{folder}/{name}.wat)");
        let (limit, setting, expects) = (in_cell(limit), setting(limit), in_cell(&expects.to_string()));
        writeln!(page, "| {file} | {} | {limit} | {setting} | {expects} |", in_cell(attack)).unwrap();
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

#[test]
fn each_other_attempt_has_its_test() {
    for Attempt { file, test, .. } in attempts() {
        assert!(read(file).contains(&format!("fn {test}(")), "{file} has no test `{test}`");
    }
}

/// The promises about the host's own work are numbered, and so are their tests. Two are attacked by the
/// guests of the first table alone.
#[test]
fn each_promise_has_an_attempt() {
    let played = |number: u32| attempts().any(|attempt| attempt.test.starts_with(&format!("z{number}_")));
    let by_guests = [5, 6];
    let missing: Vec<u32> =
        (1..=24).filter(|number| !played(*number) && !by_guests.contains(number)).collect();
    assert!(missing.is_empty(), "no attempt against the promises {missing:?}");
}

#[test]
fn each_setting_is_documented() {
    let docs = ["configuration", "permissions", "store", "serve", "powers", "registry"];
    let docs: String = docs.iter().map(|page| read(&format!("docs/{page}.md"))).collect();
    let cells = SETTINGS.iter().map(|(_, setting)| *setting).chain(attempts().map(|attempt| attempt.limit));
    for name in cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        let name = name.trim_matches(['[', ']']).replace("gates.NAME.limits", "gates.budget.limits");
        assert!(docs.contains(&name), "`{name}` is on no page of settings");
    }
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
