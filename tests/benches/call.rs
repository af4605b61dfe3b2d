//! Compares the whole governed call with the raw floor, using criterion: `cargo bench --profile
//! dist -p tollgate-tests --bench call`. Absolute times depend on the machine and its load;
//! `scripts/bench` measures the ratios.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod measure;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use measure::accounting::Accounting;
use measure::floor::Floor;
use measure::{governed, guests};
use tollgate_sandbox::{Sandbox, SandboxConfig};

/// The number of calls that a host answers before it is replaced, because its store keeps all of
/// them.
const CALLS_OF_A_HOST: usize = 64;

fn payloads(criterion: &mut Criterion) {
    let runtime = tollgate_sandbox::runtime().unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let (echoes, missing) = guests::echoes();
    if let Some(why) = missing {
        eprintln!("{why}");
    }
    for echo in &echoes {
        let floor = Floor::new(sandbox.engine(), echo.tool, &echo.bytes);
        let toolbox = runtime.block_on(governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1));
        let mut group = criterion.benchmark_group(format!("call/{}", echo.language));
        for (name, bytes) in guests::PAYLOADS {
            let arguments = guests::arguments(bytes);
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_with_input(BenchmarkId::new("floor", name), &arguments, |bencher, arguments| {
                bencher.to_async(&runtime).iter(|| floor.call(arguments));
            });
            group.bench_with_input(BenchmarkId::new("governed", name), &arguments, |bencher, arguments| {
                let mut hosts = Hosts::new(&toolbox);
                bencher.to_async(&runtime).iter(|| {
                    let host = hosts.next();
                    async move { governed::call(&host, echo.tool, arguments).await }
                });
            });
            group.bench_with_input(BenchmarkId::new("accounting", name), &arguments, |bencher, arguments| {
                let accounting = runtime.block_on(Accounting::of_call(&toolbox, echo.tool, arguments));
                bencher.iter(|| accounting.count());
            });
        }
        group.finish();
    }
}

fn loaded_tools(criterion: &mut Criterion) {
    let runtime = tollgate_sandbox::runtime().unwrap();
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let (echoes, _) = guests::echoes();
    let arguments = guests::arguments(100);
    let mut group = criterion.benchmark_group("call/loaded-tools");
    for tools in [1, 10, 1_000] {
        let toolbox = runtime.block_on(governed::toolbox(&sandbox, &[("echo", &echoes[0].bytes)], tools));
        group.bench_function(BenchmarkId::from_parameter(tools), |bencher| {
            let mut hosts = Hosts::new(&toolbox);
            bencher.to_async(&runtime).iter(|| {
                let host = hosts.next();
                let arguments = &arguments;
                async move { governed::call(&host, "echo", arguments).await }
            });
        });
    }
    group.finish();
}

/// A sequence of hosts that share one toolbox.
struct Hosts<'a> {
    toolbox: &'a tollgate::tools::Toolbox,
    host: tollgate::Host,
    calls: usize,
}

impl<'a> Hosts<'a> {
    fn new(toolbox: &'a tollgate::tools::Toolbox) -> Self {
        Self { toolbox, host: governed::host(toolbox), calls: 0 }
    }

    fn next(&mut self) -> tollgate::Host {
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_OF_A_HOST) {
            self.host = governed::host(self.toolbox);
        }
        self.host.clone()
    }
}

criterion_group!(benches, payloads, loaded_tools);
criterion_main!(benches);
