//! Measures the same tool in every language: its size, its use of resources, and the cost of
//! governing it, compared with wasmtime alone with the same component and WASI linked to nothing.
//!
//! Prints a table of times, and one of sizes and resources. The second is the one of docs/costs.md, and
//! replaces it there if `TOLLGATE_WRITE_DOCS` is set.

use super::floor::context;
use super::floor::generated::tollgate::tool::call::{self, Level, ProgressStatus};
use super::floor::generated::tollgate::tool::types::Entry;
use super::floor::generated::{ToolComponent, ToolComponentPre};
use super::governed;
use super::rounds::{median, median_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tollgate::CallRequest;
use tollgate::tools::Toolbox;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::CallEnd;
use tollgate_sandbox::{Sandbox, SandboxConfig};
use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

/// The name of each language in the table, its folder of `example-tools/text-stats`, and the name
/// of its tool.
const LANGUAGES: [(&str, &str, &str); 6] = [
    ("Rust", "rust", "text_stats_rust"),
    ("C", "c", "text_stats_c"),
    ("Go", "go", "text_stats_go"),
    ("JavaScript", "javascript", "text_stats_js"),
    ("TypeScript", "typescript", "text_stats_ts"),
    ("Python", "python", "text_stats_py"),
];
const TIMES_HEAD: &str = "\
| language | compiled in | first call | later calls | compared with the floor | beyond it |
|---|---:|---:|---:|---:|---:|
";
const RESOURCES_HEAD: &str = "\
| language | size | fuel | memory | instances | memories | tables |
|---|---:|---:|---:|---:|---:|---:|
";
/// The text in docs/costs.md before and after the table.
const MARKS: [&str; 2] =
    ["<!-- measured: TOLLGATE_WRITE_DOCS=1 scripts/bench languages -->\n", "<!-- end -->\n"];
const ROUNDS: usize = 40;
/// The number of calls of each side in a round; each round has a new host.
const CALLS: usize = 50;
const ARGUMENTS: &str = r#"{"text":"one two two three three three, and so on: a hundred bytes or so of ordinary words, as ever."}"#;

/// Prints a row of each table for each of these languages, or for all of them if the list is empty.
pub(crate) async fn table(only: Vec<String>) {
    let wanted = |language: &str| only.is_empty() || only.iter().any(|word| word == language);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut resources = RESOURCES_HEAD.to_owned();
    print!("{TIMES_HEAD}");
    for (name, language, tool) in LANGUAGES.into_iter().filter(|(_, language, _)| wanted(language)) {
        let wasm = build(folder.path(), language);
        let [times, used] = rows(name, tool, &wasm).await;
        print!("{times}");
        resources.push_str(&used);
    }
    println!("\n{resources}");
    if only.is_empty() && std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        write(&resources);
    }
}

/// Replaces the table in the documentation.
fn write(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/costs.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    std::fs::write(page, [before, MARKS[0], table, MARKS[1], after].concat()).unwrap();
}

/// Builds the tool as a person would. Unchanged tools are not built again.
fn build(place: &Path, language: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/text-stats");
    let mut build = Command::new(super::program("release"));
    build.arg("build").arg(sources.join(language)).current_dir(place);
    build.env("TOLLGATE_DATA", place.join("data"));
    build.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-guests"));
    let said = build.output().unwrap();
    assert!(said.status.success(), "{language}: {}", String::from_utf8_lossy(&said.stderr));
    let tools = std::fs::read_dir(place.join("tools")).unwrap();
    let built =
        tools.map(|file| file.unwrap().path()).find(|file| file.extension().is_some_and(|e| e == "wasm"));
    let wasm = place.join(language).with_extension("wasm");
    std::fs::rename(built.unwrap(), &wasm).unwrap();
    wasm
}

/// Returns the rows of a language: its times, and its resources.
async fn rows(language: &str, tool: &'static str, wasm: &Path) -> [String; 2] {
    let bytes = std::fs::read(wasm).unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let began = Instant::now();
    sandbox.load(wasm).await.unwrap().prepare().await.unwrap();
    let compiled = began.elapsed().as_secs_f64();
    let toolbox = governed::toolbox(&sandbox, &[("text-stats", &bytes)], 1).await;
    let floor = Linked::new(sandbox.engine(), &bytes);
    let (first, usage) = governed_calls(&toolbox, tool, 1).await;
    let (mut later, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            floor.call(tool).await;
        }
        floors.push(began.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
        later.push(governed_calls(&toolbox, tool, CALLS).await.0);
    }
    let [instances, memories, tables] = floor.needs().await;
    let times = format!(
        "| {language} | {compiled:.1} s | {:.1} ms | {} | {:.2} | {} |\n",
        first / 1e3,
        time(median(&later)),
        median_of(&later, &floors, |governed, floor| governed / floor),
        time(median_of(&later, &floors, |governed, floor| governed - floor)),
    );
    let resources = format!(
        "| {language} | {} | {} | {:.1} MiB | {instances} | {memories} | {tables} |\n",
        size(bytes.len()),
        grouped(usage.fuel),
        usage.memory_bytes as f64 / f64::from(1 << 20),
    );
    [times, resources]
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

/// Formats a time. Small values keep one decimal.
fn time(micros: f64) -> String {
    match micros {
        ..100.0 => format!("{micros:.1} us"),
        ..500.0 => format!("{micros:.0} us"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group));
    grouped.collect::<Vec<_>>().join(",")
}

/// Returns the microseconds per call, and the resources used by the last call.
async fn governed_calls(toolbox: &Toolbox, tool: &str, calls: usize) -> (f64, Usage) {
    let host = governed::host(toolbox);
    let mut last = None;
    let began = Instant::now();
    for _ in 0..calls {
        last = host.call(CallRequest::from_json(tool, ARGUMENTS)).await.unwrap().last_call;
    }
    let time = began.elapsed().as_secs_f64() * 1e6 / calls as f64;
    let call = last.unwrap();
    assert!(matches!(&call.end, CallEnd::Result(result) if result.is_success()), "{:?}", call.end);
    (time, call.usage)
}

/// A component whose imports are all linked, to nothing.
struct Linked {
    engine: Engine,
    tool: ToolComponentPre<Bare>,
}

impl Linked {
    fn new(engine: &Engine, bytes: &[u8]) -> Self {
        let component = Component::new(engine, bytes).unwrap();
        let mut linker = Linker::<Bare>::new(engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        call::add_to_linker::<Bare, HasSelf<Bare>>(&mut linker, |bare| bare).unwrap();
        let tool = ToolComponentPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
        Self { engine: engine.clone(), tool }
    }

    fn store(&self) -> Store<Bare> {
        let (wasi, resources) = (WasiCtx::builder().build(), ResourceTable::new());
        let mut store = Store::new(&self.engine, Bare { wasi, resources, limits: StoreLimits::default() });
        store.set_fuel(u64::MAX).unwrap();
        store.set_epoch_deadline(u64::MAX / 2);
        store
    }

    /// Returns the core instances, memories and tables of a call: the smallest limits with which
    /// it can be instantiated, as `[limits]` counts them.
    async fn needs(&self) -> [usize; 3] {
        let limits = StoreLimitsBuilder::new;
        [
            self.least(|most| limits().instances(most).build()).await,
            self.least(|most| limits().memories(most).build()).await,
            self.least(|most| limits().tables(most).build()).await,
        ]
    }

    async fn least(&self, limits: impl Fn(usize) -> StoreLimits) -> usize {
        for most in 0..1_000 {
            let mut store = self.store();
            store.data_mut().limits = limits(most);
            store.limiter(|bare| &mut bare.limits);
            if self.tool.instantiate_async(&mut store).await.is_ok() {
                return most;
            }
        }
        panic!("no instance can be made at all");
    }

    async fn call(&self, name: &'static str) {
        let mut store = self.store();
        let tool: ToolComponent = self.tool.instantiate_async(&mut store).await.unwrap();
        let seen = format!("{}.words-seen", name.replace('_', "-"));
        let values = [Entry { key: &seen, value: "0" }];
        let returned = tool
            .tollgate_tool_tool()
            .call_execute(&mut store, ARGUMENTS, context(name, &values))
            .await
            .unwrap();
        assert!(returned.is_ok(), "{returned:?}");
    }
}

/// The state of a call on the floor.
struct Bare {
    wasi: WasiCtx,
    resources: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.resources }
    }
}

impl call::Host for Bare {
    fn report_activity(&mut self, _kind: String, _content: String) {}

    fn report_activity_delta(&mut self, _kind: String, _patch: String) {}

    fn report_progress(&mut self, _status: ProgressStatus, _message: Option<String>, _progress: Option<f64>) {
    }

    fn stream_output(&mut self, _delta: String) {}

    fn log(&mut self, _level: Level, _message: String) {}

    fn read_state(&mut self, _key: String) -> Option<String> {
        None
    }

    fn is_cancelled(&mut self) -> bool {
        false
    }
}
