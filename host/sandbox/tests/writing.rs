//! What a guest may write to a directory that it was granted: no links, no more than
//! its quota, and nothing outside, whatever is done to the directory meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, anything, returned, sandbox};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tollgate_artifacts::{Expectation, Guest};
use tollgate_sandbox::{Attempt, FileAccess, FileGrant, Grants, Limits};

/// Ten and the number of the error.
const NOT_PERMITTED: u64 = 10 + 31;
const NO_SPACE: u64 = 10 + 23;

/// A tool that does something in its first directory, whose handle is `$dir`. The
/// thing leaves its answer in `$answer`, a number below 100.
fn does(name: &'static str, import: &str, body: &str) -> Guest {
    let source = format!(
        r#";; Does something in its first directory.
;; imports: wasi:filesystem/types wasi:filesystem/preopens

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
{import}
(data (memory $memory) (i32.const 128) "made")
(data (memory $memory) (i32.const 160) "../outside")
(func $execute (param $call i32) (result i32) (local $dir i32) (local $file i32) (local $answer i32)
  (call $directories (i32.const 16))
  (local.set $dir (i32.load $memory (i32.load $memory (i32.const 16))))
  {body}
  (i32.store8 $memory (i32.const 70) (i32.add (i32.const 48) (i32.div_u (local.get $answer) (i32.const 10))))
  (i32.store8 $memory (i32.const 71) (i32.add (i32.const 48) (i32.rem_u (local.get $answer) (i32.const 10))))
  (if (i32.lt_u (local.get $answer) (i32.const 10))
    (then (call $data (i32.const 71) (i32.const 1)))
    (else (call $data (i32.const 70) (i32.const 2))))
  (global.get $returns))
"#
    );
    Guest { name, attack: "", limit: "", expects: Expectation::Succeeds, source: source.leak() }
}

/// What a function answered at 32: nothing, or an error.
const ERROR_OR_ZERO: &str = r"(if (i32.load8_u $memory (i32.const 32))
    (then (local.set $answer (i32.add (i32.const 10) (i32.load8_u $memory (i32.const 33))))))";

fn links() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.symlink-at"
  (func $link (param i32 i32 i32 i32 i32 i32)))"#;
    let body = format!(
        "(call $link (local.get $dir) (i32.const 160) (i32.const 10) (i32.const 128) (i32.const 4) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    does("links", import, &body)
}

fn links_hard() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.link-at"
  (func $link (param i32 i32 i32 i32 i32 i32 i32 i32)))"#;
    let body = format!(
        "(call $link (local.get $dir) (i32.const 0) (i32.const 160) (i32.const 10) (local.get $dir) (i32.const 128) (i32.const 4) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    does("links-hard", import, &body)
}

const OPEN_MADE: &str = "(call $open (local.get $dir) (i32.const 0) (i32.const 128) (i32.const 4) (i32.const 1) (i32.const 2) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (local.set $answer (i32.const 99))))
  (local.set $file (i32.load $memory (i32.const 36)))";

/// Writes 64 KiB again and again, at most 50 times, and answers how often it could.
fn fills() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.write"
  (func $write (param i32 i32 i32 i64 i32)))"#;
    let body = format!(
        "{OPEN_MADE}
  (if (i32.eqz (local.get $answer)) (then (block $full (loop $again
    (call $write (local.get $file) (i32.const 0) (i32.const 65536) (i64.const 0) (i32.const 32))
    (br_if $full (i32.load8_u $memory (i32.const 32)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 50)))))))"
    );
    does("fills", import, &body)
}

/// The same through a stream.
fn streams() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.append-via-stream"
  (func $append (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $write (param i32 i32 i32 i32)))"#;
    let body = format!(
        "{OPEN_MADE}
  (call $append (local.get $file) (i32.const 32))
  (local.set $file (i32.load $memory (i32.const 36)))
  (if (i32.eqz (local.get $answer)) (then (block $full (loop $again
    (call $write (local.get $file) (i32.const 0) (i32.const 4096) (i32.const 32))
    (br_if $full (i32.load8_u $memory (i32.const 32)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 50)))))))"
    );
    let guest = does("streams", import, &body);
    let source = guest.source.replace(";; imports:", ";; imports: wasi:io/streams");
    Guest { source: source.leak(), ..guest }
}

fn stretches() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.set-size"
  (func $set_size (param i32 i64 i32)))"#;
    let body = format!(
        "{OPEN_MADE} (call $set_size (local.get $file) (i64.const 1099511627776) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    does("stretches", import, &body)
}

/// Makes directories `a`, `b`, ... and answers how many it could.
fn makes_directories() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.create-directory-at"
  (func $make (param i32 i32 i32 i32)))"#;
    let body = "(block $full (loop $again
    (i32.store8 $memory (i32.const 128) (i32.add (i32.const 97) (local.get $answer)))
    (call $make (local.get $dir) (i32.const 128) (i32.const 1) (i32.const 32))
    (br_if $full (i32.load8_u $memory (i32.const 32)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 20)))))";
    does("makes-directories", import, body)
}

struct Place {
    _folder: tempfile::TempDir,
    inner: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::write(real.join("outside"), "secret").unwrap();
    let inner = real.join("inner");
    std::fs::create_dir(&inner).unwrap();
    Place { _folder: folder, inner }
}

fn granted(path: &Path, quota_bytes: u64) -> Grants {
    let grant = FileGrant::open(path, "/data", FileAccess::ReadWrite).unwrap();
    Grants::default().with_files(grant.with_quota(quota_bytes))
}

async fn bench(guest: &Guest, place: &Place) -> Bench {
    let mut bench = Bench::load(&sandbox(), guest).await.unwrap();
    bench.grants = granted(&place.inner, 1 << 30);
    bench
}

fn number(attempt: Attempt) -> u64 {
    returned(attempt).result.data.as_u64().unwrap()
}

#[tokio::test]
async fn a_guest_makes_no_links() {
    for guest in [links(), links_hard()] {
        let place = place();
        let bench = bench(&guest, &place).await;
        let attempt = bench.call(anything()).await;
        assert_eq!(attempt.denied, ["files: make the link made"], "{}", guest.name);
        assert_eq!(number(attempt), NOT_PERMITTED, "{}", guest.name);
        assert!(std::fs::symlink_metadata(place.inner.join("made")).is_err());
    }
}

#[tokio::test]
async fn a_call_writes_no_more_than_its_limit() {
    let place = place();
    let mut bench = bench(&fills(), &place).await;
    bench.limits = Limits { written_bytes: 1 << 20, ..Limits::default() };
    let attempt = bench.call(anything()).await;
    assert!(attempt.denied[0].contains("written_bytes"), "{:?}", attempt.denied);
    assert_eq!(number(attempt), 15, "a mebibyte, less what the file itself counts as");
    assert_eq!(number(bench.call(anything()).await), 16, "the file is there already");
}

#[tokio::test]
async fn all_calls_together_write_no_more_than_the_directorys_quota() {
    let place = place();
    let mut bench = bench(&fills(), &place).await;
    bench.grants = granted(&place.inner, 200 << 10);
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["files: more bytes than are left of the quota_bytes of /data"]);
    assert_eq!(number(attempt), 3);
    assert_eq!(number(bench.call(anything()).await), 0);
}

#[tokio::test]
async fn streams_into_files_are_counted() {
    let place = place();
    let mut bench = bench(&streams(), &place).await;
    bench.limits = Limits { written_bytes: 40 << 10, ..Limits::default() };
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["files: more bytes than the limit written_bytes lets a call write"]);
    assert_eq!(number(attempt), 9);
    assert_eq!(std::fs::metadata(place.inner.join("made")).unwrap().len(), 9 << 12);
}

#[tokio::test]
async fn a_file_is_not_stretched_beyond_the_quota() {
    let place = place();
    let bench = bench(&stretches(), &place).await;
    assert_eq!(number(bench.call(anything()).await), NO_SPACE);
    assert_eq!(std::fs::metadata(place.inner.join("made")).unwrap().len(), 0);
}

#[tokio::test]
async fn empty_directories_are_counted_too() {
    let place = place();
    let mut bench = bench(&makes_directories(), &place).await;
    bench.limits = Limits { written_bytes: 20 << 10, ..Limits::default() };
    assert_eq!(number(bench.call(anything()).await), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let place = place();
    let outside = place.inner.parent().unwrap().join("elsewhere");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("made"), "secret").unwrap();
    let (sub, away) = (place.inner.join("sub"), place.inner.join("away"));
    std::fs::create_dir(&sub).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Relaxed) {
                std::fs::rename(&sub, &away).unwrap();
                std::os::unix::fs::symlink(&outside, &sub).unwrap();
                std::fs::remove_file(&sub).unwrap();
                std::fs::rename(&away, &sub).unwrap();
            }
        }
    });
    // Opens `sub/made`, which is there only behind the link; counts how often it could.
    let body = r"(i64.store $memory (i32.const 128) (i64.const 0x64616d2f627573)) (i32.store8 $memory (i32.const 135) (i32.const 101))
  (loop $again
    (call $open (local.get $dir) (i32.const 1) (i32.const 128) (i32.const 8) (i32.const 0) (i32.const 1) (i32.const 32))
    (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (local.set $answer (i32.const 99))))
    (local.set $file (i32.add (local.get $file) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $file) (i32.const 1000))))";
    let bench = bench(&does("races", "", body), &place).await;
    let answer = number(bench.call(json!({"p": "x"})).await);
    done.store(true, Relaxed);
    swapping.join().unwrap();
    assert_eq!(answer, 0);
}
