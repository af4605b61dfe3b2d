//! Tests of files that the lock file records, while a host runs.

use crate::versions::{Place, asked, component, version};
use std::path::Path;
use tollgate::Host;
use tollgate::config::Config;
use tollgate::tools::directory::{Change, DirectoryState, FileRemedy};
use tollgate_registry::{Digest, Entry, Lock, LockMode};

fn place(locked: LockMode) -> Place {
    let mut place = Place::new();
    let base_dir = place.folder.path().to_owned();
    place.config = Config { base_dir, locked, ..Config::clone(&place.config) }.into();
    place
}

/// Records a version of the component `version`, with this manifest.
fn record(folder: &Path, wasm: &[u8], asks: Option<&str>) {
    let mut lock = Lock::default();
    let entry = Entry {
        id: "version".to_owned(),
        file: "version.wasm".to_owned(),
        from: "oci://ghcr.io/acme/version".to_owned(),
        tag: None,
        manifest: None,
        wasm: Digest::of(wasm),
        asks: asks.map(|asks| Digest::of(asks.as_bytes())),
        surface: Digest::of(b""),
        licence: None,
        signed: None,
    };
    lock.set(entry).unwrap();
    std::fs::write(folder.join("tollgate.lock"), lock.to_text()).unwrap();
}

async fn live(place: &Place) -> (Host, DirectoryState) {
    let (host, loaded) = place.host().await;
    (host.clone(), DirectoryState::new(host, place.sandbox.clone(), place.config.clone(), &loaded))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_exchanged_is_refused_and_the_recorded_version_goes_on_serving() {
    let place = place(LockMode::Recorded);
    place.put("version.wasm", &version(1));
    record(place.folder.path(), &version(1), None);
    let (host, mut live) = live(&place).await;
    assert_eq!(asked(&host).await, "1");
    place.put("version.wasm", &version(2));
    let changes = live.refresh().await;
    let [Change::Refused(refused)] = changes.as_slice() else { panic!("{changes:?}") };
    let restore = tollgate_registry::Remedy::Restore { id: "version".to_owned() };
    assert_eq!(refused.remedy, Some(FileRemedy::Lock(restore)));
    assert!(
        refused.still_serves.is_some()
            && refused.reason.contains("not the version that tollgate.lock records")
    );
    assert_eq!(asked(&host).await, "1");
    // Updating the record admits the version without a change of the file.
    record(place.folder.path(), &version(2), None);
    let changes = live.refresh().await;
    assert!(changes.iter().any(|change| matches!(change, Change::Served { .. })), "{changes:?}");
    assert_eq!(asked(&host).await, "2");
    // An edited record does not affect what is served.
    record(place.folder.path(), &version(3), None);
    live.refresh().await;
    assert_eq!(asked(&host).await, "2");
    std::fs::write(place.folder.path().join("tollgate.lock"), "<<<<<<< HEAD\n").unwrap();
    let changes = live.refresh().await;
    assert!(changes.iter().any(|change| matches!(change, Change::Unread { .. })), "{changes:?}");
    assert_eq!(asked(&host).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_another_manifest_nor_another_file_takes_the_place_of_what_is_recorded() {
    let place = place(LockMode::Recorded);
    place.put("version.wasm", &version(1));
    place.put("version.toml", b"[asks]\n");
    record(place.folder.path(), &version(1), Some("[asks]\n"));
    assert_eq!(place.load().await.components.len(), 1);
    place.put("version.toml", b"[asks]\nenvironment = [\"HOME\"]\n");
    assert!(place.load().await.toolbox.refused()[0].reason.contains("the manifest of version.wasm"));
    std::fs::remove_file(place.path("version.toml")).unwrap();
    assert!(place.load().await.toolbox.refused()[0].reason.contains("the manifest of version.wasm"));
    std::fs::rename(place.path("version.wasm"), place.path("other.wasm")).unwrap();
    let reason = place.load().await.toolbox.refused()[0].reason.clone();
    assert!(reason.contains("records the id version for version.wasm"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_locked_nothing_else_is_served() {
    let all = place(LockMode::All);
    all.put("version.wasm", &version(1));
    all.put("other.wasm", &component("other", "other", "x"));
    record(all.folder.path(), &version(1), None);
    let loaded = all.load().await;
    assert_eq!(loaded.components.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["version"]);
    assert!(loaded.toolbox.refused()[0].reason.starts_with("it is not in tollgate.lock"));
    let off = place(LockMode::Off);
    off.put("version.wasm", &version(2));
    std::fs::write(off.folder.path().join("tollgate.lock"), "<<<<<<< HEAD\n").unwrap();
    assert_eq!(off.load().await.components.len(), 1, "nothing is read");
}
