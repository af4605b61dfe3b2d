//! docs/attacks.md is generated from the table of hostile guests and the list of other attacks, and is
//! up to date.
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
const OTHERS_HEAD: &str = "\n## Servers, clients and directories\n\n\
Guests are not the only strangers. Each of these attempts has a test as well.\n\n\
| Party | What it does | Outcome | Test |\n|---|---|---|---|\n";
const TESTS: &str = "https://github.com/tollgate/tollgate/blob/main";

/// An attempt of another party: the party, what it does, the outcome, and the file and name of its test.
type Attempt = (&'static str, &'static str, &'static str, &'static str, &'static str);

const SERVER: &str = "MCP server";
const CLIENT: &str = "MCP client";
const HTTP_CLIENT: &str = "HTTP client";
const WEB_SERVER: &str = "web server";
const TOOL: &str = "tool with a secret";
const DIRECTORY: &str = "tools directory";
const BOUNDS: &str = "host/cli/tests/mcp/remote_bounds.rs";
const ATTACKS: &str = "host/cli/tests/mcp/attacks.rs";
const IMITATING: &str = "host/cli/tests/cli/imitating.rs";
const HTTP: &str = "host/server/tests/native/hostile.rs";
const SECRETS: &str = "host/sandbox/src/egress/tests/secrets.rs";

const OTHERS: &[Attempt] = &[
    (
        SERVER,
        "Lists tools on endless pages, with schemas of megabytes or of 100,000 values.",
        "It is not served, and tried again after growing pauses.",
        BOUNDS,
        "z15_all_pages_of_a_list_are_bounded_together",
    ),
    (
        SERVER,
        "Announces a change of its list after each reading of it, so that the host compiles its schemas forever.",
        "The list is read after growing pauses, up to a minute.",
        BOUNDS,
        "z15_a_list_that_keeps_changing_is_read_ever_less_often",
    ),
    (
        SERVER,
        "Sends requests without end and never reads the answers, which the host would keep.",
        "Beyond 64 unread answers nothing more is read from it.",
        BOUNDS,
        "z15_a_server_that_asks_without_reading_makes_nothing_grow",
    ),
    (
        SERVER,
        "Floods its connection while a call waits.",
        "The connection is closed, and the call fails.",
        BOUNDS,
        "z15_a_server_that_floods_over_http_is_cut_off_and_not_served",
    ),
    (
        SERVER,
        "Answers a call with 600,000 values.",
        "malformed_output, before they are parsed",
        BOUNDS,
        "z15_a_message_of_too_many_nodes_is_not_parsed",
    ),
    (
        SERVER,
        "Hides terminal escapes and invisible text in image types, links and embedded resources, or sends thousands of links.",
        "The text is cleaned; too_large.",
        BOUNDS,
        "z14_links_and_images_of_a_server_are_clean_and_bounded",
    ),
    (
        SERVER,
        "Answers with an error whose lines look like the host's.",
        "Each line is marked as the server's.",
        BOUNDS,
        "z14_a_tool_of_several_lines_is_marked_line_by_line",
    ),
    (
        CLIENT,
        "Sends arguments of 600,000 values.",
        "invalid_arguments, before they are parsed",
        ATTACKS,
        "z3_arguments_are_counted_before_they_are_read",
    ),
    (
        CLIENT,
        "Gives a progress token of 100 KB to a call that reports a thousand times.",
        "The call sends no progress.",
        ATTACKS,
        "z3_a_large_progress_token_is_not_repeated_a_thousand_times",
    ),
    (
        CLIENT,
        "Sends calls and never reads their answers.",
        "Nothing more is read from it.",
        ATTACKS,
        "a_client_that_never_reads_makes_nothing_grow_and_can_leave",
    ),
    (
        CLIENT,
        "Answers a question with a permission for all later calls.",
        "The answer is refused, and the call stays suspended.",
        "host/cli/tests/mcp/asking.rs",
        "z12_a_client_cannot_have_its_answer_remembered",
    ),
    (
        HTTP_CLIENT,
        "Sends bodies of 600,000 values, to the API and to each protocol.",
        "413 too_large, before they are parsed",
        HTTP,
        "z3_bodies_of_too_many_values_are_not_parsed",
    ),
    (
        HTTP_CLIENT,
        "Opens connections that never finish a request.",
        "They make room for clients with a key.",
        HTTP,
        "slow_connections_make_room",
    ),
    (
        WEB_SERVER,
        "Returns a tool's secret in another encoding, split over chunks.",
        "The secret is redacted.",
        SECRETS,
        "z13_a_secret_in_another_encoding_and_in_chunks_is_blanked",
    ),
    (
        WEB_SERVER,
        "Sends a part of its response to a request with a secret.",
        "The response is refused.",
        SECRETS,
        "z13_a_guest_does_not_choose_a_part_of_a_response_with_a_secret",
    ),
    (
        TOOL,
        "Returns 15 MiB in which every byte may begin an escaped secret, so that the search for secrets \
         reads on from each of them.",
        "The search takes time linear in the text, on a thread that blocks no other call.",
        "host/agent/src/redact/mod.rs",
        "z13_a_text_of_escapes_is_searched_about_as_fast_as_a_plain_one",
    ),
    (
        TOOL,
        "Returns a text whose search for secrets takes longer than the call's time.",
        "timed_out",
        "host/sandbox/src/redact.rs",
        "z13_a_large_outcome_is_redacted_within_the_time_of_its_call",
    ),
    (
        DIRECTORY,
        "Has a file whose name contains a line of the host and an escape that clears the screen.",
        "The name is shown on one clean line.",
        IMITATING,
        "z14_the_name_of_a_file_is_one_line",
    ),
    (
        DIRECTORY,
        "Has a manifest of 60,000 nested arrays, or of as many tables.",
        "The component is refused.",
        IMITATING,
        "z14_a_manifest_that_cannot_be_read_ends_nothing",
    ),
    (
        DIRECTORY,
        "Has a component whose schema makes the suggested call of its tool run a program when it is typed.",
        "The example is quoted as one word.",
        IMITATING,
        "z14_the_call_that_is_suggested_for_a_tool_is_one_command",
    ),
    (
        DIRECTORY,
        "Has pipes, links and directories that are called `.wasm`.",
        "They are refused without being opened.",
        "tests/tests/suite/hostile.rs",
        "what_is_called_wasm_and_is_no_file_is_refused",
    ),
    (
        DIRECTORY,
        "Has a file that claims the id of a component that a person approved.",
        "The approved version keeps the id.",
        "host/cli/tests/loading/owners.rs",
        "r1_an_approved_version_has_its_id_whatever_the_files_are_called",
    ),
];
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
    page.push_str(OTHERS_HEAD);
    for (party, attempt, outcome, file, test) in OTHERS {
        writeln!(page, "| {party} | {attempt} | {outcome} | [{test}]({TESTS}/{file}) |").unwrap();
    }
    page
}

#[test]
fn each_other_attempt_has_its_test() {
    for (_, _, _, file, test) in OTHERS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test `{test}`");
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
