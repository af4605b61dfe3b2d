//! Tests of compiling in a child process, and of the cache of compiled code.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tollgate::config::LimitsConfig;
use tollgate_artifacts::{Guest, good, hostile};
use tollgate_sandbox::{COMPILE_MEMORY_BYTES, Compiler, Refusal, Sandbox, SandboxConfig};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tollgate");

pub(crate) fn child() -> Compiler {
    shell(&format!("exec '{PROGRAM}' compile-child"))
}

/// Returns a compiler whose child runs this line in a shell.
pub(crate) fn shell(line: &str) -> Compiler {
    Compiler::Child { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), line.into()] }
}

/// Creates a sandbox that cannot compile anything.
pub(crate) fn uncompiling(cache: &Path) -> Sandbox {
    sandbox(Compiler::Child { program: PathBuf::from("/nowhere"), arguments: Vec::new() }, Some(cache))
}

fn sandbox(compiler: Compiler, cache: Option<&Path>) -> Sandbox {
    let config = SandboxConfig {
        compiler,
        cache_dir: cache.map(Path::to_owned),
        concurrent_calls: 4,
        ..SandboxConfig::default()
    };
    Sandbox::new(config).unwrap()
}

async fn refusal(sandbox: &Sandbox, guest: &Guest) -> String {
    let refused: Refusal = sandbox.load_bytes(guest.name, guest.bytes()).await.err().unwrap();
    refused.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_compiles_and_the_next_start_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let unkept = uncompiling(&cache);
    assert!(refusal(&unkept, &good::ECHO).await.contains("cannot be started"));

    let cold = sandbox(child(), Some(&cache)).load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    let warm = unkept.load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    assert_eq!(cold.descriptor(), warm.descriptor());
    assert_eq!((cold.digest(), cold.imports()), (warm.digest(), warm.imports()));
    assert!(refusal(&unkept, &good::ADDER).await.contains("cannot be started"), "another component");
}

#[tokio::test(flavor = "multi_thread")]
async fn child_and_process_make_the_same_code() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in [Compiler::InProcess, child()] {
        let cache = folder.path().join(format!("{}", compiler == Compiler::InProcess));
        sandbox(compiler, Some(&cache)).load_bytes("echo", good::ECHO.bytes()).await.unwrap();
        assert!(uncompiling(&cache).load_bytes("echo", good::ECHO.bytes()).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_not_authentic_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let compiling = sandbox(child(), Some(folder.path().join("cache").as_path()));
    compiling.load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    let entry = std::fs::read_dir(folder.path().join("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "code"))
        .unwrap();
    let mut poisoned = std::fs::read(&entry).unwrap();
    let last = poisoned.len() - 1;
    poisoned[last] ^= 1;
    std::fs::write(&entry, &poisoned).unwrap();
    assert!(
        refusal(&uncompiling(&folder.path().join("cache")), &good::ECHO).await.contains("cannot be started")
    );
    compiling.load_bytes("echo", good::ECHO.bytes()).await.unwrap();
    assert_ne!(std::fs::read(&entry).unwrap(), poisoned);
    assert!(uncompiling(&folder.path().join("cache")).load_bytes("echo", good::ECHO.bytes()).await.is_ok());
}

/// The compiler's message is the same in any process.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_refuses_what_this_process_refuses() {
    let (in_process, in_child) = (sandbox(Compiler::InProcess, None), sandbox(child(), None));
    for guest in [&hostile::PRECOMPILED_ARTEFACT, &hostile::CORE_MODULE, &hostile::TRUNCATED] {
        assert_eq!(refusal(&in_process, guest).await, refusal(&in_child, guest).await);
    }
    let mut invalid = good::ECHO.bytes();
    let middle = invalid.len() / 2;
    invalid[middle..middle + 40].fill(0xff);
    let of = async |sandbox: &Sandbox| {
        sandbox.load_bytes("invalid", invalid.clone()).await.err().unwrap().to_string()
    };
    assert_eq!(of(&in_process).await, of(&in_child).await);
}

/// Whatever the child does, the component is refused and the host continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_is_a_refusal_with_its_reason() {
    for (line, words) in [
        ("exit 7", "exit status: 7"),
        ("kill -6 $$", "signal: 6"),
        ("echo this is more than a header and not one; exec sleep 60", "signal: 9"),
        ("echo some reason >&2; exit 1", "some reason"),
    ] {
        let said = refusal(&sandbox(shell(line), None), &good::ECHO).await;
        assert!(said.contains(words), "{line}: {said}");
    }
}

/// It gets the bytes and nothing else from its host: no environment, and limits that it cannot
/// raise.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_no_environment() {
    let said =
        refusal(&sandbox(shell("env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; exit 1"), None), &good::ECHO)
            .await;
    assert!(
        said.contains("MALLOC_ARENA_MAX PWD RAYON_NUM_THREADS TOLLGATE_COMPILE_CPU_S TOLLGATE_COMPILE_MEMORY_BYTES")
            || said.contains("MALLOC_ARENA_MAX OLDPWD PWD RAYON_NUM_THREADS TOLLGATE_COMPILE_CPU_S TOLLGATE_COMPILE_MEMORY_BYTES"),
        "{said}"
    );
    assert!(!said.contains("HOME"), "{said}");
}

/// Starts a child that waits for its first byte.
pub(crate) fn waiting_child() -> std::process::Child {
    let mut command = Command::new(PROGRAM);
    command.arg("compile-child").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// The limits apply before it reads anything, and it cannot raise them.
#[test]
fn a_child_is_bounded_before_it_reads() {
    let mut child = waiting_child();
    let bound = |what: &str| {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        line[what.len()..].split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let soon = std::time::Instant::now() + Duration::from_secs(20);
    while bound("Max open files") != ["32", "32"] {
        assert!(std::time::Instant::now() < soon, "{:?}", bound("Max open files"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let memory = COMPILE_MEMORY_BYTES.to_string();
    assert_eq!(bound("Max address space"), [memory.as_str(), memory.as_str()]);
    assert_eq!(bound("Max cpu time"), ["60", "61"]);
    assert_eq!(
        (bound("Max core file size"), bound("Max file size")),
        (vec!["0".into(); 2], vec!["0".into(); 2])
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_child_ends_with_its_host() {
    let mut child = waiting_child();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"half of a").unwrap();
    drop(stdin);
    assert!(!child.wait().unwrap().success());
}

/// The configured limit reaches the child, and the refusal names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_as_much_memory_as_is_configured() {
    let config = |line: &str, compile_memory_bytes| SandboxConfig {
        compiler: shell(line),
        compile_memory_bytes,
        concurrent_calls: 4,
        ..LimitsConfig::default().sandbox
    };
    let said = refusal(&Sandbox::new(config("exit 1", 5 << 30)).unwrap(), &good::ECHO).await;
    assert!(said.contains("It has 5368709120 bytes of memory (compile_memory_bytes)"), "{said}");
    let little = config(&format!("exec '{PROGRAM}' compile-child"), 1 << 20);
    let said = refusal(&Sandbox::new(little).unwrap(), &good::ECHO).await;
    assert!(said.contains("raise compile_memory_bytes in tollgate.toml, under [limits]"), "{said}");
}

/// The child sleeps, and is gone when the component is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_has_so_long_to_be_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let config = SandboxConfig {
        compiler: shell(&format!("echo $$ > {}; exec sleep 600", pid.display())),
        compile_wall: Duration::from_millis(500),
        concurrent_calls: 4,
        ..SandboxConfig::default()
    };
    let said = refusal(&Sandbox::new(config).unwrap(), &good::ECHO).await;
    assert!(said.contains("longer than 500 ms of time (compile_wall_ms = 500)"), "{said}");
    let pid = std::fs::read_to_string(pid).unwrap();
    let soon = std::time::Instant::now() + Duration::from_secs(20);
    let lives = || {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z"))
    };
    while lives() {
        assert!(std::time::Instant::now() < soon, "the child is left behind");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_components_are_compiled_at_once_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let line = format!("echo + >> {0}; sleep 0.2; echo - >> {0}; exit 1", log.display());
    let sandbox = sandbox(shell(&line), None);
    let loads = (0..6).map(|_| refusal(&sandbox, &good::ECHO));
    futures::future::join_all(loads).await;
    let (mut now, mut most) = (0, 0);
    for line in std::fs::read_to_string(log).unwrap().lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 2));
}

/// A start needs only the description of a component. Its code is loaded when it is called, and
/// compiled again from the same bytes if the cache has lost it.
#[tokio::test(flavor = "multi_thread")]
async fn code_that_the_cache_lost_is_compiled_again_when_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, file) = (folder.path().join("cache"), good::ECHO.write_to(folder.path()));
    let compiling = sandbox(child(), Some(&cache));
    compiling.load(&file).await.unwrap();
    let entry = || {
        let files = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|path| path.extension().is_some_and(|end| end == "code"))
    };
    let poison = || {
        let mut bytes = std::fs::read(entry().unwrap()).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(entry().unwrap(), bytes).unwrap();
    };
    poison();
    let known = uncompiling(&cache).load(&file).await.unwrap();
    assert!(known.prepare().await.unwrap_err().to_string().contains("cannot be started"));
    assert!(entry().is_none(), "what is not authentic is removed");

    compiling.load(&file).await.unwrap();
    poison();
    let known = sandbox(child(), Some(&cache)).load(&file).await.unwrap();
    known.prepare().await.unwrap();
    assert!(entry().is_some(), "it is there for the next start");

    std::fs::remove_file(entry().unwrap()).unwrap();
    compiling.load(&file).await.unwrap();
    let known = sandbox(child(), Some(&cache)).load(&file).await.unwrap();
    poison();
    std::fs::write(&file, good::ADDER.bytes()).unwrap();
    let said = known.prepare().await.unwrap_err().to_string();
    assert!(said.contains("its file has changed"), "{said}");
}
