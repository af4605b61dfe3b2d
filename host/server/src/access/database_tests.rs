//! Tests of the limits of codes and sessions, with a clock of their own.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::scope::Scope;
use std::cell::Cell;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(1_800_000_000_000) };
}

fn wait(ms: u64) {
    NOW_MS.set(NOW_MS.get() + ms);
}

fn opened(data: &Path) -> AccessDatabase {
    let mut access = AccessDatabase::open(data).unwrap();
    access.clock = || NOW_MS.get();
    access
}

#[test]
fn a_wrong_code_does_not_wait_for_a_writer() {
    let data = tempfile::tempdir().unwrap();
    let access = opened(data.path());
    let code = access.add_code(&Principal::new("ada", [Scope::Use])).unwrap();
    let writer = Connection::open(data.path().join(FILE)).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(access.sign_in("WRONG", None).unwrap().is_none());
    writer.execute_batch("ROLLBACK").unwrap();
    assert!(access.sign_in(&code, None).unwrap().is_some());
    assert!(access.sign_in(&code, None).unwrap().is_none(), "a code works once");
}

#[test]
fn one_key_does_not_take_the_room_of_everyones_sessions() {
    let data = tempfile::tempdir().unwrap();
    let access = opened(data.path());
    let key = |name: &str| {
        let request = KeyRequest { principal: Principal::new(name, [Scope::Use]), expires_at_ms: None };
        access.add_key(&request).unwrap().1
    };
    let (ada, eve) = (key("ada"), key("eve"));
    let sign_in = |key: &str| access.sign_in(key, None).unwrap().unwrap();
    let first = sign_in(&ada);
    let of_eve: Vec<_> = (0..70)
        .map(|_| {
            wait(1);
            sign_in(&eve)
        })
        .collect();
    let is_valid =
        |session: &NewSession| access.credential(&secret::digest(&session.cookie)).unwrap().is_some();
    let valid: Vec<bool> = of_eve.iter().map(is_valid).collect();
    assert_eq!(valid, (0..70).map(|at| at >= 6).collect::<Vec<_>>(), "the newest 64");
    assert!(is_valid(&first));
}

#[test]
fn codes_and_sessions_end_at_their_limits() {
    let data = tempfile::tempdir().unwrap();
    let access = opened(data.path());
    let ada = Principal::new("ada", [Scope::Use]);
    let signed_in = || access.sign_in(&access.add_code(&ada).unwrap(), None).unwrap().unwrap();
    let is_valid =
        |session: &NewSession| access.credential(&secret::digest(&session.cookie)).unwrap().is_some();

    let (early, late) = (access.add_code(&ada).unwrap(), access.add_code(&ada).unwrap());
    wait(5 * MINUTE_MS - 1);
    assert_eq!(access.sign_in(&early, None).unwrap().unwrap().name, "ada");
    wait(1);
    assert!(access.sign_in(&late, None).unwrap().is_none(), "a code works for five minutes");

    let idle = signed_in();
    wait(12 * HOUR_MS);
    assert!(is_valid(&idle), "each use begins the idle time anew");
    wait(12 * HOUR_MS);
    assert!(is_valid(&idle));
    wait(12 * HOUR_MS + 1);
    assert!(!is_valid(&idle), "a session ends after 12 hours without use");

    let busy = signed_in();
    for _ in 0..59 {
        wait(12 * HOUR_MS);
        assert!(is_valid(&busy));
        // Another process knows the use within a minute, and so does this one after a restart.
        access.store_uses().unwrap();
    }
    assert!(is_valid(&busy) && opened(data.path()).sessions().unwrap().len() == 1);
    wait(DAY_MS / 2 - 1);
    assert!(is_valid(&busy));
    wait(1);
    assert!(!is_valid(&busy), "a session ends after 30 days, however often it is used");
    assert!(access.sessions().unwrap().is_empty());
}
