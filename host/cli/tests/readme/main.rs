//! Tests that the README and the book are true: their commands are run, their configurations are
//! parsed, and the defaults that they state are compared with the code.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod blocks;
#[allow(dead_code, reason = "its tests publish other components")]
#[path = "../docker_registry/mod.rs"]
mod docker_registry;
mod examples;

use blocks::{Block, Fence, blocks};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tollgate::config::Config;
use tollgate::grants::parse_manifest;
use tollgate_sandbox::SandboxConfig;

/// The page that shows every key of the configuration.
const REFERENCE: &str = "docs/configuration.md";
/// The pages whose TOML blocks are all examples of `tollgate.toml`.
const PAGES: [&str; 9] = [
    "README.md",
    REFERENCE,
    "docs/agents.md",
    "docs/mcp.md",
    "docs/models.md",
    "docs/permissions.md",
    "docs/powers.md",
    "docs/serve.md",
    "docs/store.md",
];

#[test]
fn its_commands_do_what_it_says() {
    let page = page("README.md");
    assert!(page.contains("localhost:5001/"));
    let page = match docker_registry::Registry::start() {
        Some(registry) => {
            return follow(&page.replace("localhost:5001", &registry.host), &Place::in_checkout());
        }
        None => page,
    };
    // Everything but the part that needs a registry.
    let (before, rest) = page.split_once("## Tools from others").unwrap();
    let (_, after) = rest.split_once("\n## ").unwrap();
    follow(&format!("{before}\n## {after}"), &Place::in_checkout());
}

#[test]
fn the_page_of_plain_components_does_what_it_says() {
    let page = page("docs/plain-components.md");
    let place = Place::outside();
    // Dependencies of its compiler are compiled once for all runs of this test.
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain-components");
    std::fs::create_dir_all(&built).unwrap();
    std::fs::create_dir(place.dir.path().join("temperature")).unwrap();
    std::os::unix::fs::symlink(built, place.dir.path().join("temperature/target")).unwrap();
    follow(&page, &place);
}

#[test]
fn the_page_of_publishing_and_installing_does_what_it_says() {
    let Some(registry) = docker_registry::Registry::start() else { return };
    // The page starts a registry of its own, at an address that was free a moment ago.
    let host = registry.host.clone();
    drop(registry);
    let page = page("docs/registry-first.md");
    assert!(page.contains("localhost:5001/"));
    follow(&page.replace("localhost:5001", &host), &Place::in_checkout());
}

#[test]
fn the_pages_of_agents_and_of_clients_do_what_they_say() {
    let place = Place::outside();
    place.write("turns.toml", "[[turn]]\ntext = \"It is clear.\"\n");
    let model = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n";
    place.write("tollgate.toml", &format!("{model}{}", configurations("docs/agents.md")[0]));
    for commands in shell_blocks("docs/agents.md") {
        assert_says(&place.run(&commands), "It is clear.");
    }
    assert_says(&place.run("tollgate runs --json | grep -c completed"), "2");
    assert!(place.run(&shell_blocks("docs/mcp.md")[0]).contains("mcpServers"));
}

/// The first steps with a server: its key and its start, a call, a run, a question, and a replay.
#[test]
fn the_pages_of_the_server_and_of_replays_do_what_they_say() {
    let place = Place::outside();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    place.write_bytes("tools/word_count.wasm", &tollgate_artifacts::rust_guest_bytes("word_count"));
    place.write("turns.toml", "[[turn]]\ntext = \"It has 250 lines.\"\n");
    let config = format!(
        "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[serve]\nlisten = \"{address}\"\n\
         [permissions]\notherwise = \"allow\"\nask = [{{ tool = \"word_count\", matches = \"README\" }}]\n"
    );
    place.write("tollgate.toml", &config);
    let begin = fenced("docs/serve.md", Fence::Console).remove(0);
    let typed: Vec<_> = begin.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let [makes_key, serves] = typed[..] else { panic!("{begin}") };
    let key = place.run(makes_key);
    let ready = "until grep -q '^serving at ' served; do sleep 0.05; done";
    place.run(&format!("{serves} >served 2>&1 &\ntimeout 60 bash -c \"{ready}\""));

    let steps = shell_blocks("docs/serve.md").into_iter().take(4).map(|step| {
        let step = step.replace("127.0.0.1:7300", &address).replace("curl ", "curl --silent --fail ");
        step.replace("export KEY=tg_…\n", "")
    });
    let [lists, calls, runs, decides] = steps.collect::<Vec<_>>().try_into().unwrap();
    let run = |commands: &str| place.run(&format!("export KEY={}\n{commands}", key.trim()));
    let said = run(&lists);
    assert!(said.contains("\"ada\"") && said.contains("\"word_count\""), "{said}");
    let said = run(&calls);
    assert!(said.contains("\"completed\"") && said.contains("\"words\":2"), "{said}");
    let (starts, follows) = runs.split_once("\ncurl").unwrap();
    let ended: Value = serde_json::from_str(&run(starts)).unwrap();
    assert!(ended["status"] == "completed" && ended.to_string().contains("250 lines"), "{ended}");
    let followed = run(&format!("curl{follows}").replace("RUN", ended["run_id"].as_str().unwrap()));
    assert!(followed.contains("250 lines"), "{followed}");

    assert!(run(&calls.replace("one two", "our README")).contains("\"waiting\""));
    let (asks, answers) = decides.split_once("\ncurl").unwrap();
    let open: Value = serde_json::from_str(&run(asks)).unwrap();
    let at = open.pointer("/items/0/answer_path").unwrap_or_else(|| panic!("{open}"));
    let decided = run(&format!("ANSWER_PATH='{}'\ncurl{answers}", at.as_str().unwrap()));
    assert!(decided.contains("\"run_id\""), "{decided}");
    let is_open = "tollgate runs --json | grep -qE '\\\"(running|waiting)\\\"'";
    place.run(&format!("timeout 60 bash -c \"while {is_open}; do sleep 0.05; done\""));

    let replays = shell_blocks("docs/replay.md").remove(0).replace("9f3c2a71", "last");
    assert!(place.run(&replays).contains("same"));
}

/// The pages whose commands use the example tools.
#[test]
fn the_pages_of_models_permissions_powers_and_the_store_do_what_they_say() {
    for (path, tools) in [
        ("docs/models.md", "word_count"),
        ("docs/permissions.md", "word_count notes"),
        ("docs/powers.md", "fetch file_edit"),
        ("docs/store.md", ""),
    ] {
        let place = Place::outside();
        for tool in tools.split_whitespace() {
            place.write_bytes(&format!("tools/{tool}.wasm"), &tollgate_artifacts::rust_guest_bytes(tool));
        }
        follow_at_least(1, &page(path), &place);
    }
}

fn shell_blocks(path: &str) -> Vec<String> {
    fenced(path, Fence::Shell)
}

fn fenced(path: &str, fence: Fence) -> Vec<String> {
    let blocks = blocks(&page(path)).into_iter().filter(|block| block.fence == fence);
    blocks.map(|block| block.text).collect()
}

/// Follows the instructions of a page, like a reader who starts with nothing.
fn follow(page: &str, place: &Place) {
    follow_at_least(3, page, place);
}

/// Follows the instructions of a page, and checks that it ran this many blocks of commands at least.
fn follow_at_least(least: usize, page: &str, place: &Place) {
    let mut said = String::new();
    let mut commands = 0;
    for Block { fence, file, text, .. } in blocks(page).iter().filter(|block| block.left_out.is_none()) {
        match (fence, file) {
            (_, Some(file)) => place.write(file, text),
            (Fence::Shell, None) => {
                said = place.run(text);
                commands += 1;
            }
            (Fence::Text, None) => assert_says(&said, text),
            _ => {}
        }
    }
    assert!(commands >= least, "only {commands} blocks of commands were run");
}

#[test]
fn what_is_not_run_says_why() {
    for block in PAGES.iter().flat_map(|path| blocks(&page(path))) {
        if let Some(reason) = &block.left_out {
            assert!(
                reason.split_whitespace().count() >= 5,
                "{reason:?} is no reason to leave out:\n{}",
                block.text
            );
        }
    }
}

#[test]
fn configurations_are_accepted() {
    for path in PAGES {
        let configurations = configurations(path);
        assert!(!configurations.is_empty(), "{path} shows no configuration");
        for text in configurations {
            match text.lines().next() {
                Some("[asks]") => drop(parse_manifest(&text).unwrap()),
                Some("[[turn]]") => {} // It is played.
                _ => drop(parse(&text)),
            }
        }
    }
}

#[test]
fn the_reference_shows_every_limit_with_its_default() {
    let text = reference();
    let written = &text.parse::<toml::Table>().unwrap()["limits"];
    let meant = parse(&text).limits;
    let default = Config::default().limits;

    let mut run = serde_json::to_value(&meant.run).unwrap();
    run["tokens"] = Value::Null; // shown with a value, because its default is to be absent
    assert_eq!(run, serde_json::to_value(&default.run).unwrap());
    assert_eq!(meant.call, default.call);
    // Shown with a value, because its default depends on another limit.
    assert_eq!(meant.sandbox.component_calls, Some(default.sandbox.component_calls()));
    assert_eq!(SandboxConfig { component_calls: None, ..meant.sandbox }, default.sandbox);

    let runs = numbers_of(&run);
    let calls = numbers_of(&serde_json::to_value(&meant.call).unwrap());
    let all = ["memory_budget_bytes", "concurrent_calls", "component_calls", "waiting_calls"];
    let all = all.map(str::to_owned);
    for limit in runs.into_iter().chain(calls).chain(all) {
        assert!(written.get(&limit).is_some(), "{REFERENCE} does not show the limit {limit}");
    }
}

#[test]
fn the_page_of_the_command_line_names_every_verb() {
    let help = Command::new(env!("CARGO_BIN_EXE_tollgate")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, listed) = help.split_once("Commands:").unwrap();
    let verbs: Vec<&str> = listed
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   ")) // a continuation of the line before
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() >= 7, "{help}");
    let page = page("docs/command-line.md");
    for verb in verbs {
        let named = [format!("`{verb}`"), format!("`{verb} ")].iter().any(|name| page.contains(name));
        assert!(named, "docs/command-line.md does not name the verb {verb}");
    }
}

/// A directory in which a reader works, with the program on the path.
struct Place {
    dir: TempDir,
    /// The directory of the reader's terminal.
    at: RefCell<PathBuf>,
    path: String,
    /// The target directory of cargo, unless it is beside the compiled project.
    target: Option<PathBuf>,
}

impl Place {
    /// Returns the environment of a person in this checkout.
    fn in_checkout() -> Self {
        let target = root().join("target");
        std::fs::create_dir_all(&target).unwrap();
        let dir = tempfile::Builder::new().prefix("readme-").tempdir_in(target).unwrap();
        Self::of(dir, Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme")))
    }

    /// Returns the environment of a person who has only the program.
    fn outside() -> Self {
        Self::of(tempfile::tempdir().unwrap(), None)
    }

    fn of(dir: TempDir, target: Option<PathBuf>) -> Self {
        let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Self { at: RefCell::new(dir.path().to_owned()), dir, path, target }
    }

    fn write(&self, file: &str, text: &str) {
        self.write_bytes(file, text.as_bytes());
    }

    fn write_bytes(&self, file: &str, bytes: &[u8]) {
        let file = self.dir.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    /// Runs commands in a shell with an empty home, in the directory where the commands before ended, and
    /// returns their output. Nothing of this environment applies, except where the Rust toolchain and its
    /// downloads are. Programs in the background end with the place.
    fn run(&self, commands: &str) -> String {
        let home = self.dir.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let mut shell = Command::new("bash");
        let ends = format!("{commands}\npwd > \"$HOME/directory\"; jobs -p >> \"$HOME/jobs\"");
        shell.args(["-eu", "-c", &ends]).current_dir(&*self.at.borrow()).env_clear();
        shell.env("PATH", &self.path).env("HOME", &home).env("LANG", "C.UTF-8");
        for (variable, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(usual));
            let place = std::env::var_os(variable).map(PathBuf::from).or_else(of_home);
            shell.envs(place.map(|place| (variable, place)));
        }
        shell.envs(std::env::var_os("RUSTUP_TOOLCHAIN").map(|name| ("RUSTUP_TOOLCHAIN", name)));
        shell.envs(self.target.as_ref().map(|target| ("CARGO_TARGET_DIR", target)));
        let output = shell.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{commands}\n{errors}", output.status);
        let directory = std::fs::read_to_string(home.join("directory")).unwrap();
        self.at.replace(PathBuf::from(directory.trim_end()));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let jobs = std::fs::read_to_string(self.dir.path().join("home/jobs")).unwrap_or_default();
        for job in jobs.lines() {
            let _ = Command::new("kill").arg(job).status();
        }
    }
}

/// Checks that the lines are printed, in this order, possibly with others in between.
fn assert_says(said: &str, lines: &str) {
    let mut rest = said.lines();
    for line in lines.lines() {
        assert!(rest.any(|said| said.trim_end() == line), "{line:?} was not printed, but:\n{said}");
    }
}

/// Returns a page's examples of `tollgate.toml`.
fn configurations(path: &str) -> Vec<String> {
    fenced(path, Fence::Toml)
}

/// Returns the example that shows every key.
fn reference() -> String {
    configurations(REFERENCE).into_iter().max_by_key(String::len).unwrap()
}

fn parse(text: &str) -> Config {
    Config::parse(&root().join("tollgate.toml"), text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

/// Returns the names of the numeric limits; one that is absent by default is null.
fn numbers_of(limits: &Value) -> Vec<String> {
    let fields = limits.as_object().unwrap().iter();
    fields
        .filter(|(_, value)| value.is_number() || **value == json!(null))
        .map(|(name, _)| name.clone())
        .collect()
}

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
