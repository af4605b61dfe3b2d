//! What people grant and revoke while tools are served.

use crate::versions::{Place, asked, curious, until, version};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tollgate::config::Config;
use tollgate::powers::{Approvals, Approved, Asks, Decision, manifest_of};
use tollgate::tools::directory::{Change, Live};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use tollgate_artifacts::good;

const TOOL: &str = "counts-directories";

/// A place with a tool that says how many directories it was given.
fn place(config: &str) -> Place {
    let mut place = Place::new();
    write(&place, config);
    place.config = Config { tools_dir: place.path(""), ..Config::load(Some(&file(&place))).unwrap() }.into();
    place.put("counts.wasm", &good::COUNTS_DIRECTORIES.bytes());
    std::fs::create_dir(place.folder.path().join("docs")).unwrap();
    place
}

fn file(place: &Place) -> std::path::PathBuf {
    place.folder.path().join("tollgate.toml")
}

/// Writes the configuration as `grant` does: in one step.
fn write(place: &Place, config: &str) {
    let part = place.folder.path().join("part.toml");
    std::fs::write(&part, config).unwrap();
    std::fs::rename(part, file(place)).unwrap();
}

fn granting(place: &Place, directory: &str) -> String {
    let host = place.folder.path().join(directory);
    format!("[grants.{TOOL}]\nfiles = [{{ host = {:?}, guest = \"/docs\" }}]\n", host.display())
}

/// How many directories the tool has, or why it does not say.
async fn directories(host: &Host) -> Value {
    match host.call(CallRequest::new(TOOL, "{}")).await.unwrap().last_call.unwrap().end {
        CallEnd::Result(result) => result.data.clone(),
        CallEnd::Fault(fault) => fault.code.as_str().into(),
    }
}

async fn live(place: &Place) -> (Host, Live) {
    let (host, loaded) = place.host().await;
    let live = Live::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    (host, live)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_and_revoked_counts_from_the_next_look_on() {
    let place = place("");
    let (host, mut live) = live(&place).await;
    assert_eq!((live.look().await, directories(&host).await), (Vec::new(), 0.into()));
    write(&place, &granting(&place, "docs"));
    assert!(
        matches!(live.look().await.as_slice(), [Change::Granted { component_id, .. }] if component_id == TOOL)
    );
    assert_eq!((live.look().await, directories(&host).await), (Vec::new(), 1.into()));
    write(&place, "# nothing any more\n");
    assert!(matches!(live.look().await.as_slice(), [Change::Granted { .. }]));
    assert_eq!(directories(&host).await, 0);
}

/// The bound is what only another algorithm would miss: taking it up at the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_runs_takes_up_what_is_granted() {
    let place = place("");
    let (host, _watch) = place.watched().await;
    write(&place, &granting(&place, "docs"));
    let soon = tokio::time::Instant::now() + Duration::from_secs(20);
    while directories(&host).await != 1 {
        assert!(tokio::time::Instant::now() < soon, "it is never taken up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_cannot_be_read_leaves_what_was_decided_in_force() {
    let mut place = place("");
    write(&place, &granting(&place, "docs"));
    place.config = Config { tools_dir: place.path(""), ..Config::load(Some(&file(&place))).unwrap() }.into();
    let (host, mut live) = live(&place).await;
    for broken in ["[grants", "[grants.x]\nfiles = 3", "[unknown]"] {
        write(&place, broken);
        let changes = live.look().await;
        assert!(
            matches!(changes.as_slice(), [Change::Unread { reason, .. }] if reason.contains("is in force")),
            "{changes:?}"
        );
        assert_eq!((live.look().await, directories(&host).await), (Vec::new(), 1.into()), "it is said once");
    }
    std::fs::remove_file(file(&place)).unwrap();
    assert!(matches!(live.look().await.as_slice(), [Change::Unread { .. }]));
    write(&place, "");
    assert!(matches!(live.look().await.as_slice(), [Change::Granted { .. }]));
    assert_eq!(directories(&host).await, 0);
}

/// What was revoked is gone even where what was granted in its place cannot be had.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_cannot_be_opened_takes_the_tool_out_of_use_and_not_back_to_what_it_had() {
    let place = place("");
    write(&place, &granting(&place, "docs"));
    let (host, mut live) = live(&place).await;
    live.look().await;
    assert_eq!(directories(&host).await, 1);
    write(&place, &granting(&place, "absent"));
    let changes = live.look().await;
    assert!(
        matches!(changes.as_slice(), [Change::Refused(refused)] if refused.still_serves.is_none()),
        "{changes:?}"
    );
    assert_eq!(directories(&host).await, "not_found");
    write(&place, &granting(&place, "docs"));
    assert!(matches!(live.look().await.as_slice(), [Change::Served { .. }]));
    assert_eq!((directories(&host).await, host.toolbox().refused().len()), (1.into(), 0));
}

/// `grant` makes the file where there is none, and a host may run by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_comes_later_is_taken_up() {
    let mut place = place("");
    std::fs::remove_file(file(&place)).unwrap();
    place.config = Config {
        tools_dir: place.path(""),
        base_dir: place.folder.path().to_owned(),
        absent_file: Some(file(&place)),
        ..Config::default()
    }
    .into();
    let (host, mut live) = live(&place).await;
    assert_eq!((live.look().await, directories(&host).await), (Vec::new(), 0.into()));
    write(&place, &granting(&place, "docs"));
    assert!(matches!(live.look().await.as_slice(), [Change::Granted { .. }]));
    assert_eq!(directories(&host).await, 1);
}

fn approve(config: &Config, id: &str, digest: &str, asks: &Asks) {
    let approved = Approved {
        decision: Decision::Approved,
        at: "2026-01-01T00:00:00Z".to_owned(),
        digest: digest.to_owned(),
        asks: asks.clone(),
    };
    Approvals::load(config).unwrap().decide(id, approved).unwrap();
}

fn manifest(component: &Path, text: &str) -> Asks {
    std::fs::write(manifest_of(component), format!("[asks]\n{text}\n")).unwrap();
    toml::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_waits_for_approval_is_served_once_it_is_approved() {
    let place = place("");
    let component = place.path("version.wasm");
    let little = manifest(&component, "settings = [\"a\"]");
    place.put("version.wasm", &version(1));
    let (_, loaded) = place.host().await;
    approve(&place.config, "version", &loaded.components[1].digest, &little);
    let (host, mut live) = live(&place).await;
    // More by its manifest, and by what it says of itself.
    let more = manifest(&component, "settings = [\"a\", \"b\"]");
    place.put("version.wasm", &curious(2));
    let changes = live.look().await;
    let [Change::Refused(refused)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(refused.reason.contains("read the setting b"), "{}", refused.reason);
    assert_eq!(asked(&host).await, "1");
    let digest = place.sandbox.load(&component).await.unwrap().digest().to_owned();
    approve(&place.config, "version", &digest, &more);
    assert!(matches!(live.look().await.as_slice(), [Change::Served { .. }]));
    until(&host, "2").await;
    assert!(host.toolbox().refused().is_empty());
}
