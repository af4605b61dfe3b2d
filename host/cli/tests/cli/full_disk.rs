//! Removing old runs from a store on a full disk, which is a small file system in memory.

use crate::place::Place;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tollgate::{CallRequest, FnTool, Host, SqliteStore};

/// Mounts a file system of 16 MiB at `data`, copies `prepared` into it, and fills it to the last byte.
/// Then removes old runs: first without the reserve, and then with it.
const SCRIPT: &str = r#"
    full() {
        mount -t tmpfs -o size=16m,mode=700 none data && cp prepared/tollgate.db data && $1 || exit 9
        cat /dev/zero > data/fill 2> /dev/null
    }
    full true
    "$TOLLGATE" prune --older-than 1d 2> without; [ $? = 1 ] || exit 8
    umount data
    full "fallocate -l 4M data/tollgate.reserve"
    "$TOLLGATE" prune --older-than 1d > with 2>&1 || exit 7
    rm data/fill
    "$TOLLGATE" store verify > verified
"#;

/// A store with old runs of several megabytes.
async fn fill(place: &Place) {
    let directory = place.path().join("prepared");
    let store = Arc::new(SqliteStore::open(&directory).unwrap());
    let reserve = std::fs::metadata(directory.join("tollgate.reserve")).unwrap();
    assert!(reserve.blocks() * 512 >= 4 << 20, "{} blocks", reserve.blocks());
    assert_eq!(reserve.mode() & 0o777, 0o600);
    let echo = FnTool::new("echo", "echo", "Echoes.", |arguments: Value, _| async move { arguments });
    let host = Host::builder().tool(echo).store(store).build().unwrap();
    for _ in 0..100 {
        let arguments = json!({"text": "x".repeat(20_000)}).to_string();
        assert!(host.call(CallRequest::from_json("echo", arguments)).await.unwrap().result().is_some());
    }
    host.store().close().await.unwrap();
}

#[test]
fn z8_old_runs_are_removed_on_a_full_disk() {
    // Root in a user namespace may mount.
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "bash", "-c", script]);
        command
    };
    let can_mount = unshared("mount -t tmpfs none /mnt").stderr(Stdio::null()).status();
    if !can_mount.is_ok_and(|status| status.success()) {
        // Some machines do not let users create namespaces.
        eprintln!("NOT TESTED: this user cannot mount a file system in a namespace");
        return;
    }
    let place = Place::new();
    tokio::runtime::Runtime::new().unwrap().block_on(fill(&place));
    let database = rusqlite::Connection::open(place.path().join("prepared/tollgate.db")).unwrap();
    database.execute_batch("UPDATE runs SET updated_at_ms = 1; UPDATE audit SET at_ms = 1").unwrap();
    drop(database);
    std::fs::create_dir(place.path().join("data")).unwrap();
    let mut script = unshared(SCRIPT);
    script.current_dir(place.path()).env("TOLLGATE", env!("CARGO_BIN_EXE_tollgate"));
    for (name, value) in place.program(&[]).get_envs() {
        value.map(|value| script.env(name, value));
    }
    let output = script.output().unwrap();
    let said = |file: &str| std::fs::read_to_string(place.path().join(file)).unwrap_or_default();
    assert!(output.status.success(), "{output:?}: {} {}", said("without"), said("with"));
    assert!(said("without").contains("the disk is full"), "{}", said("without"));
    assert!(
        said("with").contains("removed 100 runs") && said("with").contains("MiB of disk"),
        "{}",
        said("with")
    );
    assert!(said("verified").contains("0 damaged"), "{}", said("verified"));
}
