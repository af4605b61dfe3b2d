//! Tests with rmcp's own client, as a program would use it, over both transports.

use crate::http::{Server, TOKEN};
use crate::place::Place;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::serve_client_with_lifecycle;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt, service::ClientLifecycleMode, service::RunningService};
use serde_json::json;
use std::process::Stdio;
use tokio::process::{Child, Command};
use tollgate_artifacts::good;

type Client = RunningService<RoleClient, ()>;

async fn connected(place: &Place) -> (Child, Client) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("mcp").current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = ().serve(streams).await.unwrap();
    (child, client)
}

async fn takes_the_tour(client: &Client) {
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
}

#[tokio::test]
async fn rmcps_client_takes_the_tour() {
    let place = Place::new().with_tools(&[good::ECHO, good::FAILS]);
    let (mut child, client) = connected(&place).await;
    takes_the_tour(&client).await;
    client.cancel().await.unwrap();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn rmcps_client_takes_the_tour_over_http() {
    // A provider that another test installed is equivalent.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = Place::new().with_tools(&[good::ECHO, good::FAILS]);
    let server = Server::start(&place, &[]);
    let newest = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    for way in [ClientLifecycleMode::Initialize, newest] {
        let at = format!("http://{}/mcp", server.address);
        let config = StreamableHttpClientTransportConfig::with_uri(at).auth_header(TOKEN);
        let wire = StreamableHttpClientTransport::from_config(config);
        let client = serve_client_with_lifecycle((), wire, way).await.unwrap();
        takes_the_tour(&client).await;
        client.cancel().await.unwrap();
    }
}
