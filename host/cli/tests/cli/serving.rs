//! `keys`, `sign-in` and `serve`: a key made on the command line is used over HTTP, and the record
//! names its principal.

use crate::place::Place;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tollgate_artifacts::good;

/// A server of this program, which ends with the test.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(place: &Place) -> Self {
        let mut command = place.program(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let line = stderr.by_ref().lines().find(|line| line.as_ref().unwrap().contains("http://"));
        let url = format!("http://{}", line.unwrap().unwrap().split("http://").nth(1).unwrap().trim());
        // The pipe stays open, and is read so that it never fills.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url }
    }

    /// Ends the program in order, and returns its exit code.
    fn end(mut self) -> i32 {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_key_of_the_command_line_is_used_over_http_and_revoked() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let refused = place.type_in(&["serve", "--listen", "0.0.0.0:0"]).ends_with(2);
    assert!(refused.stderr.contains("--behind-proxy"), "{}", refused.stderr);
    for wrong in [["a/b", "use"], ["ada", "admin"]] {
        place.type_in(&["keys", "add", wrong[0], "--scope", wrong[1]]).ends_with(2);
    }
    let made = place.type_in(&["keys", "add", "ada", "--scope", "use,read", "--json"]).ends_with(0).json();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let serving = Serving::start(&place);
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap();
    let call = || client.post(format!("{}/api/v1/tools/echo/calls", serving.url)).bearer_auth(key);
    let answer = call().json(&json!({"arguments": {}})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let run: Value = answer.json().await.unwrap();
    let run = run["run_id"].as_str().unwrap();
    let listed = place.type_in(&["keys", "--json"]).ends_with(0).json();
    assert_eq!((&listed[0]["id"], &listed[0]["name"]), (&json!(id), &json!("ada")));
    assert!(!listed.to_string().contains(key));
    let shown = place.type_in(&["show", run]).ends_with(0);
    assert!(shown.stdout.contains("asked by ada"), "{}", shown.stdout);
    let audit = place.type_in(&["audit", "--run", run, "--json"]).ends_with(0).json();
    assert_eq!(audit[0]["who"], "agent direct for ada");
    let link = place.type_in(&["sign-in", "--as", "bob", "--scope", "decide_any"]).ends_with(0);
    assert!(link.stdout.starts_with("http://127.0.0.1:7300/sign-in#"), "{}", link.stdout);
    place.type_in(&["keys", "revoke", id]).ends_with(0);
    place.type_in(&["keys", "revoke", id]).ends_with(2);
    let answer = call().json(&json!({"arguments": {}})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "in the process that serves, at once");
    assert_eq!(serving.end(), 0);
}

#[test]
fn an_agent_of_another_server_answers_and_its_task_is_shown_beside_the_run() {
    let archive = Place::new()
        .with_config("[agents.assistant]\nmodel = { provider = \"recorded\", file = \"turns.toml\" }\n");
    archive.write("turns.toml", "[[turn]]\ntext = \"It is on the second shelf.\"\n");
    let made = archive.type_in(&["keys", "add", "desk", "--scope", "use", "--json"]).ends_with(0).json();
    let serving = Serving::start(&archive);
    let desk = Place::new().with_config(&format!(
        "[agents.archive]\nkind = \"a2a\"\nurl = \"{}/a2a/assistant\"\ntoken_env = \"ARCHIVE_TOKEN\"\n",
        serving.url
    ));
    let run = ["run", "--agent", "archive", "--thread", "t", "Where is it?"];
    let refused = desk.type_in(&run).ends_with(2);
    assert!(refused.stderr.contains("export ARCHIVE_TOKEN=TOKEN"), "{}", refused.stderr);
    let mut command = desk.program(&run);
    command.env("ARCHIVE_TOKEN", made["key"].as_str().unwrap()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (answer, progress) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(answer.contains("It is on the second shelf."), "{answer}\n{progress}");
    let run_of = |place: &Place| {
        let runs = place.type_in(&["runs", "--json"]).ends_with(0).json();
        runs[0]["run_id"].as_str().unwrap().to_owned()
    };
    let shown = desk.type_in(&["show", &run_of(&desk), "--json"]).ends_with(0);
    assert!(shown.stdout.contains(&run_of(&archive)), "{}", shown.stdout);
    assert_eq!(serving.end(), 0);
}
