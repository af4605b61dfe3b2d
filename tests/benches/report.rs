//! The costs of governing a call, as ratios to the raw floor measured in the same run:
//! `scripts/bench` prints them as a Markdown table.
//!
//! Every figure is the median over rounds in which all sides take turns, so that it is
//! reproducible on a machine with some other load.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod measure;

use measure::floor::Floor;
use measure::governed;
use measure::guests::{Echo, PAYLOADS, arguments, echoes};
use measure::rounds::{Extent, Subject, measure, median, median_of, percentile};
use measure::waiting;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate::{CallRequest, Host};
use tollgate_artifacts::hostile;
use tollgate_sandbox::{Sandbox, SandboxConfig};

const SMALL: Extent = Extent { rounds: 200, calls: 50 };
/// Creating a host with a thousand tools evicts the processor's caches, so it makes many calls.
const LONG: Extent = Extent { rounds: 40, calls: 500 };
const LARGE: Extent = Extent { rounds: 50, calls: 4 };
const SPINNERS: usize = 8;
const ECHOES_BESIDE_SPINNERS: usize = 400;

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |part: &str| only.is_empty() || only.iter().any(|word| word == part);
    let runtime = tollgate_sandbox::runtime().unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let (echoes, missing) = echoes();
    if let Some(why) = missing {
        eprintln!("{why}");
    }
    runtime.block_on(async {
        if wanted("payloads") {
            tokio::spawn(payloads(sandbox.clone(), echoes.clone(), &PAYLOADS)).await.unwrap();
        }
        if wanted("accounting") {
            tokio::spawn(accounting(sandbox.clone(), echoes.clone())).await.unwrap();
        }
        if wanted("tools") {
            tokio::spawn(loaded_tools(sandbox.clone(), echoes[0].clone())).await.unwrap();
        }
        if wanted("scaling") {
            tokio::spawn(scaling(sandbox.clone(), echoes.clone())).await.unwrap();
        }
        if wanted("spinners") {
            tokio::spawn(beside_spinners(sandbox.clone(), echoes[0].clone())).await.unwrap();
        }
        if wanted("durable") {
            tokio::spawn(measure::durable::durable(sandbox.clone(), echoes[0].clone())).await.unwrap();
        }
        if wanted("runs") {
            tokio::spawn(runs(sandbox.clone(), echoes[0].clone())).await.unwrap();
        }
        // Not included by default: it needs the toolchains of all languages.
        if let Some(at) = only.iter().position(|word| word == "languages") {
            // The cost of governing any call comes before the costs of additional features.
            tokio::spawn(payloads(sandbox.clone(), echoes.clone(), &PAYLOADS[..1])).await.unwrap();
            tokio::spawn(measure::languages::table(only[at + 1..].to_vec())).await.unwrap();
        }
        if wanted("waiting") {
            waiting::table(&sandbox, &[100, 100_000]).await;
        }
    });
}

async fn payloads(sandbox: Sandbox, echoes: Vec<Echo>, payloads: &[(&str, usize)]) {
    println!("| guest | text | floor | governed call | ratio | beyond the floor |");
    println!("|---|---:|---:|---:|---:|---:|");
    for echo in &echoes {
        let floor = Floor::new(sandbox.engine(), echo.tool, &echo.bytes);
        let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1).await;
        for &(size, bytes) in payloads {
            let arguments = arguments(bytes);
            let sides = [
                (Subject::floor(&floor, echo.tool, &arguments), 1),
                (Subject::governed(&toolbox, echo.tool, &arguments), 1),
            ];
            let extent = if bytes > 100_000 { LARGE } else { SMALL };
            let times = measure(&sides, extent).await;
            println!(
                "| {} | {size} | {:.1} us | {:.1} us | **{:.2}** | {:.1} us |",
                echo.language,
                median(&times[0]),
                median(&times[1]),
                median_of(&times[1], &times[0], |governed, floor| governed / floor),
                median_of(&times[1], &times[0], |governed, floor| governed - floor),
            );
        }
    }
    println!();
}

/// The largest part of a governed call that counting may take, in percent, for each payload.
const MOST_COUNTING: [(f64, usize); 2] = [(5.0, 0), (10.0, 1)];

async fn accounting(sandbox: Sandbox, echoes: Vec<Echo>) {
    println!(
        "| guest | text | governed call | counting | part of the call | goal | check against the schema |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for echo in &echoes {
        let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1).await;
        for (goal, payload) in MOST_COUNTING {
            let (size, bytes) = PAYLOADS[payload];
            let arguments = arguments(bytes);
            let [counting, check] = Subject::accounting(&toolbox, echo.tool, &arguments).await;
            let sides = [(Subject::governed(&toolbox, echo.tool, &arguments), 1), (counting, 1), (check, 1)];
            let times = measure(&sides, SMALL).await;
            println!(
                "| {} | {size} | {:.1} us | {:.2} us | **{:.1} %** | {goal} % | {:.2} us |",
                echo.language,
                median(&times[0]),
                median(&times[1]),
                median_of(&times[1], &times[0], |counting, governed| counting / governed * 100.0),
                median(&times[2]),
            );
        }
    }
    println!();
}

async fn loaded_tools(sandbox: Sandbox, echo: Echo) {
    let arguments = arguments(100);
    let mut sides = Vec::new();
    let counts = [1, 10, 1_000];
    for tools in counts {
        let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], tools).await;
        sides.push((Subject::governed(&toolbox, echo.tool, &arguments), 1));
    }
    let times = measure(&sides, LONG).await;
    println!("| loaded tools | governed call | beside one tool |");
    println!("|---:|---:|---:|");
    for (tools, of_tools) in counts.iter().zip(&times) {
        let growth = median_of(of_tools, &times[0], |many, one| many / one);
        println!("| {tools} | {:.1} us | {growth:.2} |", median(of_tools));
    }
    println!();
}

async fn scaling(sandbox: Sandbox, echoes: Vec<Echo>) {
    println!("| guest | floor, two threads | governed, two threads | of the floor's own |");
    println!("|---|---:|---:|---:|");
    for echo in &echoes {
        let arguments = arguments(100);
        let floor = Floor::new(sandbox.engine(), echo.tool, &echo.bytes);
        let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1).await;
        let floor = Subject::floor(&floor, echo.tool, &arguments);
        let governed = Subject::governed(&toolbox, echo.tool, &arguments);
        let sides = [(floor.clone(), 1), (floor, 2), (governed.clone(), 1), (governed, 2)];
        let times = measure(&sides, Extent { rounds: 200, calls: 100 }).await;
        let scaled = |one: &[f64], two: &[f64]| median_of(one, two, |one, two| one / two);
        let (floor, governed) = (scaled(&times[0], &times[1]), scaled(&times[2], &times[3]));
        println!("| {} | {floor:.2}x | {governed:.2}x | **{:.2}** |", echo.language, governed / floor);
    }
    println!();
}

async fn beside_spinners(sandbox: Sandbox, echo: Echo) {
    let spinner = hostile::SPIN_FOR_EVER.bytes();
    let components: [(&str, &[u8]); 2] = [("echo", &echo.bytes), (hostile::SPIN_FOR_EVER.name, &spinner)];
    let toolbox = governed::toolbox(&sandbox, &components, 2).await;
    let host = governed::host(&toolbox);
    let enough = CancellationToken::new();
    let spinning: Vec<_> = (0..SPINNERS).map(|_| tokio::spawn(spin(host.clone(), enough.clone()))).collect();
    let arguments = arguments(100);
    let mut times = Vec::new();
    for _ in 0..ECHOES_BESIDE_SPINNERS {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let began = Instant::now();
        governed::call(&host, echo.tool, &arguments).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    enough.cancel();
    for spinner in spinning {
        spinner.await.unwrap();
    }
    println!("| an echo beside {SPINNERS} tools that compute | p50 | p99 | slowest |");
    println!("|---|---:|---:|---:|");
    println!(
        "| {ECHOES_BESIDE_SPINNERS} calls | {:.1} ms | **{:.1} ms** | {:.1} ms |\n",
        median(&times),
        percentile(&times, 99),
        percentile(&times, 100)
    );
}

/// Calls the computing tool repeatedly.
async fn spin(host: Host, enough: CancellationToken) {
    while !enough.is_cancelled() {
        let mut request = CallRequest::from_json(hostile::SPIN_FOR_EVER.name, "{}");
        request.cancel = enough.clone();
        host.call(request).await.unwrap();
    }
}

async fn runs(sandbox: Sandbox, echo: Echo) {
    let floor = Floor::new(sandbox.engine(), echo.tool, &echo.bytes);
    let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1).await;
    println!("| run of a recorded model | text | floor, a call | run, a call | beyond the floor |");
    println!("|---|---:|---:|---:|---:|");
    for (size, bytes) in &PAYLOADS[..2] {
        let arguments = arguments(*bytes);
        for (turns, calls) in [(10, 1), (50, 1), (500, 1), (1, 50)] {
            let (mut floors, mut of_runs) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let subjects = [(Subject::floor(&floor, echo.tool, &arguments), 1)];
                floors.extend(measure(&subjects, Extent { rounds: 1, calls: 50 }).await.remove(0));
                let host = governed::agent_host(&toolbox, echo.tool, &arguments, turns, calls);
                let began = Instant::now();
                let made = governed::run(&host).await;
                of_runs.push(began.elapsed().as_secs_f64() * 1e6 / f64::from(made));
            }
            println!(
                "| {turns} turns of {calls} | {size} | {:.1} us | {:.1} us | {:.1} us |",
                median(&floors),
                median(&of_runs),
                median_of(&of_runs, &floors, |run, floor| run - floor),
            );
        }
    }
    println!();
}
