//! Tests of the limits on loading a component: processor time, compiled code, and the total memory
//! of all loaded components.

use crate::compiling::{child, uncompiling};
use std::path::Path;
use std::time::Duration;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::descriptor::{ComponentDescriptor, ToolDescriptor};
use tollgate_artifacts::{good, hostile};
use tollgate_sandbox::{MAX_COMPONENT_BYTES, Sandbox, SandboxConfig, return_freed_memory};

fn config() -> SandboxConfig {
    SandboxConfig { compiler: child(), concurrent_calls: 4, ..SandboxConfig::default() }
}

async fn said(sandbox: &Sandbox, name: &str, bytes: Vec<u8>) -> String {
    sandbox.load_bytes(name, bytes).await.err().map(|why| why.to_string()).unwrap_or_default()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], leb(content.len()).as_slice(), content].concat()
}

/// Returns a component with this many long functions, which take long to compile.
fn large(functions: usize) -> Vec<u8> {
    // local.get 0, then 500 times i32.const 77, i32.mul; drop, end
    let code = [&[0, 0x20, 0][..], &[0x41, 0xcd, 0, 0x6c].repeat(500), &[0x1a, 0x0b]].concat();
    let bodies = [leb(code.len()), code].concat().repeat(functions);
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7f, 0]),
        section(3, &[leb(functions), vec![0; functions]].concat()),
        section(10, &[leb(functions), bodies].concat()),
    ];
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module.concat())].concat()
}

/// It fails once, and is not compiled again until a limit changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_takes_too_much_processor_time_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let with = |compile_cpu| SandboxConfig { compile_cpu, cache_dir: Some(cache.clone()), ..config() };
    let limited = with(Duration::from_millis(900));
    let large = large(4_000);
    let first = said(&Sandbox::new(limited.clone()).unwrap(), "large", large.clone()).await;
    assert!(first.contains("900 ms of processor time (compile_cpu_ms = 900)"), "{first}");
    let uncompiled = |config: SandboxConfig| {
        let compiler = uncompiling(&cache).config().compiler.clone();
        Sandbox::new(SandboxConfig { compiler, ..config }).unwrap()
    };
    let again = said(&uncompiled(limited), "other name", large.clone()).await;
    assert!(
        again.contains("other name cannot be compiled") && again.contains("not compiled again"),
        "{again}"
    );
    let raised = said(&uncompiled(with(Duration::from_secs(90))), "large", large).await;
    assert!(raised.contains("cannot be started"), "{raised}");
}

/// The cache keeps only refusals that follow from the component's bytes, and failures under the same limits.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_a_limit_refused_is_loaded_once_the_limit_is_raised() {
    for (limit, limited) in [
        ("compiled_bytes", SandboxConfig { cache_bytes: 4_000, ..config() }),
        ("loaded_code_bytes", SandboxConfig { loaded_code_bytes: 1, ..config() }),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let cache_dir = Some(folder.path().join("cache"));
        let limited = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..limited }).unwrap();
        let refused = said(&limited, "echo", good::ECHO.bytes()).await;
        assert!(refused.contains(limit), "{refused}");
        let raised = Sandbox::new(SandboxConfig { cache_dir, ..config() }).unwrap();
        assert_eq!(said(&raised, "echo", good::ECHO.bytes()).await, "");
    }
}

/// The process that compiles announces the size of the code, and none of it is read.
#[tokio::test(flavor = "multi_thread")]
async fn z4_compiled_code_beyond_the_limit_displaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let sandbox = Sandbox::new(SandboxConfig { cache_dir: Some(cache.clone()), ..config() }).unwrap();
    sandbox.load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    let refused = said(&sandbox, "tables", hostile::SPARSE_TABLES.bytes()).await;
    assert!(refused.contains("compiled_bytes = 67108864"), "{refused}");
    assert_eq!(entries(&cache), 1);
    assert!(uncompiling(&cache).load_bytes("echo", good::ECHO.bytes()).await.is_ok());
}

fn entries(cache: &Path) -> usize {
    let names = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|end| end == "code")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn z4_the_code_of_all_components_has_one_limit_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let cache_dir = Some(folder.path().join("cache"));
    let free = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..config() }).unwrap();
    let echo = free.load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    let bytes = free.loaded_code_bytes();
    assert!(bytes > 0);
    drop(echo);
    assert_eq!(free.loaded_code_bytes(), 0);

    // Room for one component, and for its description in the cache.
    let loaded_code_bytes = bytes + 8_192;
    let narrow = Sandbox::new(SandboxConfig { loaded_code_bytes, cache_dir, ..config() }).unwrap();
    let first = narrow.load_bytes("first", good::ECHO.bytes()).await.unwrap();
    let refused = said(&narrow, "second", good::ECHO.bytes()).await;
    assert!(refused.contains(&format!("loaded_code_bytes = {loaded_code_bytes}")), "{refused}");
    assert!(first.prepare().await.is_ok());
    drop(first);
    assert_eq!(said(&narrow, "third", good::ECHO.bytes()).await, "");
    assert_eq!(narrow.loaded_code_bytes(), 0);
}

/// Appends a module that exports a function under this many names of four letters.
fn with_names(component: Vec<u8>, names: usize) -> Vec<u8> {
    let export = |number: usize| [&[4], format!("{number:04x}").as_bytes(), &[0, 0]].concat();
    let exports: Vec<u8> = (0..names).flat_map(export).collect();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[1, 0]),
        section(7, &[leb(names), exports].concat()),
        section(10, &[1, 2, 0, 0x0b]),
    ];
    [component, section(1, &module.concat())].concat()
}

/// Names take twenty times as much memory as in the compiled form. The cache knows it, too.
#[tokio::test(flavor = "multi_thread")]
async fn z4_types_and_names_are_part_of_the_memory_budget() {
    let folder = tempfile::tempdir().unwrap();
    let cache_dir = Some(folder.path().join("cache"));
    let held = async |bytes: Vec<u8>| {
        let sandbox = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..config() }).unwrap();
        let loaded = sandbox.load_bytes("named", bytes).await.unwrap();
        let held = sandbox.memory_budget().code_bytes() - sandbox.loaded_code_bytes();
        drop(loaded);
        assert_eq!(sandbox.memory_budget().code_bytes(), 0);
        held
    };
    let without = held(good::ECHO.bytes()).await;
    let named = with_names(good::ECHO.bytes(), 20_000);
    for _ in 0..2 {
        assert!(held(named.clone()).await >= without + (5 << 20));
    }

    let memory_budget_bytes = 8 << 20;
    let sandbox = Sandbox::new(SandboxConfig { memory_budget_bytes, cache_dir, ..config() }).unwrap();
    let refused = said(&sandbox, "named", named).await;
    assert!(refused.contains("its list of types and names takes"), "{refused}");
    assert_eq!((sandbox.loaded_code_bytes(), sandbox.memory_budget().code_bytes()), (0, 0));
}

/// A tool whose description is cached is served, and loaded when it is called: then there must be
/// room.
#[tokio::test(flavor = "multi_thread")]
async fn z4_code_that_is_loaded_later_is_within_the_limit_too() {
    let folder = tempfile::tempdir().unwrap();
    let (cache_dir, file) = (Some(folder.path().join("cache")), good::ECHO.write_to(folder.path()));
    let compiling = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..config() }).unwrap();
    compiling.load(&file).await.unwrap();
    let full = Sandbox::new(SandboxConfig { loaded_code_bytes: 1, cache_dir, ..config() }).unwrap();
    let known = full.load(&file).await.unwrap();
    let refused = known.prepare().await.unwrap_err().to_string();
    assert!(refused.contains("loaded_code_bytes = 1"), "{refused}");
}

/// The cache holds the reason, and neither the code nor the description.
#[tokio::test(flavor = "multi_thread")]
async fn z3_a_description_that_is_refused_costs_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    for guest in [&hostile::INITIAL_VALUES_OF_TINY_OBJECTS, &hostile::SCHEMAS_OF_TINY_OBJECTS] {
        let file = guest.write_to(folder.path());
        let first = Sandbox::new(SandboxConfig { cache_dir: Some(cache.clone()), ..config() }).unwrap();
        let refused = first.load(&file).await.err().unwrap().to_string();
        assert!(refused.contains("at most 8388608 are accepted"), "{refused}");
        assert_eq!((first.loaded_code_bytes(), first.memory_budget().code_bytes()), (0, 0));
        assert_eq!(entries(&cache), 0);
        // This host cannot compile, so it cannot ask the component.
        let again = uncompiling(&cache).load(&file).await.err().unwrap().to_string();
        assert_eq!(again, refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn z3_a_description_is_part_of_the_memory_budget() {
    let folder = tempfile::tempdir().unwrap();
    let (cache_dir, file) = (Some(folder.path().join("cache")), good::ECHO.write_to(folder.path()));
    let first = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..config() }).unwrap();
    let loaded = first.load(&file).await.unwrap();
    assert!(first.memory_budget().code_bytes() > first.loaded_code_bytes());
    drop(loaded);
    assert_eq!(first.memory_budget().code_bytes(), 0);

    let again = Sandbox::new(SandboxConfig { cache_dir: cache_dir.clone(), ..config() }).unwrap();
    let known = again.load(&file).await.unwrap();
    assert!(again.memory_budget().code_bytes() > 0 && again.loaded_code_bytes() == 0);
    drop(known);
    assert_eq!(again.memory_budget().code_bytes(), 0);

    let full = Sandbox::new(SandboxConfig { memory_budget_bytes: 4_096, cache_dir, ..config() }).unwrap();
    let refused = full.load(&file).await.err().unwrap().to_string();
    assert!(
        refused.contains("its description takes") && refused.contains("memory_budget_bytes"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn z4_sparse_data_makes_no_images() {
    let sandbox = Sandbox::new(config()).unwrap();
    let loaded = sandbox.load_bytes("sparse", hostile::SPARSE_DATA.bytes()).await.unwrap();
    // The code would take 1.5 GiB if the gaps between the data were filled.
    assert!(sandbox.loaded_code_bytes() < 16 << 20, "{}", sandbox.loaded_code_bytes());
    drop(loaded);
    assert_eq!(sandbox.loaded_code_bytes(), 0);
}

/// Files that are two thirds holes are large and cost little to make.
#[tokio::test(flavor = "multi_thread")]
async fn z4_files_that_are_read_at_once_take_no_more_memory_than_one() {
    // As the program does when it starts.
    return_freed_memory();
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let path_of = |n: usize| folder.path().join(format!("{n}.wasm"));
    for n in 0..8 {
        let begin = [b"\0asm\x0d\0\x01\0".as_slice(), &vec![0; 8 << 20]].concat();
        std::fs::write(path_of(n), begin).unwrap();
        std::fs::File::options().write(true).open(path_of(n)).unwrap().set_len(24 << 20).unwrap();
    }
    let before = peak_bytes();
    let loads = (0..8).map(|n| sandbox.load(path_of(n)));
    for refused in futures::future::join_all(loads).await {
        assert!(refused.err().unwrap().to_string().contains("damaged or cut off"));
    }
    let more = peak_bytes() - before;
    assert!(more < MAX_COMPONENT_BYTES + (32 << 20), "{more} bytes");
}

/// Returns the peak memory of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Debug information is no reason to refuse a component.
#[tokio::test(flavor = "multi_thread")]
async fn custom_sections_do_not_refuse_a_component() {
    let debug = [leb(11), b".debug_info".to_vec(), vec![7; 3 << 20]].concat();
    let with_debug = [good::ECHO.bytes(), section(0, &debug)].concat();
    let sandbox = Sandbox::new(config()).unwrap();
    let loaded = sandbox.load_bytes("echo", with_debug.clone()).await.unwrap();
    assert_eq!(loaded.digest(), tollgate_agent::digest::digest(&with_debug));
}

/// Fills a catalog with components of one tool each, and returns the duration.
fn filled(ids: &[String]) -> Duration {
    let began = std::time::Instant::now();
    let mut catalog = Catalog::default();
    for id in ids {
        let owner = Owner {
            id: id.as_str().into(),
            kind: OwnerKind::Component,
            origin: format!("{id}.wasm"),
            version: "1".into(),
        };
        let tools = vec![ToolDescriptor::new(id, id, "A tool.")];
        let descriptor =
            ComponentDescriptor { id: id.clone(), version: "1".to_owned(), tools, state: Vec::new() };
        catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap();
    }
    assert_eq!(catalog.owners().count(), ids.len());
    began.elapsed()
}

/// Copying the catalog for each component, or comparing it with every other, takes 64 times
/// as long for eight times as many of them.
#[test]
fn a_start_takes_time_in_proportion_to_its_components() {
    let time = |count: usize| {
        let id = |at: usize| format!("c{at:o}").replace('0', "a").replace('1', "b");
        let ids: Vec<String> = (0..count).map(id).collect();
        (0..3).map(|_| filled(&ids)).min().unwrap()
    };
    let (few, many) = (time(1_000), time(8_000));
    assert!(many < few * 32, "1000 took {few:?}, 8000 took {many:?}");
}
