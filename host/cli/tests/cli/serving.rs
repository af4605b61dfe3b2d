//! `keys`, `sign-in` and `serve`: a key made on the command line is used over HTTP, and the record
//! names its principal.

use crate::place::Place;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tollgate_artifacts::{good, hostile};

/// A backstop for waits that would otherwise hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of this program, which ends with the test.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(place: &Place) -> Self {
        Self::start_at(place, "127.0.0.1:0")
    }

    fn start_at(place: &Place, address: &str) -> Self {
        Self::start_with(place, &["--listen", address])
    }

    fn start_with(place: &Place, options: &[&str]) -> Self {
        let mut command = place.program(&["serve"]);
        command.args(options);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let line = stderr.by_ref().lines().find(|line| line.as_ref().unwrap().contains("http://"));
        let url = format!("http://{}", line.unwrap().unwrap().split("http://").nth(1).unwrap().trim());
        // The pipe stays open, and is read so that it never fills.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url }
    }

    /// Ends the program at once.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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

fn client() -> Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let never = reqwest::redirect::Policy::none();
    Client::builder().no_proxy().redirect(never).timeout(PATIENCE).build().unwrap()
}

/// Locks the component `adder` to a file that it does not have, so that it is refused.
fn pin_another_adder(place: &Place) {
    let digest = format!("sha256:{}", "0".repeat(64));
    let entry =
        "version = 1\n[[component]]\nid = \"adder\"\nfile = \"adder.wasm\"\nfrom = \"file:adder.wasm\"\n";
    place.write("tollgate.lock", format!("{entry}wasm = \"{digest}\"\nsurface = \"{digest}\"\n"));
}

#[tokio::test]
async fn a_key_of_the_command_line_is_used_over_http_and_revoked() {
    let place = Place::new().with_tools(&[good::ECHO, good::ADDER]).with_config(
        "[limits]\nfuel = 19000000000\n\n[agents.direct]\ntools = [\"*\"]\n[agents.direct.limits]\n\
         timeout_ms = 7000\n\n[tools.echo.limits]\nmemory_bytes = 50000000\n",
    );
    pin_another_adder(&place);
    let refused = place.type_in(&["serve", "--listen", "0.0.0.0:0"]).ends_with(2);
    assert!(refused.stderr.contains("--behind-proxy"), "{}", refused.stderr);
    for wrong in [["a/b", "use"], ["ada", "admin"]] {
        place.type_in(&["keys", "add", wrong[0], "--scope", wrong[1]]).ends_with(2);
    }
    let made = place.type_in(&["keys", "add", "ada", "--scope", "use,read", "--json"]).ends_with(0).json();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let serving = Serving::start(&place);
    let client = client();
    let call = || client.post(format!("{}/api/v1/tools/echo/calls", serving.url)).bearer_auth(key);
    let answer = call().json(&json!({"arguments": {}})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let run: Value = answer.json().await.unwrap();
    let run = run["run_id"].as_str().unwrap();
    // A file that is not served is listed with the commands that change that.
    let get = |path: &str| client.get(format!("{}{path}", serving.url)).bearer_auth(key).send();
    let tools: Value = get("/api/v1/tools").await.unwrap().json().await.unwrap();
    let restore = "tollgate sync; see what differs: tollgate verify adder";
    assert_eq!(
        (&tools["refused"][0]["file"], &tools["refused"][0]["commands"]),
        (&json!("adder.wasm"), &json!(restore))
    );
    let page = get("/console/tools").await.unwrap().text().await.unwrap();
    assert!(page.contains(&format!("<code>{restore}</code>")), "{page}");
    let tool = get("/api/v1/tools/echo").await.unwrap();
    let limits = json!({
        "timeout_ms": 7_000,
        "fuel": 19_000_000_000_u64,
        "memory_bytes": 50_000_000,
        "sources": {"timeout_ms": "agent_limits", "fuel": "limits", "memory_bytes": "tool_limits"},
    });
    assert_eq!(tool.json::<Value>().await.unwrap()["limits"], limits);
    let listed = place.type_in(&["keys", "--json"]).ends_with(0).json();
    assert_eq!((&listed[0]["id"], &listed[0]["name"]), (&json!(id), &json!("ada")));
    assert!(!listed.to_string().contains(key));
    let shown = place.type_in(&["show", run]).ends_with(0);
    assert!(shown.stdout.contains("asked by ada"), "{}", shown.stdout);
    let audit = place.type_in(&["audit", "--run", run, "--json"]).ends_with(0).json();
    assert_eq!(audit[0]["who"], "agent direct for ada");
    let link = place.type_in(&["sign-in", "--as", "bob", "--scope", "decide_any"]).ends_with(0);
    assert!(link.stdout.starts_with(&format!("{}/sign-in#", serving.url)), "{}", link.stdout);
    place.type_in(&["keys", "revoke", id]).ends_with(0);
    place.type_in(&["keys", "revoke", id]).ends_with(2);
    let audit = place.type_in(&["audit", "--json"]).ends_with(0).json();
    let audit: Vec<String> = audit
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| ["key", "sign_in"].contains(&record["kind"].as_str().unwrap()))
        .map(|record| {
            format!("{} {}", record["decision"].as_str().unwrap(), record["detail"].as_str().unwrap())
        })
        .collect();
    let expected = [
        format!("revoked the key {id}"),
        "link_made a link for bob".to_owned(),
        format!("made the key {id} of ada with the scopes use,read"),
    ];
    assert_eq!(audit, expected, "no secret is in the audit");
    let answer = call().json(&json!({"arguments": {}})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "in the process that serves, at once");
    assert_eq!(serving.end(), 0);
    let link = place.type_in(&["sign-in"]).ends_with(0).says("no server of this data directory was found");
    assert!(link.stdout.starts_with("http://127.0.0.1:7300/sign-in#"), "{}", link.stdout);
}

#[tokio::test]
async fn parts_are_left_out_by_name() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let refused = place.type_in(&["serve", "--without", "mpc"]).ends_with(2);
    assert!(refused.stderr.contains("console, openai, ai-sdk, ag-ui, a2a, mcp"), "{}", refused.stderr);
    let made = place.type_in(&["keys", "add", "ada", "--scope", "use", "--json"]).ends_with(0).json();
    let key = made["key"].as_str().unwrap();
    let serving = Serving::start_with(&place, &["--listen", "127.0.0.1:0", "--without", "mcp,openai"]);
    let client = client();
    let get = |path: &str| client.get(format!("{}{path}", serving.url)).bearer_auth(key).send();
    for (path, expected) in [("/mcp", 404), ("/v1/models", 404), ("/api/v1/tools", 200), ("/console", 200)] {
        let answer = get(path).await.unwrap();
        assert_eq!(answer.status(), expected, "{path}");
        if expected == 404 {
            let problem: Value = answer.json().await.unwrap();
            assert_eq!((&problem["code"], &problem["status"]), (&json!("not_found"), &json!(404)), "{path}");
        }
    }
    let document: Value = get("/openapi.json").await.unwrap().json().await.unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/ag-ui/{agent}"));
    assert!(!paths.keys().any(|path| path == "/mcp" || path.starts_with("/v1/")));
    assert_eq!(serving.end(), 0);
}

/// Follows a run until its end, across restarts of the server, and returns the numbers of the events.
async fn follow(client: Client, url: String, key: String) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let request = client.get(&url).bearer_auth(&key).header("accept", "text/event-stream");
        let request = match seen.last() {
            Some(last) => request.header("last-event-id", last.to_string()),
            None => request,
        };
        // While no server listens, the client tries again.
        let Ok(mut response) = request.send().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        assert!(response.status().is_success(), "{}", response.status());
        let mut text = String::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        // The last event may be cut off.
        let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
        seen.extend(ids.map(|id| id.parse::<u64>().unwrap()));
        if whole.contains("event: end\n") && whole.contains("\"finished\"") {
            return seen;
        }
    }
}

/// The server is killed twice under load. Followers of a waiting run have every event once, and a
/// repeated request with an idempotency key is the same run.
#[tokio::test(flavor = "multi_thread")]
async fn followers_and_repeated_requests_survive_a_killed_server() {
    let place = Place::new().with_tools(&[good::ECHO, good::SUSPENDS]);
    let made = place.type_in(&["keys", "add", "ada", "--scope", "use,decide", "--json"]).ends_with(0).json();
    let key = made["key"].as_str().unwrap().to_owned();
    let client = client();
    let mut serving = Serving::start(&place);
    let url = serving.url.clone();
    let address = url.trim_start_matches("http://").to_owned();
    let ask = client.post(format!("{url}/api/v1/tools/{}/calls", good::SUSPENDS.name)).bearer_auth(&key);
    let run: Value = ask.json(&json!({"arguments": {}})).send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "waiting", "{run}");
    let run_url = format!("{url}/api/v1/runs/{}", run["run_id"].as_str().unwrap());
    let follow_one = || tokio::spawn(follow(client.clone(), format!("{run_url}/events"), key.clone()));
    let followers: Vec<_> = (0..20).map(|_| follow_one()).collect();
    // Four clients repeat each request until it is answered.
    let load = |client: Client, url: String, key: String, number: usize| async move {
        let mut runs = Vec::new();
        for call in 0..40 {
            let send = || {
                let request = client.post(format!("{url}/api/v1/tools/echo/calls")).bearer_auth(&key);
                let request = request.header("idempotency-key", format!("load-{number}-{call}"));
                request.json(&json!({"arguments": {}})).send()
            };
            let run: Value = loop {
                match send().await {
                    Ok(answer) if answer.status().is_success() => {
                        if let Ok(run) = answer.json().await {
                            break run;
                        }
                    }
                    Ok(answer) => assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            runs.push(run["run_id"].as_str().unwrap().to_owned());
        }
        runs
    };
    let loads: Vec<_> =
        (0..4).map(|number| tokio::spawn(load(client.clone(), url.clone(), key.clone(), number))).collect();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        serving.kill();
        serving = Serving::start_at(&place, &address);
    }
    let mut runs = Vec::new();
    for load in loads {
        runs.extend(tokio::time::timeout(PATIENCE * 2, load).await.unwrap().unwrap());
    }
    let all = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!((all, runs.len()), (160, 160), "each key has one run");
    let answer_path = run["questions"][0]["answer_path"].as_str().unwrap();
    let decide = client.post(format!("{url}{answer_path}")).bearer_auth(&key);
    let decided = decide.json(&json!({"answer": {"resume": {"approved": true}}})).send().await.unwrap();
    assert_eq!(decided.status(), StatusCode::ACCEPTED, "{}", decided.text().await.unwrap());
    let mut numbers = Vec::new();
    for follower in followers {
        numbers.push(tokio::time::timeout(PATIENCE, follower).await.unwrap().unwrap());
    }
    let run: Value = client.get(&run_url).bearer_auth(&key).send().await.unwrap().json().await.unwrap();
    let expected: Vec<u64> = (1..=run["events"].as_u64().unwrap()).collect();
    assert!(numbers.iter().all(|seen| *seen == expected), "{expected:?} {numbers:?}");
}

/// A run whose server was killed is recovered over HTTP. The answer names what the record has no place for.
#[tokio::test]
async fn an_interrupted_run_is_recovered_over_http() {
    let config = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[limits]\ntimeout_ms = 120_000\n";
    let place = Place::new().with_tools(&[hostile::SLEEP_FOR_EVER]).with_config(config);
    place.write("turns.toml", "[[turn]]\ncalls = [{ name = \"sleep-for-ever\", arguments = {} }]\n");
    let made = place.type_in(&["keys", "add", "ada", "--scope", "use", "--json"]).ends_with(0).json();
    let key = made["key"].as_str().unwrap().to_owned();
    let client = client();
    let get = async |url: String| -> Value {
        client.get(url).bearer_auth(&key).send().await.unwrap().json().await.unwrap()
    };
    let serving = Serving::start(&place);
    let start = client.post(format!("{}/api/v1/runs", serving.url)).bearer_auth(&key);
    let start = start.header("prefer", "respond-async").json(&json!({"agent": "default", "input": "Go."}));
    let run: Value = start.send().await.unwrap().json().await.unwrap();
    let path = format!("/api/v1/runs/{}", run["run_id"].as_str().unwrap());
    while !get(format!("{}{path}/events", serving.url)).await.to_string().contains("call_started") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    serving.kill();
    let serving = Serving::start(&place);
    assert_eq!(get(format!("{}{path}", serving.url)).await["status"], "interrupted");
    let recover = client.post(format!("{}{path}/recover", serving.url)).bearer_auth(&key);
    let recovered = recover.json(&json!({"reason": "It was killed."})).send().await.unwrap();
    assert_eq!(recovered.status(), StatusCode::ACCEPTED);
    assert_eq!(recovered.headers()["tollgate-ignored"], "reason");
    assert_ne!(get(format!("{}{path}", serving.url)).await["status"], "interrupted");
}

/// The console's "Always" counts for the next call, without a restart, and is in the configuration.
#[tokio::test]
async fn a_permanent_answer_of_the_console_counts_at_once() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[permissions]\notherwise = \"ask\"\n");
    let scopes = ["keys", "add", "ada", "--scope", "use,decide,operate", "--json"];
    let made = place.type_in(&scopes).ends_with(0).json();
    let (serving, client) = (Serving::start(&place), client());
    let post =
        |path: &str| client.post(format!("{}{path}", serving.url)).bearer_auth(made["key"].as_str().unwrap());
    let call = async || -> Value {
        let sent = post("/api/v1/tools/echo/calls").json(&json!({"arguments": {}})).send();
        sent.await.unwrap().json().await.unwrap()
    };
    let run = call().await;
    assert_eq!(run["status"], "waiting", "{run}");
    let suspension = run["questions"][0]["suspension_id"].as_str().unwrap().replace('/', "%2F");
    let decide = post(&format!("/console/runs/{}/decide", run["run_id"].as_str().unwrap()))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("s={suspension}&permit=always"));
    assert_eq!(decide.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    let next = call().await;
    assert_eq!(next["status"], "completed", "{next}");
    assert!(
        std::fs::read_to_string(place.path().join("tollgate.toml"))
            .unwrap()
            .contains("remembered = [{ tool = \"echo\"")
    );
    assert_eq!(serving.end(), 0);
}

/// The tour in the console: runs, a question that is decided in the browser, and usage.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_serves_its_tour_with_a_question_to_decide() {
    let place = Place::new();
    // The demo builds the example tools where they are built already.
    let echo = tollgate_artifacts::rust_guest("echo");
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = place.program(&["demo", "--serve", "--listen", "127.0.0.1:0", "--repository"]);
    command.arg(&repository).env("CARGO_TARGET_DIR", echo.ancestors().nth(3).unwrap());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let link = lines.find_map(|line| line.ok().filter(|line| line.contains("/sign-in#")));
    let serving = Serving { child, url: link.clone().unwrap_or_default() };
    let Some(link) = link else {
        drop(serving);
        panic!("there is no link: {}", said.join().unwrap());
    };
    let (url, code) = link.trim().split_once("/sign-in#").unwrap();
    let client = client();
    let signed = client.post(format!("{url}/sign-in")).json(&json!({"code": code})).send().await.unwrap();
    let cookie = signed.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let get = async |path: &str| {
        let response = client.get(format!("{url}{path}")).header("cookie", &cookie).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.text().await.unwrap()
    };
    let overview = get("/console").await;
    assert!(overview.contains("What do this repository"), "{overview}");
    assert!(get("/console/usage").await.contains("tour"));
    let tools = get("/console/tools/write_file").await;
    assert!(tools.contains("files at /files (read and write)"), "{tools}");
    let questions: Value = serde_json::from_str(&get("/api/v1/questions").await).unwrap();
    let [question] = questions["items"].as_array().unwrap().as_slice() else { panic!("{questions}") };
    assert_eq!(question["tool"], "write_file");
    let waiting = get("/console/waiting").await;
    assert!(waiting.contains("/files/figures.md"), "{waiting}");
    // As a browser sends the form of the page.
    let (run, suspension) =
        (question["run_id"].as_str().unwrap(), question["suspension_id"].as_str().unwrap());
    let form = format!("s={}&permit=once", suspension.replace('/', "%2F"));
    let decide = client.post(format!("{url}/console/runs/{run}/decide")).header("cookie", &cookie);
    let decide = decide.header("origin", url).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(decide.body(form).send().await.unwrap().status(), StatusCode::SEE_OTHER);
    let done = async {
        loop {
            let run: Value = serde_json::from_str(&get(&format!("/api/v1/runs/{run}")).await).unwrap();
            if run["status"] == "completed" {
                return run;
            }
            assert!(["running", "waiting"].contains(&run["status"].as_str().unwrap()), "{run}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let run = tokio::time::timeout(PATIENCE, done).await.unwrap();
    assert!(run["text"].as_str().unwrap().contains("/files/figures.md"), "{run}");
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

#[test]
fn s9_a_server_that_ends_does_not_take_back_a_revocation_that_it_could_not_see() {
    let place = Place::new();
    let serving = Serving::start(&place);
    for name in ["ada", "eve"] {
        place.type_in(&["keys", "add", name, "--scope", "use"]).ends_with(0);
    }
    let file = place.path().join("data/tollgate.access.db");
    std::fs::remove_file(place.path().join("data/tollgate.access.db-shm")).unwrap();
    // Another program does not notice. It makes an index of the log that the server does not see.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("UPDATE keys SET revoked_at_ms = 1").unwrap();
    drop(other);
    assert_eq!(serving.end(), 0);
    let keys = place.type_in(&["keys", "--json"]).ends_with(0).json();
    let revoked: Vec<&Value> = keys.as_array().unwrap().iter().map(|key| &key["revoked_at_ms"]).collect();
    assert_eq!(revoked, [&json!(1), &json!(1)], "{keys}");
}
