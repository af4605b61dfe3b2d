//! The first hour without a checkout: projects with data of their own, guest libraries from the
//! program, compilers, tests, the doctor.

use crate::person::{type_on_a_terminal, type_with};
use crate::place::{Place, Said};
use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tollgate_artifacts::good;

/// A user with a home directory and no settings.
struct User {
    place: Place,
}

impl User {
    fn new() -> Self {
        Self { place: Place::new() }
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    fn data(&self) -> PathBuf {
        self.home().join("share/tollgate")
    }

    fn project(&self, name: &str) -> PathBuf {
        let dir = self.place.path().join(name);
        self.place.write(&format!("{name}/tools/echo.wasm"), good::ECHO.bytes());
        self.place.write(&format!("{name}/tollgate.toml"), "");
        dir
    }

    /// Runs the program in a directory, without `--data` and without its variables.
    fn type_in(&self, dir: &Path, arguments: &[&str]) -> Said {
        let mut command = self.place.program(arguments);
        command.current_dir(dir).env_remove("TOLLGATE_DATA").env("HOME", self.home());
        command.env("XDG_DATA_HOME", self.home().join("share")).env_remove("XDG_CACHE_HOME");
        Said::of(&Command::from_std(command).assert())
    }

    fn runs(&self, dir: &Path) -> usize {
        self.type_in(dir, &["runs", "--json"]).ends_with(0).json().as_array().unwrap().len()
    }
}

#[test]
fn projects_do_not_mix_and_a_moved_one_keeps_its_runs() {
    let user = User::new();
    let (one, other) = (user.project("one"), user.project("other"));
    user.type_in(&one, &["call", "echo", "{}", "--thread", "t"]).ends_with(0);
    assert_eq!((user.runs(&one), user.runs(&other)), (1, 0));
    // From anywhere else, the configuration names the project.
    let config = one.join("tollgate.toml");
    let named = user.type_in(&other, &["--config", config.to_str().unwrap(), "runs", "--json"]).ends_with(0);
    assert_eq!(named.json().as_array().unwrap().len(), 1);
    let moved = user.place.path().join("moved");
    std::fs::rename(&one, &moved).unwrap();
    assert_eq!(user.runs(&moved), 1);
    assert_eq!(std::fs::read_dir(user.data().join("projects")).unwrap().count(), 2);
}

#[test]
fn a_project_without_a_configuration_keeps_its_runs_when_it_moves_and_leaves_none_behind() {
    let user = User::new();
    let one = user.project("one");
    std::fs::remove_file(one.join("tollgate.toml")).unwrap();
    user.type_in(&one, &["call", "echo", "{}"]).ends_with(0);
    let moved = user.place.path().join("moved");
    std::fs::rename(&one, &moved).unwrap();
    std::fs::create_dir(&one).unwrap();
    assert_eq!((user.runs(&one), user.runs(&moved)), (0, 1));
}

#[test]
fn the_first_build_creates_a_cache_that_is_this_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    let dir = user.place.path().join("work");
    std::fs::create_dir(&dir).unwrap();
    user.type_in(&dir, &["new", "hello"]).ends_with(0);
    // Cargo creates its target directory with all parents.
    let script = "#!/bin/sh\n[ $1 != metadata ] || exec /bin/echo '{\"packages\": []}'\n/bin/mkdir -p \"$CARGO_TARGET_DIR\"\n";
    let cargo = user.place.write("bin/cargo", script);
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = user.place.program(&["test", "hello"]);
    command.current_dir(&dir).env("HOME", user.home()).env("PATH", cargo.parent().unwrap());
    command.env("XDG_DATA_HOME", user.home().join("share")).env("XDG_CACHE_HOME", user.home().join("cache"));
    command.env_remove("CARGO_TARGET_DIR");
    Said::of(&Command::from_std(command).assert()).ends_with(0);
    let cache = user.home().join("cache/tollgate");
    assert!(cache.join("target").is_dir());
    assert_eq!(cache.metadata().unwrap().permissions().mode() & 0o777, 0o700);

    // The doctor reports one that is open.
    let place = Place::new();
    std::fs::create_dir(place.path().join("cache")).unwrap();
    std::fs::set_permissions(place.path().join("cache"), std::fs::Permissions::from_mode(0o755)).unwrap();
    place.type_in(&["doctor"]).ends_with(1).answers("is open to other users; close it: chmod 700");
}

#[test]
fn an_older_store_that_all_projects_shared_is_named_once() {
    let user = User::new();
    let dir = user.project("one");
    let shared = user.data();
    user.type_in(&dir, &["--data", shared.to_str().unwrap(), "call", "echo", "{}"]).ends_with(0);
    let said = user.type_in(&dir, &["call", "echo", "{}"]).ends_with(0);
    assert!(said.stderr.contains("all projects shared") && said.stderr.contains("--data"), "{said:?}");
    let again = user.type_in(&dir, &["call", "echo", "{}"]).ends_with(0);
    assert!(!again.stderr.contains("all projects shared"), "{again:?}");
    let old = user.type_in(&dir, &["--data", shared.to_str().unwrap(), "runs", "--json"]).ends_with(0).json();
    assert_eq!(old.as_array().unwrap().len(), 1);
    user.type_in(&dir, &["doctor"]).answers("older store");
}

#[test]
fn a_new_project_without_a_checkout_uses_the_libraries_of_the_program() {
    let user = User::new();
    let dir = user.place.path().join("work");
    std::fs::create_dir(&dir).unwrap();
    user.type_in(&dir, &["new", "hello"]).ends_with(0);
    user.type_in(&dir, &["new", "greet", "--lang", "python"]).ends_with(0);
    let manifest: toml::Table =
        std::fs::read_to_string(dir.join("hello/Cargo.toml")).unwrap().parse().unwrap();
    let sdk = PathBuf::from(manifest["dependencies"]["tollgate-sdk"]["path"].as_str().unwrap());
    assert!(sdk.starts_with(user.data().canonicalize().unwrap()) || sdk.starts_with(user.data()), "{sdk:?}");
    // Its manifests are whole.
    let read = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&sdk)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.success(), "{words}");
    let metadata: Value = serde_json::from_slice(&read.stdout).unwrap();
    let names: Vec<_> =
        metadata["packages"].as_array().unwrap().iter().map(|package| package["name"].clone()).collect();
    assert!(
        names.contains(&"tollgate-sdk".into()) && names.contains(&"tollgate-sdk-macros".into()),
        "{names:?}"
    );
    let recipe = std::fs::read_to_string(dir.join("greet/tool.toml")).unwrap();
    let recipe: toml::Table = recipe.parse().unwrap();
    assert!(Path::new(recipe["sdk"].as_str().unwrap()).join("tollgate").is_dir(), "{recipe}");
}

#[test]
fn missing_compilers_are_named_at_once_with_the_command_that_installs_them() {
    let place = Place::new();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk");
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (language, words) in [
        ("python", "toolchains install python"),
        ("go", "toolchains install go"),
        ("c", "toolchains install c"),
        ("javascript", "tsc, esbuild, componentize-qjs"),
    ] {
        let name = format!("in-{language}");
        place.type_in(&["new", &name, "--lang", language, "--sdk", sdk.to_str().unwrap()]).ends_with(0);
        let mut command = place.program(&["build", &name]);
        command.env("PATH", &empty).env("HOME", place.path()).env("XDG_DATA_HOME", &empty);
        Said::of(&Command::from_std(command).assert()).ends_with(1).says("missing").says(words);
        if ["go", "c"].contains(&language) {
            let mut command = place.program(&["test", &name]);
            command.env("PATH", &empty).env("HOME", place.path()).env("XDG_DATA_HOME", &empty);
            Said::of(&Command::from_std(command).assert()).ends_with(1).says("missing").says(words);
        }
    }
    place.type_in(&["toolchains", "install", "cobol"]).ends_with(2).says("possible values");
    place.type_in(&["toolchains", "list", "--json"]).ends_with(0).answers("componentize-py");
}

#[test]
fn the_tests_of_a_project_run_with_the_tools_of_its_language() {
    let place = Place::new();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk");
    place.type_in(&["new", "greet", "--lang", "python", "--sdk", sdk.to_str().unwrap()]).ends_with(0);
    place.type_in(&["test", "greet"]).ends_with(0).says("unittest").answers("passed");
    let test = std::fs::read_to_string(place.path().join("greet/test_tool.py")).unwrap();
    place.write("greet/test_tool.py", test.replace("assertEqual(", "assertNotEqual("));
    place.type_in(&["test", "greet"]).ends_with(1).says("failed");
    place.type_in(&["test", "nowhere"]).ends_with(2).says("it has no Cargo.toml");
}

#[test]
fn the_doctor_names_what_is_wrong_and_ends_with_1_only_for_what_is_broken() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[grants.ghost]\n");
    place.write("tools/odd.wasm", "not a component");
    let found = place.type_in(&["doctor", "--json"]).ends_with(1).json();
    let has = |part: &str, words: &str| {
        found
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["part"] == part && it["words"].as_str().unwrap().contains(words))
    };
    assert!(
        has("tools", "1 tool from") && has("tools", "not served") && has("tools", "[grants.ghost]"),
        "{found}"
    );
    assert!(has("directories", "free") && has("compilers", "cargo 1."), "{found}");
    std::fs::remove_file(place.path().join("tools/odd.wasm")).unwrap();
    place
        .type_in(&["doctor"])
        .ends_with(0)
        .answers("confinement")
        .answers("compilers")
        .answers("provider = \"openai\"");
    place.write("tollgate.toml", "[agents.assistant]\ntools = [\"ecko\"]\n");
    place
        .type_in(&["doctor"])
        .ends_with(0)
        .answers("lists the tool `ecko`, which does not exist; did you mean `echo`?");
    for (config, words) in [
        ("[tools]\ndir = \"toolz\"\n", "the directory toolz does not exist; correct `dir` in [tools]"),
        ("[mcp.m]\ncommand = \"./gone\"\n", "its program ./gone is not found; correct `command` in [mcp.m]"),
        (
            "[mcp.m]\nurl = \"http://localhost:1/\"\ntoken_env = \"NO_SUCH\"\n",
            "NO_SUCH, `token_env` of [mcp.m], is not set",
        ),
        (
            "[secrets.k]\nenv = \"NO_SUCH\"\nto = \"https://a.test\"\nheader = \"authorization\"\n",
            "the environment variable NO_SUCH is not set; correct [secrets.k]",
        ),
    ] {
        place.write("tollgate.toml", config);
        place.type_in(&["doctor"]).ends_with(1).answers(words);
    }
    place.write("tollgate.toml", "[nonsense]\n");
    place.type_in(&["doctor"]).ends_with(1).answers("broken").answers("nonsense");
}

/// Answers every request with this status and body, until the test ends.
fn answering(status: &'static str, body: &'static str) -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

#[test]
fn the_doctor_contacts_what_the_configuration_names() {
    let place = Place::new();
    let has_model = answering("200 OK", r#"{"data": [{"id": "small"}, {"id": "large"}]}"#);
    let wants_login = answering("401 Unauthorized", "");
    let found = |config: String, code: i32| {
        place.write("tollgate.toml", config);
        let said = place.type_in(&["doctor", "--json"]).ends_with(code).json();
        let of_servers = said.as_array().unwrap().iter().filter(|finding| finding["part"] == "servers");
        let lines = of_servers.map(|finding| {
            [&finding["name"], &finding["state"], &finding["words"]].map(|it| it.as_str().unwrap()).join(" ")
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let model = |address: &str, name: &str| {
        format!("[model]\nprovider = \"openai\"\nmodel = \"{name}\"\nbase_url = \"http://{address}/v1\"\n")
    };
    assert_eq!(found(model(&has_model, "small"), 0), "model small ok its provider answers and has it");
    let lacks = found(model(&has_model, "tiny"), 0);
    assert!(lacks.contains("model tiny note") && lacks.contains("begins with small, large"), "{lacks}");
    let refused = found(model(&wants_login, "small"), 1);
    assert!(refused.contains("broken") && refused.contains("`api_key_env` in [model]"), "{refused}");
    let gone = found(model("127.0.0.1:1", "small"), 1);
    assert!(gone.contains("cannot be reached at http://127.0.0.1:1 (`base_url` in [model])"), "{gone}");
    place.type_in(&["doctor", "--offline"]).ends_with(0).answers("not contacted (--offline)");

    let mcp = "[mcp.m]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no key >&2; exit 3\"]\n";
    let died = found(mcp.to_owned(), 1);
    assert!(died.contains("mcp m broken the server m failed to start") && died.contains("no key"), "{died}");
    let registries = found(format!("[registries.\"{wants_login}\"]\n[registries.\"127.0.0.1:1\"]\n"), 0);
    assert!(registries.contains(&format!("registry {wants_login} ok it answers")), "{registries}");
    assert!(registries.contains("registry 127.0.0.1:1 note"), "{registries}");
    let remote = "[agents.far]\nkind = \"a2a\"\nurl = \"http://127.0.0.1:1/a2a/far\"\n".to_owned();
    let remote = found(remote, 1);
    assert!(
        remote.contains("agent far broken") && remote.contains("correct `url` in [agents.far]"),
        "{remote}"
    );
}

#[test]
fn a_warning_about_an_unrelated_tool_is_not_under_every_command() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[grants.ghost]\n");
    place.write("tools/odd.wasm", "not a component");
    place.type_in(&["tools"]).ends_with(0).says("[grants.ghost]").answers("odd.wasm");
    let said = place.type_in(&["call", "echo", "{}"]).ends_with(0);
    assert!(!said.stderr.contains("ghost") && !said.stderr.contains("odd.wasm"), "{said:?}");

    // The notice about the rule ends in "approve it", and is not about the component of that name.
    let place = Place::new().with_tools(&[good::ADDER]).with_config("[permissions]\nallow = [\"adder\"]\n");
    place.write("tools/approve.wasm", tollgate_artifacts::rust_guest_bytes("approve"));
    let said = place.type_in(&["call", "request_approval", "{\"question\": \"Go?\"}"]).ends_with(3);
    assert!(!said.stderr.contains("adder"), "{said:?}");
    place.type_in(&["call", "adder"]).ends_with(0).says("not approved");
}

const MODEL: &str = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n";

#[test]
fn a_conversation_at_the_terminal_streams_asks_and_has_a_history() {
    let place = Place::new().with_tools(&[good::SUSPENDS]).with_config(MODEL);
    place.write(
        "turns.toml",
        "[[turn]]\ntext = \"Hello yourself.\"\n[[turn]]\ncalls = [{ name = \"suspends\" }]\n[[turn]]\ntext = \"It is decided.\"\n",
    );
    let screen =
        type_on_a_terminal(&place, &["chat", "--thread", "t"], "Hello\nAsk me\nyes\n/history\n/exit\n")
            .ends_with(0);
    for words in ["Hello yourself.", "Shall I?", "It is decided.", "→ suspends", "chat --thread t"] {
        assert!(screen.text.contains(words), "{words:?} is not on the screen:\n{}", screen.text);
    }
    for noise in ["turn 1", "gate tool-list", "suspends asks:"] {
        assert!(!screen.text.contains(noise), "{noise}: {}", screen.text);
    }
    let again = type_on_a_terminal(&place, &["chat", "--thread", "last"], "/history\n").ends_with(0);
    again.shows("messages so far").shows("Hello yourself.");
    place.type_in(&["chat", "--json"]).ends_with(2).says("tollgate run");
    let empty = type_on_a_terminal(&place, &["chat"], "/thread\n/exit\n").ends_with(0);
    assert!(empty.shows("no messages yet").text.lines().all(|line| !line.contains("continue later")));
}

#[test]
fn a3_an_empty_or_withheld_reply_ends_with_its_reason_and_1() {
    let place = Place::new().with_config(MODEL);
    for (turn, reason) in [
        ("text = \"\"", "finish reason: stop"),
        ("text = \"I was about to\"\nfinish = \"filtered\"", "finish reason: filtered"),
    ] {
        place.write("turns.toml", format!("[[turn]]\n{turn}\n"));
        place.type_in(&["run", "Tell me."]).ends_with(1).says(reason);
        place.type_in(&["show", "last"]).ends_with(0).answers(reason);
        let listed = place.type_in(&["runs", "--json"]).json();
        assert_eq!(listed[0]["status"], "failed");
    }
}

#[test]
fn a_build_that_watches_builds_again_when_a_source_changes() {
    let place = Place::new();
    place.type_in(&["new", "hello", "--lang", "wat"]).ends_with(0);
    let mut watching = type_with(&place, &["build", "hello", "--watch"]);
    let tool = place.path().join("tools/hello.wasm");
    let wait = |is_so: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_so() {
            assert!(std::time::Instant::now() < deadline, "nothing was built");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    wait(&|| tool.is_file());
    let first = std::fs::read(&tool).unwrap();
    let source = place.path().join("hello/tool.wat");
    let text = std::fs::read_to_string(&source).unwrap();
    // An error is reported, and the next change is built.
    std::fs::write(&source, "(component").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    std::fs::write(&source, text.replacen("Hello", "Hullo", 1)).unwrap();
    wait(&|| std::fs::read(&tool).is_ok_and(|now| now != first));
    watching.kill().unwrap();
    watching.wait().unwrap();
}
