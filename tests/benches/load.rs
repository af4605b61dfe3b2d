//! Measures loading a hundred tools from the cache, compared with reading and deserializing the
//! same bytes with wasmtime alone, and how a start grows with up to 2,000 small components:
//! `cargo bench --profile dist -p tollgate-tests --bench load`.
//!
//! The tools are the example tools in Rust, each several times under other names, so that all
//! have different bytes. Both sides use the same number of threads and take turns.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod measure;

use measure::rounds::{median, median_of};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tollgate::config::Config;
use tollgate::tools::directory;
use tollgate_artifacts::rust_guest_bytes;
use tollgate_sandbox::{Sandbox, SandboxConfig};
use wasmtime::Engine;
use wasmtime::component::Component;

const TOOLS: usize = 100;
const ROUNDS: usize = 30;
const THREADS: usize = 2;
/// The example tools whose name has room for a number and is contiguous in the compiled file: ten
/// of each.
const GUESTS: [&str; 10] = [
    "counter",
    "csv-stats",
    "fetch",
    "json-query",
    "markdown-outline",
    "regex-extract",
    "slow-report",
    "text-stats",
    "weather",
    "web-page-to-markdown",
];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    for number in 0..TOOLS {
        let guest = GUESTS[number % GUESTS.len()];
        std::fs::write(tools.join(format!("{number:03}.wasm")), renamed(guest, number)).unwrap();
    }
    let runtime = tollgate_sandbox::runtime().unwrap();
    let config = Config { tools_dir: tools.clone(), ..Config::default() };
    let sandbox = || {
        let cache_dir = Some(folder.path().join("cache"));
        Sandbox::new(SandboxConfig { cache_dir, ..SandboxConfig::default() }).unwrap()
    };
    let cold = sandbox();
    let began = Instant::now();
    let served = runtime.block_on(load(&cold, &config));
    assert_eq!(served, TOOLS, "every tool is served");
    let compiled = began.elapsed().as_secs_f64();
    let artifacts = artifacts(cold.engine(), &tools, folder.path());
    let bytes: u64 = artifacts.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();

    let (mut floors, mut lists, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // A new sandbox for each side, as in another process.
        let timed = |work: &dyn Fn(&Sandbox)| {
            let sandbox = sandbox();
            let began = Instant::now();
            work(&sandbox);
            began.elapsed().as_secs_f64() * 1e3
        };
        let floor = timed(&|sandbox| floor(sandbox.engine(), &artifacts));
        let list = timed(&|sandbox| assert_eq!(runtime.block_on(load(sandbox, &config)), TOOLS));
        let load = timed(&|sandbox| runtime.block_on(prepare(sandbox, &tools)));
        if round > 0 {
            floors.push(floor);
            lists.push(list);
            loads.push(load);
        }
    }
    println!("| {TOOLS} tools, {} MB of code, {THREADS} threads | time | beside the floor |", bytes >> 20);
    println!("|---|---:|---:|");
    println!("| compiled, at first | {:.0} ms | |", compiled * 1e3);
    println!("| the floor: read and deserialized | {:.1} ms | |", median(&floors));
    let beside = |times: &[f64]| median_of(times, &floors, |time, floor| time / floor);
    println!(
        "| authenticated and ready to be called | **{:.1} ms** | **{:.2}** |",
        median(&loads),
        beside(&loads)
    );
    println!(
        "| served: listed, checked, callable on demand | **{:.1} ms** | **{:.2}** |\n",
        median(&lists),
        beside(&lists)
    );
    growth();
}

/// Measures starts with more and more components that do next to nothing.
fn growth() {
    const COUNTS: [usize; 4] = [250, 500, 1_000, 2_000];
    const STARTS: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let runtime = tollgate_sandbox::runtime().unwrap();
    println!("| small components | a start | each, beside {} |\n|---:|---:|---:|", COUNTS[0]);
    let mut first = None;
    for count in COUNTS {
        let tools = folder.path().join(count.to_string());
        std::fs::create_dir(&tools).unwrap();
        for number in 0..count {
            std::fs::write(tools.join(format!("small{number:04}.wasm")), small(number)).unwrap();
        }
        let config = Config { tools_dir: tools, ..Config::default() };
        let start = || {
            let cache_dir = Some(folder.path().join("cache"));
            let sandbox = Sandbox::new(SandboxConfig { cache_dir, ..SandboxConfig::default() }).unwrap();
            let began = Instant::now();
            assert_eq!(runtime.block_on(load(&sandbox, &config)), count);
            began.elapsed().as_secs_f64() * 1e3
        };
        // The first start compiles.
        start();
        let times: Vec<f64> = (0..STARTS).map(|_| start()).collect();
        let each = median(&times) / count as f64;
        println!("| {count} | {:.0} ms | {:.2} |", median(&times), each / *first.get_or_insert(each));
    }
}

/// Returns a component with one function, and bytes of its own.
fn small(number: usize) -> Vec<u8> {
    let text = format!(
        "(component (core module $code (func (export \"f\") (result i32) (i32.const {number})))
           (core instance $code (instantiate $code))
           (func (export \"number{number}\") (result u32) (canon lift (core func $code \"f\"))))"
    );
    wat::parse_str(text).unwrap()
}

/// Loads like a starting host: words are authenticated, checked and put into a catalog. The code
/// of a tool follows when it is called.
async fn load(sandbox: &Sandbox, config: &Config) -> usize {
    directory::load(sandbox, config, &|_, _, _: &Path| {}).await.unwrap().components.len()
}

/// Loads the code of every tool: authenticated, deserialized and linked.
async fn prepare(sandbox: &Sandbox, tools: &Path) {
    let numbers: Vec<usize> = (0..TOOLS).collect();
    let parts: Vec<_> = numbers
        .chunks(TOOLS.div_ceil(2 * THREADS))
        .map(|part| {
            let (sandbox, tools, part) = (sandbox.clone(), tools.to_owned(), part.to_vec());
            tokio::spawn(async move {
                for number in part {
                    let component = sandbox.load(tools.join(format!("{number:03}.wasm"))).await.unwrap();
                    component.prepare().await.unwrap();
                }
            })
        })
        .collect();
    for part in parts {
        part.await.unwrap();
    }
}

/// Loads with wasmtime alone.
#[allow(unsafe_code, reason = "the floor is what wasmtime does with code that was compiled here")]
fn floor(engine: &Engine, artifacts: &[PathBuf]) {
    std::thread::scope(|scope| {
        for part in artifacts.chunks(artifacts.len().div_ceil(THREADS)) {
            scope.spawn(move || {
                for path in part {
                    let bytes = std::fs::read(path).unwrap();
                    // SAFETY: `artifacts` wrote these files with this engine's compiler.
                    drop(unsafe { Component::deserialize(engine, &bytes) }.unwrap());
                }
            });
        }
    });
}

fn artifacts(engine: &Engine, tools: &Path, folder: &Path) -> Vec<PathBuf> {
    let compile = |number: usize| {
        let wasm = std::fs::read(tools.join(format!("{number:03}.wasm"))).unwrap();
        let path = folder.join(format!("{number:03}.floor"));
        std::fs::write(&path, engine.precompile_component(&wasm).unwrap()).unwrap();
        path
    };
    (0..TOOLS).map(compile).collect()
}

/// Returns the guest with this number at the end of its id and its tool's name.
fn renamed(guest: &str, number: usize) -> Vec<u8> {
    let mut bytes = rust_guest_bytes(guest);
    let name = guest.replace('-', "_");
    for word in [guest, &name] {
        let end = format!("{number:03}");
        let other = format!("{}{end}", &word[..word.len() - end.len()]);
        let places: Vec<usize> = bytes
            .windows(word.len())
            .enumerate()
            .filter(|(_, window)| *window == word.as_bytes())
            .map(|(at, _)| at)
            .collect();
        for at in places {
            bytes[at..at + word.len()].copy_from_slice(other.as_bytes());
        }
    }
    bytes
}
