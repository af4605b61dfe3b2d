//! Measures the cost of every hostile guest to the host itself from outside: memory, processor
//! time, the delay of a good tool beside it, and the resources that remain.
//!
//! One server holds all hostile guests that load, and calls them one after the other. The others
//! are dropped into its tools directory while it serves.

use crate::machine::{self, Machine, cpu_time};
use crate::place::Place;
use crate::raw::Raw;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_artifacts::{Expectation, Guest, HOSTILE, good};

/// The limits of each call. A spinning guest is to end soon.
const CALL_LIMIT: Duration = Duration::from_millis(1_000);
const MEMORY_LIMIT_MIB: u64 = 64;
/// The memory that the host may use for one call in addition to the guest's own.
const HOST_MEMORY_MIB: u64 = 32;
/// The processor time that the host may use for one call in addition to the guest's own.
const HOST_CPU: Duration = Duration::from_secs(1);
/// The maximum duration of 99 of 100 calls of a good tool beside a hostile guest, on a machine that
/// the host has to itself.
const GOOD_CALL: Duration = Duration::from_millis(50);
/// The memory that may remain after all of them, kept by the allocator and the pool.
const KEPT_MIB: u64 = 96;
/// The descriptors that may remain: the store keeps connections for reading, two descriptors each,
/// as many as were once used at the same time.
const KEPT_DESCRIPTORS: usize = 16;
/// Guests that are dropped into the directory at once.
const DROPPED_AT_ONCE: usize = 16;
/// Compiling is over if no child process existed for this long after a file was added.
const QUIET: Duration = Duration::from_millis(1_500);
/// The maximum time for the server to become idle.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directory that guests with the power `files` are granted.
const DIRECTORY: &str = "granted";

/// The server's resources according to `/proc`.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_mib: u64,
    cpu: Duration,
    descriptors: usize,
    threads: usize,
    children: usize,
}

impl Held {
    fn by(id: u32) -> Self {
        let count = |what: &str| std::fs::read_dir(format!("/proc/{id}/{what}")).unwrap().count();
        Self {
            resident_mib: status_kib(id, "VmRSS:") >> 10,
            cpu: cpu_time(id),
            descriptors: count("fd"),
            threads: count("task"),
            children: machine::children(id).len(),
        }
    }
}

/// The cost of one guest.
#[derive(Debug)]
struct Cost {
    guest: String,
    peak_mib: u64,
    cpu: Duration,
    /// When each call of the good tool began and ended.
    good_calls: Vec<(Instant, Instant)>,
}

impl Cost {
    fn of(
        guest: &str,
        server: &mut Raw,
        machine: &mut Machine,
        mut work: impl FnMut(&mut Raw) -> bool,
    ) -> Self {
        let id = server.id();
        forget_peak(id);
        let before = Held::by(id);
        let mut good_calls = Vec::new();
        let began = Instant::now();
        while !work(server) {
            assert!(began.elapsed() < PATIENCE, "{guest}: the server does not come to rest");
            machine.look();
            let one = Instant::now();
            let answer = server.call("echo", json!({"still": "here"}));
            good_calls.push((one, Instant::now()));
            assert_eq!(answer["structuredContent"]["still"], "here", "beside {guest}: {answer}");
        }
        let peak_mib = (status_kib(id, "VmHWM:") >> 10).saturating_sub(before.resident_mib);
        Self { guest: guest.to_owned(), peak_mib, cpu: cpu_time(id).saturating_sub(before.cpu), good_calls }
    }

    /// Returns the cost beyond its limits.
    fn excess(&self, time_limit: Duration) -> Option<String> {
        let mut excess = String::new();
        if self.peak_mib > MEMORY_LIMIT_MIB + HOST_MEMORY_MIB {
            let _ = write!(excess, " {} MiB of memory", self.peak_mib);
        }
        // The good calls beside it have a cost, too.
        let good: Duration = self.good_calls.iter().map(|(began, ended)| *ended - *began).sum();
        if self.cpu > time_limit + HOST_CPU + good / 4 {
            let _ = write!(excess, " {:?} of processor time", self.cpu);
        }
        (!excess.is_empty()).then(|| format!("{}:{excess}", self.guest))
    }
}

fn status_kib(id: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Resets the peak of the server's resident memory to its current value.
fn forget_peak(id: u32) {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();
}

fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

fn loads(guest: &Guest) -> bool {
    !matches!(guest.expects, Expectation::Refused(_))
}

/// Returns whether the client of these tests can read the guest's answer. It cannot read answers of
/// the maximum depth.
fn is_readable(guest: &Guest) -> bool {
    guest.name != "deepest-json"
}

fn config() -> String {
    let mut text = format!("[limits]\ntimeout_ms = {}\nfuel = 1_000_000_000\n", CALL_LIMIT.as_millis());
    for guest in HOSTILE.iter().filter(|guest| loads(guest)) {
        for power in guest.powers() {
            let _ = writeln!(text, "[grants.{}]", guest.name);
            let _ = match power.as_str() {
                "http" => writeln!(text, "http = [\"http://*\", \"https://*\"]"),
                _ => writeln!(
                    text,
                    "files = [{{ host = \"{DIRECTORY}\", guest = \"/\", access = \"read-write\", quota_bytes = 1_048_576 }}]"
                ),
            };
        }
    }
    text
}

fn place() -> Place {
    let place = Place::new().with_config(&config());
    for guest in HOSTILE.iter().filter(|guest| loads(guest)).chain([&good::ECHO]) {
        place.write(&format!("tools/{}.wasm", guest.name), guest.bytes());
    }
    let granted = place.path().join(DIRECTORY);
    std::fs::create_dir_all(granted.join("inside")).unwrap();
    std::fs::create_dir_all(granted.join("nested")).unwrap();
    std::fs::write(place.path().join("outside"), "another's").unwrap();
    std::fs::write(granted.join("inside/file"), "its own").unwrap();
    std::fs::File::create(granted.join("inside/large")).unwrap().set_len(1 << 20).unwrap();
    std::os::unix::fs::symlink("../outside", granted.join("link")).unwrap();
    std::os::unix::fs::symlink("..", granted.join("up")).unwrap();
    place
}

/// Returns the tools that the server offers, by the name of their component.
fn offered(server: &mut Raw) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = server.ask("tools/list", params);
        let tools = answer["result"]["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match &answer["result"]["nextCursor"] {
            Value::String(cursor) => params = json!({"cursor": cursor}),
            _ => return names,
        }
    }
}

fn call_each(server: &mut Raw, machine: &mut Machine, costs: &mut Vec<Cost>) {
    let offered = offered(server);
    let hostile: Vec<&Guest> = HOSTILE.iter().filter(|guest| loads(guest) && is_readable(guest)).collect();
    let missing: Vec<&str> = hostile
        .iter()
        .map(|guest| guest.name)
        .filter(|name| !offered.iter().any(|offered| offered == name))
        .collect();
    assert!(missing.len() * 8 < hostile.len(), "not offered: {missing:?}");
    for guest in hostile.iter().filter(|guest| !missing.contains(&guest.name)) {
        server.begin_asking(guest.name, "tools/call", json!({"name": guest.name, "arguments": {}}));
        let id = json!(guest.name);
        costs.push(Cost::of(guest.name, server, machine, |server| server.has_answered(&id)));
    }
}

/// Adds the guests that are refused, and waits until nothing is being compiled or read.
fn load_each(place: &Place, server: &mut Raw, machine: &mut Machine, costs: &mut Vec<Cost>) {
    let refused: Vec<&Guest> = HOSTILE.iter().filter(|guest| !loads(guest)).collect();
    for batch in refused.chunks(DROPPED_AT_ONCE) {
        let name = batch.iter().map(|guest| guest.name).collect::<Vec<_>>().join(" ");
        let bytes: Vec<_> = batch.iter().map(|guest| (guest.name, guest.bytes())).collect();
        for (name, bytes) in bytes {
            place.write(&format!("tools/{name}.wasm"), bytes);
        }
        let mut since = Instant::now();
        costs.push(Cost::of(&name, server, machine, |server| {
            if Held::by(server.id()).children > 0 {
                since = Instant::now();
            }
            since.elapsed() > QUIET
        }));
        for guest in batch {
            std::fs::remove_file(place.path().join(format!("tools/{}.wasm", guest.name))).unwrap();
        }
    }
}

/// Calls and loads every guest once.
fn round(place: &Place, server: &mut Raw) -> Costs {
    let mut machine = Machine::with_server(server.id());
    let (mut of_calls, mut of_loads) = (Vec::new(), Vec::new());
    call_each(server, &mut machine, &mut of_calls);
    load_each(place, server, &mut machine, &mut of_loads);
    machine.look();
    Costs { of_calls, of_loads, machine }
}

/// The costs of all guests, and what other programs did meanwhile.
struct Costs {
    of_calls: Vec<Cost>,
    of_loads: Vec<Cost>,
    machine: Machine,
}

impl Costs {
    fn check(&self) {
        let calls = self.of_calls.iter().filter_map(|cost| cost.excess(CALL_LIMIT));
        // The host reads a batch of files; another process compiles them.
        let loads = self.of_loads.iter().filter_map(|cost| cost.excess(CALL_LIMIT * 4));
        let excess: Vec<String> = calls.chain(loads).collect();
        assert!(excess.is_empty(), "beyond their limits: {excess:#?}");
        let all = || self.of_calls.iter().chain(&self.of_loads);
        let good = all().flat_map(|cost| &cost.good_calls);
        let mut good: Vec<(Duration, f64)> = good
            .map(|(began, ended)| (*ended - *began, self.machine.left_by_others(*began, *ended)))
            .collect();
        // A call has the time that it would take if the host had the machine to itself.
        let alone = |(time, left): &(Duration, f64)| time.mul_f64(*left);
        good.sort_unstable_by_key(alone);
        let (p99, least) =
            (good[good.len() * 99 / 100], good.iter().map(|(_, left)| *left).fold(1.0, f64::min));
        let most = all().max_by_key(|cost| cost.peak_mib).unwrap();
        println!(
            "{} good calls, p99 {:?} with {:.0} % of the machine (at least {:.0} %); at most {} MiB for {}",
            good.len(),
            p99.0,
            p99.1 * 100.0,
            least * 100.0,
            most.peak_mib,
            most.guest
        );
        assert!(
            alone(&p99) <= GOOD_CALL,
            "99 of 100 good calls took up to {p99:?}, with that part of the machine"
        );
    }
}

#[test]
fn hostile_guests_cost_the_host_no_more_than_their_limits() {
    let place = place();
    let mut server = Raw::begin(&place, "2025-11-25", json!({}));
    let data = place.path().join("data");
    // The first round loads code and memory images, which remain.
    round(&place, &mut server).check();
    let (before, disk_before) = (Held::by(server.id()), disk_bytes(&data));
    println!("open after the first round: {:?}", open_files(server.id()));
    round(&place, &mut server).check();
    // The allocator keeps memory for each thread that once needed much, which may be another one in the
    // second round. A leak grows again in the third.
    let mut rounds = 1;
    let after = at_rest(server.id(), before).or_else(|grown| {
        rounds += 1;
        println!("after the second round: {grown}");
        let before = Held::by(server.id());
        round(&place, &mut server).check();
        at_rest(server.id(), before)
    });
    let after = after.unwrap_or_else(|grown| panic!("{grown}"));
    let disk = disk_bytes(&data).saturating_sub(disk_before) >> 20;
    println!("before {before:?}\nafter  {after:?}, {disk} MiB of record");
    assert!(disk <= 64 * rounds, "{disk} MiB of record for {rounds} calls of each guest");
}

/// Returns the number of open descriptors of each kind.
fn open_files(id: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().filter_map(Result::ok) {
        let target = std::fs::read_link(entry.path()).unwrap_or_default().display().to_string();
        let kind = target.split_once(":[").map_or(target.as_str(), |(kind, _)| kind);
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// Returns the server's resources once it holds no more than before.
///
/// # Errors
/// It still holds more after a while; the text says what.
fn at_rest(id: u32, before: Held) -> Result<Held, String> {
    let began = Instant::now();
    loop {
        let held = Held::by(id);
        let rests = held.descriptors <= before.descriptors + KEPT_DESCRIPTORS
            && held.threads <= before.threads + 2
            && held.children <= before.children
            && held.resident_mib <= before.resident_mib + KEPT_MIB;
        if rests {
            return Ok(held);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("before {before:?}\nafter  {held:?}\n{:?}", open_files(id)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
