//! Granted directories, and the operations that a guest may do in them.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, anything, does, fault, number, returned, sandbox};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_agent::code::Code;
use tollgate_artifacts::{Expectation, Guest};
use tollgate_sandbox::{FileAccess, FileGrant, Grants, Limits};

/// The result of opening, as the guest returns it: 1, or ten plus the error's number.
const OPENED: u64 = 1;
const NO_ENTRY: u64 = 10 + 20;
const NOT_PERMITTED: u64 = 10 + 31;
const NO_DIRECTORY: u64 = 0;

/// Returns a tool that opens `{"p":"PATH"}` in its first directory.
fn opens(name: &'static str, open_flags: u32, descriptor_flags: u32) -> Guest {
    let source = r#";; Opens a path in its first directory.
;; imports: wasi:filesystem/types wasi:filesystem/preopens

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 64) "01")
(func $execute (param $call i32) (result i32) (local $error i32)
  (call $directories (i32.const 16))
  (if (i32.eqz (i32.load $memory (i32.const 20)))
    (then (call $data (i32.const 64) (i32.const 1)) (return (global.get $returns))))
  (call $open
    (i32.load $memory (i32.load $memory (i32.const 16))) (i32.const 1)
    (i32.add (i32.load $memory (local.get $call)) (i32.const 6))
    (i32.sub (i32.load $memory offset=4 (local.get $call)) (i32.const 8))
    (i32.const OPEN) (i32.const DESCRIPTOR) (i32.const 32))
  (if (i32.eqz (i32.load8_u $memory (i32.const 32)))
    (then (call $data (i32.const 65) (i32.const 1)) (return (global.get $returns))))
  (local.set $error (i32.add (i32.load8_u $memory (i32.const 36)) (i32.const 10)))
  (i32.store8 $memory (i32.const 70) (i32.add (i32.const 48) (i32.div_u (local.get $error) (i32.const 10))))
  (i32.store8 $memory (i32.const 71) (i32.add (i32.const 48) (i32.rem_u (local.get $error) (i32.const 10))))
  (call $data (i32.const 70) (i32.const 2))
  (global.get $returns))
"#;
    let source = source
        .replace("OPEN)", &format!("{open_flags})"))
        .replace("DESCRIPTOR)", &format!("{descriptor_flags})"));
    Guest { name, attack: "", limit: "", expects: Expectation::Succeeds, source: source.leak() }
}

fn reads() -> Guest {
    opens("reads", 0, 1)
}

fn creates() -> Guest {
    opens("creates", 1, 2)
}

async fn answer(bench: &Bench, path: &str) -> u64 {
    returned(bench.call(json!({ "p": path })).await).result.data.as_u64().unwrap()
}

fn granted(path: &Path, access: FileAccess) -> Grants {
    Grants::default().with_files(FileGrant::open(path, "/data", access).unwrap())
}

/// Returns a folder with a file, and with entries that must not be opened.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::write(real.join("outside"), "secret").unwrap();
    let inner = real.join("inner");
    std::fs::create_dir_all(inner.join("sub")).unwrap();
    std::fs::write(inner.join("file"), "text").unwrap();
    std::os::unix::fs::symlink(inner.join("../outside"), inner.join("absolute-link")).unwrap();
    std::os::unix::fs::symlink("../outside", inner.join("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, inner.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    (folder, inner)
}

#[tokio::test]
async fn without_a_grant_there_is_no_directory() {
    let bench = Bench::load(&sandbox(), &reads()).await.unwrap();
    assert_eq!(answer(&bench, "file").await, NO_DIRECTORY);
}

#[tokio::test]
async fn a_guest_stays_in_its_directory_and_opens_files_alone() {
    let (_folder, inner) = folder();
    let socket = std::os::unix::net::UnixListener::bind(inner.join("socket")).unwrap();
    let mut bench = Bench::load(&sandbox(), &reads()).await.unwrap();
    bench.grants = granted(&inner, FileAccess::Read);
    bench.timeout = Duration::from_secs(5);
    assert_eq!(answer(&bench, "file").await, OPENED);
    assert_eq!(answer(&bench, "sub").await, OPENED);
    assert_eq!(answer(&bench, "absent").await, NO_ENTRY);
    for outside in ["../outside", "sub/../../outside", "link", "absolute-link", "/etc/passwd"] {
        assert!(answer(&bench, outside).await > OPENED, "{outside}");
    }
    for special in ["pipe", "socket", "sub/../pipe"] {
        assert_eq!(answer(&bench, special).await, NOT_PERMITTED, "{special}");
    }
    drop(socket);
}

#[tokio::test]
async fn devices_are_not_opened() {
    let mut bench = Bench::load(&sandbox(), &reads()).await.unwrap();
    bench.grants = granted(Path::new("/dev"), FileAccess::Read);
    bench.timeout = Duration::from_secs(5);
    for device in ["null", "zero"] {
        let attempt = bench.call(json!({ "p": device })).await;
        assert_eq!(attempt.denied, [format!("files: open {device}")]);
        assert_eq!(returned(attempt).result.data.as_u64(), Some(NOT_PERMITTED), "{device}");
    }
}

/// Returns a tool that applies a function to the path `file` in its first directory, and answers
/// with the error's number.
fn removes(name: &'static str, function: &str, parameters: &str, arguments: &str) -> Guest {
    let source = format!(
        r#";; Removes or moves a file of its first directory.
;; imports: wasi:filesystem/types wasi:filesystem/preopens

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.{function}" (func $remove (param {parameters})))
(data (memory $memory) (i32.const 128) "file")
(func $execute (param $call i32) (result i32) (local $dir i32)
  (call $directories (i32.const 16))
  (local.set $dir (i32.load $memory (i32.load $memory (i32.const 16))))
  (call $remove (local.get $dir) (i32.const 128) (i32.const 4) {arguments} (i32.const 32))
  ;; What is done traps, though it may not be.
  (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (unreachable)))
  (global.get $returns))
"#
    );
    Guest { name, attack: "", limit: "", expects: Expectation::Succeeds, source: source.leak() }
}

#[tokio::test]
async fn what_may_be_read_alone_is_not_removed_and_the_attempt_is_noted() {
    let (_folder, inner) = folder();
    let to = "(local.get $dir) (i32.const 128) (i32.const 3)";
    for (guest, noted) in [
        (removes("unlinks", "unlink-file-at", "i32 i32 i32 i32", ""), "files: remove file"),
        (removes("renames", "rename-at", "i32 i32 i32 i32 i32 i32 i32", to), "files: move file"),
        (removes("clears", "remove-directory-at", "i32 i32 i32 i32", ""), "files: remove file"),
    ] {
        let mut bench = Bench::load(&sandbox(), &guest).await.unwrap();
        bench.grants = granted(&inner, FileAccess::Read);
        let attempt = bench.call(json!({})).await;
        assert_eq!(attempt.denied, [noted], "{}", guest.name);
        returned(attempt);
        assert!(inner.join("file").exists());
    }
}

#[tokio::test]
async fn only_a_read_write_grant_lets_a_guest_write() {
    let (_folder, inner) = folder();
    let mut bench = Bench::load(&sandbox(), &creates()).await.unwrap();
    bench.grants = granted(&inner, FileAccess::Read);
    let attempt = bench.call(json!({ "p": "new" })).await;
    assert_eq!(attempt.denied, ["files: open new"]);
    assert_eq!(returned(attempt).result.data.as_u64(), Some(NOT_PERMITTED));
    assert!(!inner.join("new").exists());
    bench.grants = granted(&inner, FileAccess::ReadWrite);
    assert_eq!(answer(&bench, "new").await, OPENED);
    assert!(inner.join("new").exists());
    assert_eq!(answer(&bench, "pipe").await, NOT_PERMITTED);
}

#[tokio::test]
async fn what_takes_the_directorys_place_later_is_not_seen() {
    let (_folder, inner) = folder();
    let mut bench = Bench::load(&sandbox(), &reads()).await.unwrap();
    bench.grants = granted(&inner, FileAccess::Read);
    std::fs::rename(&inner, inner.with_extension("old")).unwrap();
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("planted"), "").unwrap();
    assert_eq!(answer(&bench, "planted").await, NO_ENTRY);
    assert_eq!(answer(&bench, "file").await, OPENED);
}

const LIST: &str = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-directory" (func $list (param i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]directory-entry-stream.read-directory-entry"
  (func $next (param i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[resource-drop]directory-entry-stream" (func $drop (param i32)))"#;

/// Returns a tool that lists its directory and answers with the number of entries.
fn lists() -> Guest {
    let body = "(call $list (local.get $dir) (i32.const 32))
  (local.set $file (i32.load $memory (i32.const 36)))
  (block $end (loop $again
    (call $next (local.get $file) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (br_if $end (i32.eqz (i32.load8_u $memory (i32.const 36))))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br $again)))
  (call $drop (local.get $file))";
    does("lists", LIST, body)
}

/// Returns a tool that starts to list its directory 90 times, one listing after another.
fn lists_again_and_again() -> Guest {
    let body = "(loop $again
    (call $list (local.get $dir) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (call $drop (i32.load $memory (i32.const 36)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 90))))";
    does("lists-again", LIST, body)
}

/// Returns a tool that reads 64 KiB of `made` ten times, each time with a new stream.
fn streams_out() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-via-stream"
  (func $stream (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))"#;
    let body = "(call $open (local.get $dir) (i32.const 0) (i32.const 128) (i32.const 4) (i32.const 0) (i32.const 1) (i32.const 32))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $stream (local.get $file) (i64.const 0) (i32.const 32))
    (call $read (i32.load $memory (i32.const 36)) (i64.const 65536) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (if (i32.ne (i32.load $memory (i32.const 40)) (i32.const 65536)) (then (unreachable)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 10))))";
    let guest = does("streams-out", import, body);
    let source = guest.source.replace(";; imports:", ";; imports: wasi:io/streams");
    Guest { source: source.leak(), ..guest }
}

async fn with_read(guest: &Guest, inner: &Path) -> Bench {
    let mut bench = Bench::load(&sandbox(), guest).await.unwrap();
    bench.grants = granted(inner, FileAccess::Read);
    bench
}

#[tokio::test]
async fn z5_names_count_as_bytes_that_cross_the_boundary() {
    let (_folder, inner) = folder();
    let many = inner.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 10..96 {
        std::fs::write(many.join(format!("{number}{}", "x".repeat(198))), "").unwrap();
    }
    let mut bench = with_read(&lists(), &many).await;
    assert_eq!(number(bench.call(anything()).await), 86);
    bench.limits = Limits { boundary_bytes: 10_000, ..Limits::default() };
    let fault = fault(bench.call(anything()).await);
    assert_eq!(fault.code, Code::TooLarge);
    assert!(fault.message.contains("boundary_bytes = 10000"), "{}", fault.message);
}

#[tokio::test]
async fn z5_a_directory_is_listed_as_it_is() {
    let (_folder, inner) = folder();
    assert_eq!(number(with_read(&lists(), &inner).await.call(anything()).await), 5);
    let bench = with_read(&lists(), &inner.join("sub")).await;
    assert_eq!(number(bench.call(anything()).await), 0);
}

#[tokio::test]
async fn z5_a_listing_that_is_dropped_makes_room_for_another() {
    let (_folder, inner) = folder();
    let mut bench = with_read(&lists_again_and_again(), &inner).await;
    assert_eq!(number(bench.call(anything()).await), 90);
    bench.limits = Limits { listings: 0, ..Limits::default() };
    let fault = fault(bench.call(anything()).await);
    assert_eq!(fault.code, Code::OutOfResources);
    assert!(fault.message.contains("listings = 0"), "{}", fault.message);
}

#[tokio::test]
async fn z5_what_is_read_by_a_stream_counts_as_bytes_that_cross_the_boundary() {
    let (_folder, inner) = folder();
    std::fs::write(inner.join("made"), vec![7; 65_536]).unwrap();
    let mut bench = with_read(&streams_out(), &inner).await;
    assert_eq!(number(bench.call(anything()).await), 10);
    bench.limits = Limits { boundary_bytes: 5 << 16, ..Limits::default() };
    assert_eq!(fault(bench.call(anything()).await).code, Code::TooLarge);
}
