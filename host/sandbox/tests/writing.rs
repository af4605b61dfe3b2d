//! A guest's writes to a granted directory: no links, at most its quota, and nothing outside,
//! even if the directory is changed meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod harness;

use harness::{Bench, ERROR_OR_ZERO, anything, does, fault, number, sandbox};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tollgate_agent::code::Code;
use tollgate_artifacts::Guest;
use tollgate_sandbox::{FileAccess, FileGrant, Grants, Limits};

/// Ten plus the number of the error.
const NOT_PERMITTED: u64 = 10 + 31;
const NO_SPACE: u64 = 10 + 23;

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

/// Returns a tool that writes 64 KiB up to 50 times and answers how often it succeeded.
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

/// Returns a tool that does the same as [`fills`] through a stream.
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
    with_streams(does("streams", import, &body))
}

fn with_streams(guest: Guest) -> Guest {
    let source = guest.source.replace(";; imports:", ";; imports: wasi:io/streams");
    Guest { source: source.leak(), ..guest }
}

/// Returns a tool that opens 3,000 streams to one file.
fn opens_streams() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.append-via-stream"
  (func $append (param i32 i32)))"#;
    let body = format!(
        "{OPEN_MADE}
  (local.set $dir (i32.const 0))
  (loop $again
    (call $append (local.get $file) (i32.const 32))
    (local.set $dir (i32.add (local.get $dir) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $dir) (i32.const 3000))))"
    );
    with_streams(does("opens-streams", import, &body))
}

fn stretches() -> Guest {
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.set-size"
  (func $set_size (param i32 i64 i32)))"#;
    let body = format!(
        "{OPEN_MADE} (call $set_size (local.get $file) (i64.const 1099511627776) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    does("stretches", import, &body)
}

/// Returns a tool that makes directories `a`, `b`, ... and answers how many it made.
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
async fn z5_streams_and_writes_of_files_are_charged_to_the_call() {
    let place = place();
    let mut opening = bench(&opens_streams(), &place).await;
    assert_eq!(number(opening.call(anything()).await), 0);
    opening.limits = Limits { memory_bytes: 4 << 20, host_memory_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(fault(opening.call(anything()).await).code, Code::OutOfMemory);
    let mut writing = bench(&fills(), &place).await;
    assert_eq!(number(writing.call(anything()).await), 50);
    writing.limits = Limits { crossing_bytes: 1_000, ..Limits::default() };
    assert_eq!(fault(writing.call(anything()).await).code, Code::TooLarge);
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
    // Opens `sub/made`, which exists only behind the link; counts the successes.
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

const WRITE: &str = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.write"
  (func $write (param i32 i32 i32 i64 i32)))"#;
const RENAME: &str = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.rename-at"
  (func $rename (param i32 i32 i32 i32 i32 i32 i32)))"#;
/// The handle of the second directory.
const SECOND: &str = "(i32.load $memory offset=12 (i32.load $memory (i32.const 16)))";

/// Returns a tool that writes one byte at this position and answers with the error.
fn writes_at(place: u64) -> Guest {
    let body = format!(
        "{OPEN_MADE} (call $write (local.get $file) (i32.const 0) (i32.const 1) (i64.const {place}) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32))
    (then (local.set $answer (i32.add (i32.const 10) (i32.load8_u $memory (i32.const 40))))))"
    );
    does("writes-at", WRITE, &body)
}

/// Returns a tool that moves the file `made` from its first directory to the second and answers
/// with the error.
fn moves() -> Guest {
    let body = format!(
        "(call $rename (local.get $dir) (i32.const 128) (i32.const 4) {SECOND} (i32.const 128) (i32.const 4) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    does("moves", RENAME, &body)
}

/// Returns a tool that moves the file between two steps, then writes to `$file`, 64 KiB at a time,
/// and answers how often it succeeded.
fn moves_and_fills(before: &str, after: &str) -> Guest {
    let body = format!(
        "{before}
  (call $rename (local.get $dir) (i32.const 128) (i32.const 4) {SECOND} (i32.const 128) (i32.const 4) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (local.set $answer (i32.const 99))))
  {after}
  (if (i32.eqz (local.get $answer)) (then (block $full (loop $again
    (call $write (local.get $file) (i32.const 0) (i32.const 65536) (i64.const 0) (i32.const 32))
    (br_if $full (i32.load8_u $memory (i32.const 32)))
    (local.set $answer (i32.add (local.get $answer) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $answer) (i32.const 50)))))))"
    );
    let deep = r#"(data (memory $memory) (i32.const 176) "made/deep")"#;
    does("moves-and-fills", &format!("{WRITE}\n{RENAME}\n{deep}"), &body)
}

/// Grants two directories with these quotas.
fn two(place: &Place, quotas: [u64; 2]) -> Grants {
    let parent = place.inner.parent().unwrap();
    let paths = [place.inner.clone(), parent.join("second")];
    std::fs::create_dir_all(&paths[1]).unwrap();
    paths.iter().zip(["/data", "/second"]).zip(quotas).fold(
        Grants::default(),
        |grants, ((path, guest), quota)| {
            let grant = FileGrant::open(path, guest, FileAccess::ReadWrite).unwrap();
            grants.with_files(grant.with_quota(quota))
        },
    )
}

#[tokio::test]
async fn z7_a_write_beyond_the_end_costs_the_growth_of_the_file() {
    for (at, answer) in [(1 << 40, NO_SPACE), (1 << 30, NO_SPACE), (u64::MAX - 1, NO_SPACE), (1 << 20, 0)] {
        let place = place();
        let bench = bench(&writes_at(at), &place).await;
        assert_eq!(number(bench.call(anything()).await), answer, "{at}");
        let bytes = std::fs::metadata(place.inner.join("made")).unwrap().len();
        assert_eq!(bytes, if answer == 0 { at + 1 } else { 0 });
    }
}

#[tokio::test]
async fn z7_every_write_costs_at_least_a_block() {
    let place = place();
    std::fs::write(place.inner.join("made"), "there").unwrap();
    let mut bench = bench(&writes_at(0), &place).await;
    bench.grants = granted(&place.inner, 3 * 4096);
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(number(bench.call(anything()).await));
    }
    assert_eq!(answers, [0, 0, 0, NO_SPACE], "one byte each");
}

#[tokio::test]
async fn z7_a_file_that_is_moved_counts_against_the_quota_of_where_it_is_then() {
    let place = place();
    let mut bench = bench(&moves(), &place).await;
    std::fs::write(place.inner.join("made"), vec![0; 100_000]).unwrap();
    bench.grants = two(&place, [1 << 30, 100 << 10]);
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["files: more bytes than are left of the quota_bytes of /second"]);
    assert_eq!(number(attempt), NO_SPACE);
    // 25 blocks, and the file itself.
    bench.grants = two(&place, [0, 104 << 10]);
    assert_eq!(number(bench.call(anything()).await), 0);
    std::fs::write(place.inner.join("made"), "").unwrap();
    assert_eq!(number(bench.call(anything()).await), NO_SPACE, "the quota is used up");
}

#[tokio::test]
async fn z7_a_directory_is_moved_with_all_that_is_in_it() {
    let place = place();
    let mut bench = bench(&moves(), &place).await;
    std::fs::create_dir_all(place.inner.join("made/deep")).unwrap();
    std::fs::write(place.inner.join("made/deep/file"), vec![0; 1 << 20]).unwrap();
    bench.grants = two(&place, [1 << 30, 1 << 20]);
    assert_eq!(number(bench.call(anything()).await), NO_SPACE);
    bench.grants = two(&place, [1 << 30, (1 << 20) + 3 * 4096]);
    assert_eq!(number(bench.call(anything()).await), 0);
}

#[tokio::test]
async fn z7_writes_to_a_file_that_was_moved_while_it_was_open_count_where_it_is() {
    let place = place();
    let mut bench = bench(&moves_and_fills(OPEN_MADE, ""), &place).await;
    bench.grants = two(&place, [1 << 30, 200 << 10]);
    let attempt = bench.call(anything()).await;
    assert_eq!(attempt.denied, ["files: more bytes than are left of the quota_bytes of /second"]);
    assert_eq!(number(attempt), 3);
}

#[tokio::test]
async fn z7_writes_through_a_directory_that_was_moved_while_it_was_open_count_where_it_is() {
    let make = OPEN_MADE.replace("(local.get $dir)", "(i32.load $memory (i32.const 200))");
    let again = make.replace("(local.set $file", "(drop");
    // It opens `made` or `made/deep`, which it creates before or after the move.
    for (length, before, after) in [(4, "", &make), (9, "", &make), (4, &*make, &again), (9, &make, &again)] {
        let place = place();
        std::fs::create_dir_all(place.inner.join("made/deep")).unwrap();
        let open = format!(
            "(call $open (local.get $dir) (i32.const 0) (i32.const 176) (i32.const {length}) (i32.const 2) (i32.const 33) (i32.const 32))
  (i32.store $memory (i32.const 200) (i32.load $memory (i32.const 36))) {before}"
        );
        let mut bench = bench(&moves_and_fills(&open, after), &place).await;
        // Three entries, and three writes.
        bench.grants = two(&place, [1 << 30, (12 + 3 * 64) << 10]);
        assert_eq!(number(bench.call(anything()).await), 3, "{length} {before}");
    }
}

#[tokio::test]
async fn z7_what_was_not_made_costs_nothing() {
    let place = place();
    std::fs::create_dir(place.inner.join("made")).unwrap();
    // Tries 50 times to make a directory that exists, then another one.
    let import = r#"(import "wasi:filesystem/types@0.2.12" "[method]descriptor.create-directory-at"
  (func $make (param i32 i32 i32 i32)))"#;
    let body = format!(
        "(loop $again
    (call $make (local.get $dir) (i32.const 128) (i32.const 4) (i32.const 32))
    (local.set $file (i32.add (local.get $file) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $file) (i32.const 50))))
    (call $make (local.get $dir) (i32.const 128) (i32.const 2) (i32.const 32)) {ERROR_OR_ZERO}"
    );
    let mut bench = bench(&does("makes-again", import, &body), &place).await;
    bench.grants = granted(&place.inner, 4096);
    assert_eq!(number(bench.call(anything()).await), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn z7_calls_at_once_share_a_quota_to_the_byte() {
    let place = place();
    std::fs::write(place.inner.join("made"), "there").unwrap();
    let mut bench = bench(&fills(), &place).await;
    bench.grants = granted(&place.inner, 20 << 16);
    let calls = (0..8).map(|_| bench.call(anything()));
    let written = futures::future::join_all(calls).await.into_iter().map(number).sum::<u64>();
    assert_eq!(written, 20);
}
