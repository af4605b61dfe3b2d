//! Tests of the parts of a server's results, on their way through this program to a client.

use crate::raw::Raw;
use crate::remote::{TOOL, answers, scripted, server};
use serde_json::{Value, json};

const PARTS: &str = r#"{"content":[{"type":"text","text":"Here:"},{"type":"image","mimeType":"image/png","data":"iVBORw=="},{"type":"audio","mimeType":"audio/wav","data":"AAAA"},{"type":"resource","resource":{"uri":"file:///a.txt","mimeType":"text/plain","text":"Hello"}},{"type":"resource","resource":{"uri":"file:///b.bin","blob":"AAAA"}},{"type":"resource_link","uri":"https://example.org/c","name":"c","title":"C","size":3}]}"#;

#[test]
fn the_parts_of_a_servers_result_reach_a_client_as_they_are() {
    let place = scripted(&server(TOOL, &answers(PARTS)));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let result = raw.call("other__t", json!({}));
    let sent: Value = serde_json::from_str(PARTS).unwrap();
    assert_eq!(result["content"], sent["content"], "{result}");
    let said = place.type_in(&["call", "other__t", "--json"]).ends_with(0).json();
    assert_eq!(said["data"], "Here:", "{said}");
}

#[test]
fn tools_after_an_empty_page_of_a_servers_list_are_offered() {
    let pages = r#"*'"cursor":"more"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[TOOL]}}' ;;
*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[],"nextCursor":"more"}}' ;;
*'"never"'*)"#;
    let on_call = answers(r#"{"content":[{"type":"text","text":"found"}]}"#);
    let script = server(TOOL, &on_call).replace(r#"*'"tools/list"'*)"#, &pages.replace("TOOL", TOOL));
    let said = scripted(&script).type_in(&["call", "other__t", "--json"]).ends_with(0).json();
    assert_eq!(said["data"], "found", "{said}");
}

#[test]
fn titles_hints_and_schemas_of_a_servers_tool_are_passed_on() {
    let tool = r#"{"name":"t","title":"T","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;
    let good = answers(r#"{"content":[{"type":"text","text":"{}"}],"structuredContent":{"n":1}}"#);
    let bad = answers(r#"{"content":[{"type":"text","text":"No."}],"isError":true}"#);
    let place = scripted(&server(tool, &format!(r#"if [ -e bad ]; then {bad}; else {good}; fi"#)));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"][0].clone();
    assert_eq!(listed["title"], "T", "{listed}");
    assert_eq!(listed["annotations"]["readOnlyHint"], true, "{listed}");
    assert_eq!(listed["annotations"]["openWorldHint"], false, "{listed}");
    assert_eq!(listed["annotations"].get("destructiveHint"), None, "{listed}");
    assert_eq!(listed["outputSchema"]["required"], json!(["n"]), "{listed}");
    assert_eq!(raw.call("other__t", json!({}))["structuredContent"], json!({"n": 1}));
    // An error need not fit the schema, so it has no structured content.
    place.write("bad", "");
    let failed = raw.call("other__t", json!({}));
    assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None), "{failed}");
    assert_eq!(failed["content"][0]["text"], "No.");
}

#[test]
fn the_resources_of_a_server_are_listed_and_read_by_calls() {
    let script = server(TOOL, &answers(r#"{"content":[]}"#))
        .replace(r#""capabilities":{"tools":{}}"#, r#""capabilities":{"tools":{},"resources":{}}"#)
        .replace(
            "esac\n",
            r#"*'"resources/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"resources":[{"uri":"memo:///1","name":"one","mimeType":"text/plain"}]}}' ;;
*'"resources/templates/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"resourceTemplates":[{"uriTemplate":"memo:///{n}","name":"memo"}]}}' ;;
*'"resources/read"'*'"memo:///1"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"contents":[{"uri":"memo:///1","mimeType":"text/plain","text":"Buy milk"}]}}' ;;
*'"resources/read"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32002,"message":"no such memo"}}' ;;
esac
"#,
        );
    let place = scripted(&script);
    let listed = place.type_in(&["call", "other__list_resources", "--json"]).ends_with(0).json();
    assert_eq!(listed["data"]["resources"][0]["uri"], "memo:///1", "{listed}");
    assert_eq!(listed["data"]["templates"][0]["uri_template"], "memo:///{n}", "{listed}");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let read = raw.call("other__read_resource", json!({"uri": "memo:///1"}));
    assert_eq!(read["content"][0]["resource"]["text"], "Buy milk", "{read}");
    let refused = raw.call("other__read_resource", json!({"uri": "memo:///2"}));
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("no such memo"), "{refused}");
}

#[test]
fn a_tool_that_requires_a_task_is_not_offered() {
    let tools = r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"u","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#;
    let place = scripted(&server(tools, &answers(r#"{"content":[]}"#)));
    let said = place.type_in(&["tools", "--json"]).ends_with(0).says("only runs it as a task").json();
    let listed = said.to_string();
    assert!(listed.contains("other__u") && !listed.contains("other__t"), "{listed}");
}

#[test]
fn a_tool_that_is_refused_as_an_ordinary_one_is_no_longer_offered() {
    let refuses =
        r#"echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"requires a task"}}'"#;
    let place =
        scripted(&server(&format!(r#"{TOOL},{{"name":"u","inputSchema":{{"type":"object"}}}}"#), refuses));
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    assert_eq!(raw.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 2);
    let refused = raw.call("other__t", json!({}));
    let words = refused["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("may require a task") && words.contains("no longer offered"), "{words}");
    raw.wait_for(|message| message["method"] == "notifications/tools/list_changed");
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed[0]["name"], "other__u", "{listed}");
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn l5_a_call_on_a_server_that_dies_reports_its_exit_code_and_its_last_words() {
    let place = scripted(&server(TOOL, "echo 'out of paper' >&2; exit 3"));
    let typed = place.type_in(&["call", "other__t", "--json"]).ends_with(1);
    assert_eq!(typed.stderr, "", "it is reported once");
    let said = typed.json();
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("exit code 3"), "{message}");
    assert_eq!(message.matches("out of paper").count(), 1, "{message}");
}
