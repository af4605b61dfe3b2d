//! rmcp's own client, as a program that uses it would.

use crate::place::Place;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::{RoleClient, ServiceExt, service::RunningService};
use serde_json::json;
use std::process::Stdio;
use tokio::process::{Child, Command};
use tollgate_artifacts::good;

async fn connected(place: &Place) -> (Child, RunningService<RoleClient, ()>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("mcp").current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = ().serve(streams).await.unwrap();
    (child, client)
}

#[tokio::test]
async fn rmcps_client_takes_the_tour() {
    let place = Place::new().with_tools(&[good::ECHO, good::FAILS]);
    let (mut child, client) = connected(&place).await;
    let info = client.peer_info().unwrap();
    assert!(ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version), "{info:?}");
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["echo", "fails"]);
    let arguments = json!({"text": "hello"}).as_object().unwrap().clone();
    let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
    let result = client.call_tool(params).await.unwrap();
    assert_eq!(result.structured_content, Some(json!(arguments)));
    let failed = client.call_tool(CallToolRequestParams::new("fails")).await.unwrap();
    assert_eq!(failed.is_error, Some(true));
    assert!(client.call_tool(CallToolRequestParams::new("nothing")).await.is_err());
    client.cancel().await.unwrap();
    assert!(child.wait().await.unwrap().success());
}
