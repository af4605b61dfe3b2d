//! The cost of proof of origin, as ratios within one run: the requests of each verb, the memory of
//! `add`, and a start with a hundred recorded components. docs/registry.md states the figures.
//!
//! The tests with times and memory are ignored; run them with `--run-ignored only`.

use crate::docker_registry::Registry;
use crate::place::Place;
use crate::registry::{make_key, publish, version};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tollgate_artifacts::good;

/// Counts the requests to a registry on their way.
struct Counter {
    host: String,
    requests: Arc<AtomicU32>,
}

impl Counter {
    fn before(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let requests = Arc::new(AtomicU32::new(0));
        let (target, count) = (registry.host.clone(), Arc::clone(&requests));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&target) else { break };
                let count = Arc::clone(&count);
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let mut bytes = [0; 16 << 10];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        // A request of this client begins a packet of its own.
                        let is_request = [&b"GET "[..], b"HEAD ", b"PUT ", b"POST "]
                            .iter()
                            .any(|method| bytes[..read].starts_with(method));
                        count.fetch_add(u32::from(is_request), Ordering::Relaxed);
                        if to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let (mut server, mut client) = (server, client);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut server, &mut client);
                    let _ = client.shutdown(std::net::Shutdown::Write);
                });
            }
        });
        Self { host, requests }
    }

    fn taken(&self) -> u32 {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn each_verb_makes_few_requests_and_a_start_makes_none() {
    let Some(registry) = Registry::start() else { return };
    let counter = Counter::before(&registry);
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let reference = format!("{}/acme/echo:1", counter.host);
    publish(&place, &reference, 1, Some("[asks]\n"), Some("acme")).ends_with(0);
    let first = counter.taken();
    publish(&place, &reference, 1, Some("[asks]\n"), Some("acme")).ends_with(0);
    let second = counter.taken();
    place.type_in(&["add", &reference, "--key", "acme.pub", "--yes"]).ends_with(0);
    // Manifest, configuration, component, two lists, and two for the signature.
    let cold = counter.taken();
    assert!(cold <= 7 + 2, "{cold}");
    place.type_in(&["add", &reference]).ends_with(0).answers("installed already echo");
    assert_eq!(counter.taken(), 1, "the tag is resolved, and nothing is fetched");
    let seen = place.type_in(&["verify", "--json"]).ends_with(0).json();
    let digest = seen["components"][0]["entry"]["manifest"].as_str().unwrap().to_owned();
    let pinned = format!("{}/acme/echo@{digest}", counter.host);
    place.type_in(&["add", &pinned]).ends_with(0).answers("installed already echo");
    assert_eq!(counter.taken(), 0);
    place.type_in(&["update"]).ends_with(0).says("up to date echo");
    assert_eq!(counter.taken(), 1);
    place.write("tollgate.toml", "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n");
    place.write("turns.toml", "[[turn]]\ncalls = [{ name = \"echo\" }]\n[[turn]]\ntext = \"Done.\"\n");
    for arguments in [
        &["call", "echo", "{}"][..],
        &["run", "Call it."],
        &["tools"],
        &["verify"],
        &["sync"],
        &["sync", "--locked"],
    ] {
        place.type_in(arguments).ends_with(0);
        assert_eq!(counter.taken(), 0, "{arguments:?}");
    }
    std::fs::remove_file(place.path().join("tools/echo.wasm")).unwrap();
    place.type_in(&["sync"]).ends_with(0).answers("restored echo");
    let restored = counter.taken();
    println!("requests: publish {first}, again {second}; add {cold}; restore {restored}");
}

/// Runs the program to its end, and returns its peak memory in bytes.
fn peak_of(place: &Place, arguments: &[&str]) -> u64 {
    let mut child = place
        .program(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(2));
    }
    peak
}

#[test]
#[ignore = "measures memory"]
fn memory_of_add_grows_with_the_component_and_not_with_a_multiple_of_it() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    let peak = |megabytes: usize| {
        // A custom section that is as long as the component may be.
        let content = vec![0x55; megabytes << 20];
        let mut length = Vec::new();
        let mut left = content.len() + 2;
        while left >= 0x80 {
            length.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        length.push(left as u8);
        let wasm = [&good::ECHO.bytes()[..], &[0], &length, &[1, b'x'], &content].concat();
        place.write("echo.wasm", &wasm);
        place.write("echo.toml", "[asks]\n");
        let reference = registry.echo(&megabytes.to_string());
        place.type_in(&["publish", &reference, "echo.wasm", "--key", "acme.key"]).ends_with(0);
        let elsewhere = Place::new();
        std::fs::copy(place.path().join("acme.pub"), elsewhere.path().join("acme.pub")).unwrap();
        let peak = peak_of(&elsewhere, &["add", &reference, "--key", "acme.pub", "--yes"]);
        elsewhere.type_in(&["verify"]).ends_with(0);
        peak
    };
    let (small, large) = (peak(1), peak(60));
    let ratio = (large - small) as f64 / (59_u64 << 20) as f64;
    println!(
        "peak memory of add: {small} bytes for 1 MiB, {large} for 60 MiB: {ratio:.2} times the component"
    );
    assert!(ratio <= 1.25, "{ratio}");
}

/// Returns the processor time of all programs that this one has started, in ticks of the kernel.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name in parentheses may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
#[ignore = "measures time"]
fn a_start_with_a_hundred_recorded_components_takes_as_long_as_without_the_lock_file() {
    let place = Place::new();
    for number in 0..100 {
        // The id is also the name of the tool; another one of the same length.
        let (mut wasm, id) = (version(1), format!("e{number:03}"));
        for at in 0..wasm.len() - 4 {
            if &wasm[at..at + 4] == b"echo" {
                wasm[at..at + 4].copy_from_slice(id.as_bytes());
            }
        }
        let file = format!("from/{id}.wasm");
        place.write(&file, &wasm);
        let digest = tollgate_registry::Digest::of(&wasm).to_string();
        let add = ["add", &file, "--digest", &digest, "--allow-unsigned", "--yes"];
        place.type_in(&add).ends_with(0);
    }
    let listed = place.type_in(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 100);
    let took = |locked: &str| {
        place.write("tollgate.toml", format!("[tools]\nlocked = \"{locked}\"\n"));
        let begun = ticks();
        place.type_in(&["call", "e000", "{}"]).ends_with(0);
        ticks() - begun
    };
    let (mut with, mut without) = (0, 0);
    for _ in 0..40 {
        without += took("off");
        with += took("all");
    }
    let ratio = with as f64 / without as f64;
    println!("processor time of a start with 100 recorded components, and without the lock file: {ratio:.3}");
    assert!(ratio < 1.15, "{ratio}");
}
