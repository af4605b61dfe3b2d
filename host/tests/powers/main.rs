//! Tests of the example tools that use files and the network, as components, against the test's own
//! server. Granted access works, and nothing else does.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod server;

use serde_json::{Value, json};
use server::Server;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tollgate::config::Config;
use tollgate::run::RunEnd;
use tollgate::tools::directory;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use tollgate_artifacts::rust_guest_bytes;
use tollgate_sandbox::{Sandbox, SandboxConfig};

/// Additional time beyond the guarantees, to allow for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// A host with one example tool and these grants.
struct World {
    folder: tempfile::TempDir,
    host: Host,
}

impl World {
    async fn new(tool: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("tools")).unwrap();
        fs::create_dir_all(root.join("files")).unwrap();
        fs::write(root.join("tools").join(format!("{tool}.wasm")), rust_guest_bytes(tool)).unwrap();
        fs::write(root.join("key"), "0123456789abcdef\n").unwrap();
        let config = config.replace("ROOT", &root.display().to_string());
        let config = Config::parse(&root.join("tollgate.toml"), &config).unwrap();
        let sandbox =
            Sandbox::new(SandboxConfig { concurrent_calls: 4, ..SandboxConfig::default() }).unwrap();
        let loaded = directory::load(&sandbox, &config, &|_, _, _: &Path| ()).await.unwrap();
        assert_eq!(loaded.toolbox.refused(), [], "nothing is refused");
        Self { folder, host: Host::builder().toolbox(loaded.toolbox).build().unwrap() }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let end: RunEnd = self.host.call(CallRequest::from_json(tool, arguments.to_string())).await.unwrap();
        match end.last_call.unwrap().end.clone() {
            CallEnd::Result(result) => Value::clone(&result.data),
            CallEnd::Fault(fault) => panic!("{fault:?}"),
        }
    }
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetch_reaches_what_was_granted_with_a_secret_that_it_never_has() {
    let server = Server::start().await;
    let config = format!(
        "[grants.fetch]\nhttp = [\"GET,POST {0}/open/\"]\nsecrets = [\"key\"]\n\
         [secrets.key]\nfile = \"key\"\nto = \"{0}\"\nheader = \"authorization\"\nprefix = \"Bearer \"\n",
        server.url("")
    );
    let world = World::new("fetch", &config).await;
    let fetched = world
        .call("fetch", json!({"url": server.url("/open/echo"), "method": "POST", "body": "hello"}))
        .await;
    assert_eq!(fetched["status"], 200, "{fetched}");
    let body = fetched["body"].as_str().unwrap();
    assert!(body.contains("\"body\":\"hello\""), "{body}");
    assert!(body.contains("Bearer ****************") && !body.contains("0123456789abcdef"), "{body}");
    assert_eq!(server.authorizations(), ["Bearer 0123456789abcdef"]);
    for url in
        [server.url("/closed"), "http://169.254.169.254/".to_owned(), "https://example.com/".to_owned()]
    {
        assert_eq!(code(&world.call("fetch", json!({"url": url})).await), "denied", "{url}");
    }
    let url = server.url("/open/../closed");
    assert_eq!(code(&world.call("fetch", json!({"url": url})).await), "bad_request");
    let moved = world.call("fetch", json!({"url": server.url("/open/moved")})).await;
    assert_eq!((&moved["status"], &moved["location"]), (&json!(302), &json!("http://169.254.169.254/")));
    assert_eq!(server.authorizations().len(), 2, "nothing else was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t2_a_tool_that_waits_for_a_server_ends_at_its_deadline() {
    let server = Server::start().await;
    let config =
        format!("[grants.fetch]\nhttp = [\"{}/\"]\n[tools.fetch.limits]\ntimeout_ms = 300\n", server.url(""));
    let world = World::new("fetch", &config).await;
    let request = CallRequest::from_json("fetch", json!({"url": server.url("/open/never")}).to_string());
    let call = tokio::time::timeout(Duration::from_millis(300) + SLACK, world.host.call(request));
    let CallEnd::Fault(fault) = call.await.unwrap().unwrap().last_call.unwrap().end.clone() else { panic!() };
    assert_eq!(fault.code.as_str(), "timed_out");
}

/// Each byte arrives in time, but the whole response does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t2_a_tool_that_reads_from_a_server_that_drips_ends_at_its_deadline() {
    let server = Server::start().await;
    let config = format!(
        "[grants.fetch]\nhttp = [\"{}/\"]\n[tools.fetch.limits]\ntimeout_ms = 1000\n",
        server.url("")
    );
    let world = World::new("fetch", &config).await;
    let request = CallRequest::from_json("fetch", json!({"url": server.url("/open/drips")}).to_string());
    let call = tokio::time::timeout(Duration::from_millis(1_000) + SLACK, world.host.call(request));
    let CallEnd::Fault(fault) = call.await.unwrap().unwrap().last_call.unwrap().end.clone() else { panic!() };
    assert_eq!(fault.code.as_str(), "timed_out");
    assert!(server.authorizations().len() > 2, "the server dripped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_read_as_markdown() {
    let server = Server::start().await;
    let config = format!("[grants.web-page-to-markdown]\nhttp = [\"{}/\"]\n", server.url(""));
    let world = World::new("web-page-to-markdown", &config).await;
    let page = world.call("web_page_to_markdown", json!({"url": server.url("/open/page")})).await;
    assert_eq!(page["title"], "A page", "{page}");
    assert_eq!(page["markdown"], format!("# Hello\n\nSome **words**, [more]({}).", server.url("/open/more")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_weather_comes_from_the_api_that_the_setting_names() {
    let server = Server::start().await;
    let config = format!(
        "[grants.weather]\nhttp = [\"{0}/v1/\"]\nsettings = {{ api = \"{0}\", units = \"imperial\" }}\n",
        server.url("")
    );
    let world = World::new("weather", &config).await;
    let weather = world.call("weather", json!({"latitude": 1.5, "longitude": 2.5})).await;
    assert_eq!(weather, json!({"temperature": 60.1, "unit": "°F", "wind_speed": 5.0, "sky": "clear"}));
    let without = World::new("weather", "").await;
    assert_eq!(code(&without.call("weather", json!({"latitude": 0, "longitude": 0})).await), "denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_changed_within_the_quota() {
    let config = "[grants.file-edit]\n\
        files = [{ host = \"ROOT/files\", guest = \"/files\", access = \"read-write\", quota_bytes = 20000 }]\n";
    let world = World::new("file-edit", config).await;
    let written = world.call("write_file", json!({"path": "/files/a.md", "text": "one\ntwo\n"})).await;
    assert_eq!(written["created"], true, "{written}");
    let edited = world.call("edit_file", json!({"path": "/files/a.md", "old": "two", "new": "three"})).await;
    assert_eq!(edited["line"], 2, "{edited}");
    let on_disk = world.folder.path().join("files/a.md");
    assert_eq!(fs::read_to_string(on_disk).unwrap(), "one\nthree\n");
    let full = world.call("write_file", json!({"path": "/files/b.md", "text": "x".repeat(30_000)})).await;
    assert_eq!(code(&full), "unwritable", "{full}");
    for path in ["/files/../key", "../key", "/etc/hostname"] {
        let refused = world.call("read_file", json!({"path": path})).await;
        assert!(["bad_path", "no_directory"].contains(&code(&refused)), "{path}: {refused}");
    }
}
