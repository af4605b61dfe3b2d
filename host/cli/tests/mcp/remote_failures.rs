//! Tests of servers that do not start: the message names the server, the problem and the remedy.

use crate::place::{Place, Said};
use crate::remote::{TOOL, answers, scripted, server};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Returns the output when tools are listed, which reports the server's problem.
fn said(place: &Place) -> Said {
    let said = place.type_in(&["tools"]).ends_with(0).says("the server other failed to start: ");
    for raw in ["rmcp", "Transport", "JSON-RPC", "os error", "Send message"] {
        assert!(!said.stderr.contains(raw), "{raw} is in {}", said.stderr);
    }
    assert!(!said.stderr.contains(['\u{1b}', '\u{9b}']), "{:?}", said.stderr);
    said
}

/// Creates a place whose server is this script, with a short start timeout.
fn hurried(script: &str) -> Place {
    let place = scripted(script);
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    place.with_config(&config.replace("start_timeout_ms = 20_000", "start_timeout_ms = 2_000"))
}

fn reaching(port: u16) -> Place {
    Place::new().with_config(&format!(
        "[mcp.other]\nurl = \"http://user:key@127.0.0.1:{port}/mcp?token=hidden\"\nstart_timeout_ms = 20_000\n"
    ))
}

#[test]
fn l5_a_server_that_exits_at_its_start_is_shown_with_its_code_and_last_words() {
    let place = scripted("printf 'no key\\033[2J\\nerror: set API_KEY\\n' >&2; exit 3\n");
    let said = said(&place).says("its process ended before it answered (exit code 3)");
    let said = said.says("its standard error ends with \"no key[2J error: set API_KEY\"");
    let said = said.says("correct `command`, `args` and `env` in [mcp.other]");
    assert_eq!(said.stderr.matches("API_KEY").count(), 1, "{}", said.stderr);
    let killed = scripted("kill -9 $$\n");
    self::said(&killed).says("(signal 9)");
}

#[test]
fn l5_standard_error_of_any_length_is_read_and_its_end_is_shown() {
    let place = scripted("yes an-error | head -n 100000 >&2; echo 'last words' >&2; exit 4\n");
    let said = said(&place).says("(exit code 4)").says("an-error last words\"");
    assert!(said.stderr.len() < 3_000, "{}", said.stderr.len());
    // A working server may write that much to standard error.
    let talks = format!("yes a-word | head -c 300000 >&2\n{}", server(TOOL, &answers(r#"{"content":[]}"#)));
    let said = scripted(&talks).type_in(&["call", "other__t"]).ends_with(0);
    assert!(!said.stderr.contains("a-word"), "{}", said.stderr);
}

#[test]
fn l5_a_program_that_speaks_another_protocol_is_shown_with_what_it_said() {
    let stays = hurried("printf 'SSH-2.0-OpenSSH_9.6\\r\\n'; exec sleep 600\n");
    said(&stays)
        .says("it did not start within 2000 ms")
        .says("correct [mcp.other], or give it longer with `start_timeout_ms`")
        .says("its output begins with \"SSH-2.0-OpenSSH_9.6\", which is not an MCP message");
    let ends = scripted("read -r line; echo 'usage: server [OPTIONS]'; exit 0\n");
    said(&ends).says("(exit code 0)").says("its output begins with \"usage: server [OPTIONS]\"");
    let other =
        r#"read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"capabilities":"none"}}'; exec sleep 600"#;
    said(&hurried(&format!("{other}\n")));
}

#[test]
fn l5_a_port_on_which_nothing_listens_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let said = said(&reaching(port))
        .says(&format!("nothing listens at http://127.0.0.1:{port}/mcp"))
        .says("start the server, or correct `url` in [mcp.other]");
    assert!(!said.stderr.contains("hidden") && !said.stderr.contains("user:key"), "{}", said.stderr);
}

/// Creates a place with a server that answers every request in this way.
fn answering(status: &'static str, kind: &'static str, body: &'static str) -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8_192]);
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    reaching(port)
}

#[test]
fn l5_a_server_of_something_else_than_mcp_is_named_with_what_it_answered() {
    let page = answering("200 OK", "text/html", "<h1>\u{1b}[2Jwelcome</h1>");
    said(&page).says("answered with text/html content, which is not MCP");
    let refuses = answering("401 Unauthorized", "text/plain", "no\u{1b}[2J token");
    said(&refuses).says("refused the request: HTTP 401").says("correct `token_env` in [mcp.other]");
    let fails = answering("502 Bad Gateway", "text/plain", "");
    said(&fails).says("answered HTTP 502");
}

#[test]
fn servers_end_in_order_where_a_call_of_them_cannot_be_recorded() {
    // The store disappears while the tool runs.
    let works = server(TOOL, &format!("mv data moved; {}", answers(r#"{"content":[]}"#)));
    let place = scripted(&format!("{works}touch ended-in-order\n"));
    let said = place.type_in(&["call", "other__t"]).ends_with(1);
    assert!(place.path().join("moved").exists(), "the tool has run: {said:?}");
    assert!(place.path().join("ended-in-order").exists(), "its input was not closed: {said:?}");
}
