//! The program on a PostgreSQL database that several hosts share.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../../../postgres/tests/cluster/mod.rs"]
mod cluster;
mod compose;
#[path = "../../../postgres/tests/failover/servers.rs"]
mod servers;
#[path = "../terminal/mod.rs"]
mod terminal;

use cluster::{Database, cluster};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use terminal::on_terminal;
use tollgate_artifacts::{good, hostile};
use tollgate_postgres::PostgresStore;

/// A directory with a configuration, as one machine has it.
struct Machine {
    directory: tempfile::TempDir,
}

const TURN: &str = "[[turn]]\ntext = \"Good day.\"\n";

impl Machine {
    fn new(database: &Database) -> Self {
        Self::on(&cluster().url(&database.name))
    }

    fn on(url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "[store]\nurl = \"{url}\"\nlease_ms = 2000\n\n[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n\n\
             [agents.greeter]\ninstructions = \"Greet.\"\n"
        );
        std::fs::write(directory.path().join("tollgate.toml"), config).unwrap();
        std::fs::write(directory.path().join("turns.toml"), TURN.repeat(5)).unwrap();
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.current_dir(self.path()).args(words).stdin(Stdio::null());
        command.env_remove("TOLLGATE_DATA").env_remove("TOLLGATE_STORE");
        command
            .env("TOLLGATE_CACHE", self.path().join("cache"))
            .env("XDG_DATA_HOME", self.path().join("data"));
        command
    }

    fn type_in(&self, words: &[&str]) -> Output {
        self.program(words).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.type_in(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns what a person sees who types this on a terminal.
    fn on_a_terminal(&self, words: &str) -> String {
        let program = self.program(&[]);
        let mut command = on_terminal(words);
        command.current_dir(self.path()).stdin(Stdio::null()).env("COLUMNS", "120");
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().expect("`script`, of util-linux, gives programs a terminal");
        anstream::adapter::strip_str(&String::from_utf8_lossy(&output.stdout)).to_string()
    }

    fn work(&self) -> Working {
        Working(self.program(&["work"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

struct Working(Child);

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
struct Serving {
    address: String,
    /// Returns what it says after its address.
    log: std::thread::JoinHandle<String>,
    /// Ends it when it is dropped.
    process: Working,
}

impl Serving {
    fn start(machine: &Machine) -> Self {
        let mut serve = machine.program(&["serve", "--listen", "127.0.0.1:0"]);
        let mut process = Working(serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let address =
            lines.find_map(|line| Some(line.unwrap().strip_prefix("serving at http://")?.to_owned()));
        let log = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Self { address: address.unwrap(), log, process }
    }
}

fn until(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs statements behind the program's back.
fn sql(database: &Database, statements: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { database.client().await.batch_execute(statements).await.unwrap() });
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn database(empty: bool) -> Database {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let database = runtime.block_on(async {
        match empty {
            true => cluster().empty_database().await,
            false => cluster().database().await,
        }
    });
    runtime.shutdown_background();
    database
}

#[test]
fn a_database_is_initialized_checked_and_used() {
    let database = database(true);
    let machine = Machine::new(&database);
    let refused = machine.type_in(&["runs"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        words(&refused).contains("it has no schema; run `") && words(&refused).contains("store init`"),
        "{}",
        words(&refused)
    );
    assert_eq!(machine.type_in(&["store", "check"]).status.code(), Some(1));
    let store_of = |found: Value| {
        let findings = found.as_array().unwrap().iter().find(|finding| finding["part"] == "store").cloned();
        findings.unwrap()["state"].as_str().unwrap().to_owned()
    };
    let found = machine.type_in(&["doctor", "--json"]);
    assert_eq!(store_of(serde_json::from_slice(&found.stdout).unwrap()), "broken");
    assert_eq!(machine.json(&["store", "init", "--json"])["from"], 0);
    assert_eq!(machine.json(&["store", "check", "--json"])["schema"], "current");
    let found = machine.type_in(&["doctor", "--json"]);
    assert_eq!(store_of(serde_json::from_slice(&found.stdout).unwrap()), "ok");
    let said = machine.type_in(&["run", "--agent", "greeter", "Hello."]);
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "Good day.", "{}", words(&said));
    let other = Machine::new(&database);
    let runs = other.json(&["runs", "--json"]);
    assert_eq!(
        (runs[0]["status"].as_str(), runs[0]["agent_id"].as_str()),
        (Some("completed"), Some("greeter"))
    );
    assert!(other.json(&["store", "verify", "--json"])["damaged"].as_array().unwrap().is_empty());
    assert_eq!(machine.json(&["hosts", "--json"]), serde_json::json!([]), "no process is left");
}

#[test]
fn z8_old_runs_are_removed_from_a_database_and_keep_is_enforced_or_refused() {
    let database = database(false);
    let machine = Machine::new(&database);
    let greet = || {
        let said = machine.type_in(&["run", "--agent", "greeter", "Hello."]);
        assert!(said.status.success(), "{}", words(&said));
        sql(&database, "UPDATE runs SET updated_at_ms = 1");
    };
    greet();
    assert_eq!(machine.json(&["prune", "--older-than", "1d", "--dry-run", "--json"])["runs"], 1);
    let pruned = machine.type_in(&["prune", "--older-than", "1d"]);
    let answer = String::from_utf8_lossy(&pruned.stdout);
    assert!(
        answer.starts_with("removed 1 run with ")
            && answer.contains("; the database keeps the space for later records"),
        "{answer} {}",
        words(&pruned)
    );
    assert_eq!(machine.json(&["runs", "--json"]), serde_json::json!([]));

    let config = std::fs::read_to_string(machine.path().join("tollgate.toml")).unwrap();
    std::fs::write(
        machine.path().join("tollgate.toml"),
        config.replace("[store]\n", "[store]\nkeep = \"1d\"\n"),
    )
    .unwrap();
    greet();
    let working = machine.work();
    until("the removal", || machine.json(&["runs", "--json"]) == serde_json::json!([]));
    drop(working);

    let (name, role) = (&database.name, format!("host_{}", database.name));
    let grants = PostgresStore::grants_sql(&role);
    sql(&database, &format!("CREATE ROLE {role} LOGIN; {grants}"));
    let least = cluster().url(name).replace("tollgate@", &format!("{role}@"));
    let refused = machine.type_in(&["prune", "--store", &least]);
    assert_eq!(refused.status.code(), Some(1));
    let says = ["the role lacks DELETE on events, ", "prune --store postgres://OWNER@HOST/DATABASE`"];
    assert!(says.iter().all(|says| words(&refused).contains(says)), "{}", words(&refused));
    for verb in [&["work", "--store", &least][..], &["serve", "--listen", "127.0.0.1:0", "--store", &least]] {
        let refused = machine.type_in(verb);
        assert_eq!(refused.status.code(), Some(2), "{verb:?}");
        let says = ["`keep` in [store] is not enforced: ", "; remove `keep`, and let a timer run `"];
        assert!(says.iter().all(|says| words(&refused).contains(says)), "{verb:?}: {}", words(&refused));
    }
}

#[test]
fn hosts_work_on_what_is_submitted_and_one_goes_on_where_another_was_killed() {
    let database = database(false);
    let (one, two) = (Machine::new(&database), Machine::new(&database));
    let submitted = one.json(&["run", "--agent", "greeter", "--submit", "--json", "Hello."]);
    let listed = one.type_in(&["runs"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("queued"));
    let early = one.type_in(&["resume", submitted["run_id"].as_str().unwrap()]);
    assert!(words(&early).contains("waits for a host to claim it; start one: "), "{}", words(&early));
    let (first, _second) = (one.work(), two.work());
    let completed = |id: &Value| {
        let runs = one.json(&["runs", "--json"]);
        runs.as_array().unwrap().iter().any(|run| run["run_id"] == *id && run["status"] == "completed")
    };
    until("the run", || completed(&submitted["run_id"]));
    let hosts = one.json(&["hosts", "--json"]);
    assert_eq!(hosts.as_array().unwrap().len(), 2, "{hosts}");
    assert_eq!(hosts[0]["agents"], serde_json::json!(["greeter"]));
    drop(first);
    let submitted = two.json(&["run", "--agent", "greeter", "--submit", "--json", "Hello again."]);
    until("the other run", || completed(&submitted["run_id"]));
    until("the takeover", || one.json(&["hosts", "--json"]).as_array().unwrap().len() == 1);
}

/// A turn that calls a tool that lasts until its process ends, and may not run twice.
const LASTS: &str = "[[turn]]\ncalls = [{ name = \"sleep-for-ever\" }]\n";

/// Returns a machine whose agent calls that tool first.
fn lasting(database: &Database) -> Machine {
    let machine = Machine::new(database);
    std::fs::create_dir(machine.path().join("tools")).unwrap();
    std::fs::write(machine.path().join("tools/sleep-for-ever.wasm"), hostile::SLEEP_FOR_EVER.bytes())
        .unwrap();
    let config = std::fs::read_to_string(machine.path().join("tollgate.toml")).unwrap();
    let config = format!("{config}tools = [\"*\"]\n\n[limits]\ntimeout_ms = 120_000\n");
    std::fs::write(machine.path().join("tollgate.toml"), config).unwrap();
    std::fs::write(machine.path().join("turns.toml"), LASTS).unwrap();
    machine
}

/// Waits until a process drives the one run, and returns its id.
fn until_at_work(machine: &Machine) -> String {
    let run = || machine.json(&["runs", "--json"])[0].clone();
    until("that it is at work", || run()["at_work"] == true);
    run()["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_continues_the_run_of_another_that_was_killed() {
    let database = database(false);
    let (one, two) = (lasting(&database), lasting(&database));
    std::fs::write(two.path().join("turns.toml"), TURN).unwrap();
    let [key_of_one, key_of_two] = [&one, &two].map(|machine| {
        let made = machine.json(&["keys", "add", "ada", "--scope", "use", "--json"]);
        made["key"].as_str().unwrap().to_owned()
    });
    let first = Serving::start(&one);
    let (status, started) = start_once(&first.address, &key_of_one);
    assert_eq!(status, 202, "{started}");
    until_at_work(&two);
    let run = two.json(&["runs", "--json"])[0].clone();
    assert!(run["owner"]["name"].is_string() && run["owner"]["id"].is_string(), "{run}");
    let second = Serving::start(&two);
    until("the second server", || two.json(&["hosts", "--json"]).as_array().unwrap().len() == 2);
    drop(first);
    until("the takeover", || two.json(&["runs", "--json"])[0]["status"] == "completed");
    let record = two.type_in(&["show", run["run_id"].as_str().unwrap(), "--json"]);
    let record = String::from_utf8(record.stdout).unwrap();
    assert!(record.contains("interrupted"), "the call is not run twice: {record}");
    // The request was sent to the other server, which is gone.
    let (status, again) = start_once(&second.address, &key_of_two);
    assert_eq!(status, 200, "{again}");
    assert!(
        again.contains("idempotency-replayed: true") && again.contains(run["run_id"].as_str().unwrap()),
        "{again}"
    );
}

#[test]
fn a_run_whose_process_was_killed_is_resumed_by_another() {
    let database = database(false);
    let machine = lasting(&database);
    let mut run = machine.program(&["run", "--agent", "greeter", "Hello."]);
    let mut running = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = until_at_work(&machine);
    let busy = machine.type_in(&["resume", &run]);
    assert!(words(&busy).contains("another process drives the run"), "{}", words(&busy));
    running.kill().unwrap();
    running.wait().unwrap();
    std::fs::write(machine.path().join("turns.toml"), TURN).unwrap();
    until("the end of its lease", || machine.json(&["runs", "--json"])[0]["at_work"] == false);
    let hosts = machine.json(&["hosts", "--json"]);
    assert_eq!(hosts[0]["state"], "late", "{hosts}");
    let resumed = machine.type_in(&["resume", &run]);
    assert!(resumed.status.success(), "{}", words(&resumed));
    assert_eq!(String::from_utf8_lossy(&resumed.stdout).trim(), "Good day.");
}

#[test]
fn what_hosts_serve_is_compared_and_an_agent_without_its_tools_is_left_to_others() {
    let database = database(false);
    let (one, two) = (lasting(&database), Machine::new(&database));
    let config = std::fs::read_to_string(two.path().join("tollgate.toml")).unwrap();
    let config = format!("{config}\n[agents.reviewer]\ntools = [\"sleep-for-ever\"]\n");
    std::fs::write(two.path().join("tollgate.toml"), config).unwrap();
    let named = two.type_in(&["work", "--agents", "reviewer"]);
    assert!(words(&named).contains("cannot work for reviewer"), "{}", words(&named));
    let (_one, _two) = (one.work(), two.work());
    until("both hosts", || one.json(&["hosts", "--json"]).as_array().unwrap().len() == 2);
    let listed = one.type_in(&["hosts"]);
    let says = "hosts serve different tools: sleep-for-ever; run `";
    assert!(words(&listed).contains(says), "{}", words(&listed));
    assert!(words(&listed).contains("give each the same tollgate.toml"), "{}", words(&listed));
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(
        listed.contains("does not serve reviewer: ") && listed.contains("which does not exist"),
        "{listed}"
    );
    assert!(words(&one.type_in(&["store", "check"])).contains(says));
    let hosts = one.json(&["hosts", "--json"]);
    let agents = |host: &Value| host["agents"].as_array().unwrap().iter().any(|agent| agent == "reviewer");
    assert!(!hosts.as_array().unwrap().iter().any(agents), "{hosts}");
}

#[test]
fn a_data_directory_is_copied_into_a_database() {
    let database = database(false);
    let machine = Machine::new(&database);
    let data = machine.path().join("data/tollgate");
    let said = machine.type_in(&["run", "--agent", "greeter", "--data", data.to_str().unwrap(), "Hello."]);
    assert!(said.status.success(), "{}", words(&said));
    assert_eq!(machine.json(&["runs", "--json"]), serde_json::json!([]));
    assert_eq!(machine.json(&["store", "copy", "--json", "--data", data.to_str().unwrap()])["runs"], 1);
    assert_eq!(machine.json(&["runs", "--json"])[0]["status"], "completed");
    let mistyped = machine.path().join("mistyped");
    let refused = machine.type_in(&["store", "copy", "--data", mistyped.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(words(&refused).contains("there is no store in") && !mistyped.exists(), "{}", words(&refused));
}

#[test]
fn a_database_that_is_copied_or_granted_in_part_is_refused_by_name() {
    let database = database(false);
    let machine = Machine::new(&database);
    sql(&database, "INSERT INTO settings VALUES ('copy', '/somewhere')");
    for verb in [&["run", "--agent", "greeter", "Hello."][..], &["work"], &["store", "check"]] {
        let refused = machine.type_in(verb);
        assert_eq!(refused.status.code(), Some(1), "{verb:?}");
        for says in ["a copy into this database has not finished; run `", "store copy` again"] {
            assert!(words(&refused).contains(says), "{verb:?}: {}", words(&refused));
        }
    }
    sql(&database, "DELETE FROM settings WHERE name = 'copy'; DROP TABLE turns");
    let refused = machine.type_in(&["store", "check"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("the role lacks SELECT on turns"), "{}", words(&refused));
    let printed = machine.type_in(&["store", "init", "--print"]);
    assert!(String::from_utf8_lossy(&printed.stdout).contains("GRANT SELECT, INSERT ON events"));
}

#[test]
fn the_code_of_a_question_is_the_same_on_every_machine_and_needs_no_data_directory() {
    let database = database(false);
    let (one, two) = (Machine::new(&database), Machine::new(&database));
    for machine in [&one, &two] {
        std::fs::create_dir(machine.path().join("tools")).unwrap();
        std::fs::write(machine.path().join("tools/suspends.wasm"), good::SUSPENDS.bytes()).unwrap();
    }
    let called = one.type_in(&["call", "suspends", "--json"]);
    assert_eq!(called.status.code(), Some(3), "{}", words(&called));
    let run = serde_json::from_slice::<Value>(&called.stdout).unwrap()["run_id"].as_str().unwrap().to_owned();
    let decide =
        |code: &str| two.type_in(&["decide", &run, "--resume", "{\"approved\": true}", "--code", code]);
    let wrong = decide("000000");
    assert!(words(&wrong).contains("this is not the question's code"), "{}", words(&wrong));
    let shown = one.on_a_terminal(&format!("show {run}"));
    let code = shown.split("its code: ").nth(1).expect(&shown).split_whitespace().next().unwrap();
    assert!(one.on_a_terminal("runs").contains(code));
    let decided = decide(code);
    assert!(decided.status.success(), "{}", words(&decided));
    assert!(!two.path().join("data").exists(), "no data directory is needed");
}

#[test]
fn what_is_wrong_with_a_url_is_told_and_its_password_is_not() {
    let database = database(false);
    let machine = Machine::new(&database);
    for (url, says) in [
        ("postgres://u:hunter2@db/x", "--store or TOLLGATE_STORE: "),
        ("postgres://u:hunter2@db/x", "it contains a password"),
        ("mysql://db/x", "it must begin with postgres://"),
        ("postgres://u@127.0.0.1:1/x", "check that the server runs"),
    ] {
        let refused = machine.type_in(&["runs", "--store", url]);
        assert!(!refused.status.success());
        assert!(words(&refused).contains(says), "{url}: {}", words(&refused));
        assert!(!words(&refused).contains("hunter2"));
    }
    let in_file = Machine::on("postgres://u:hunter2@db/x");
    let refused = in_file.type_in(&["runs"]);
    assert!(words(&refused).contains("tollgate.toml:2, [store]: "), "{}", words(&refused));
    let help =
        machine.program(&["runs", "--help"]).env("TOLLGATE_STORE", "postgres://u:hunter2@db/x").output();
    assert!(!String::from_utf8_lossy(&help.unwrap().stdout).contains("hunter2"));
}

/// Sends a GET, and returns the status and the answer.
fn get(address: &str, path: &str, key: &str) -> (u16, String) {
    send(address, &format!("GET {path}"), key, "\r\n")
}

/// Starts a run that continues without its client, and always the same one.
fn start_once(address: &str, key: &str) -> (u16, String) {
    let body = r#"{"agent": "greeter", "input": "Hello."}"#;
    let headers = "idempotency-key: once\r\nprefer: respond-async\r\ncontent-type: application/json";
    let rest = format!("{headers}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    send(address, "POST /api/v1/runs", key, &rest)
}

/// Sends a request with the rest of its headers and its body, and returns the status and the answer.
fn send(address: &str, request: &str, key: &str, rest: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n");
    write!(stream, "{head}connection: close\r\n{rest}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

#[test]
fn a_server_whose_database_is_away_is_alive_and_not_ready() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut server = runtime.block_on(servers::primary());
    let machine = Machine::on(&server.url(servers::DATABASE));
    let made = machine.json(&["keys", "add", "ada", "--scope", "use,read", "--json"]);
    let key = made["key"].as_str().unwrap();
    let Serving { address, log, process } = Serving::start(&machine);
    let ready = || get(&address, "/readyz", key).0;
    assert_eq!(ready(), 200);
    assert_eq!(get(&address, "/api/v1/runs", key).0, 200);
    server.kill();
    until("that it is not ready", || ready() == 503);
    assert_eq!(get(&address, "/healthz", key).0, 200);
    let (status, answer) = get(&address, "/api/v1/runs", key);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("store_failed"), "{answer}");
    server.start();
    until("that it is ready again", || ready() == 200);
    assert_eq!(get(&address, "/api/v1/runs", key).0, 200);
    drop(process);
    let log = log.join().unwrap();
    assert!(!log.contains("Connection error") && !log.contains("could not be recycled"), "{log}");
}
