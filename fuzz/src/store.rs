//! Fuzzes damaged or forged pages of a store. The input is a list of patches, each an offset (3
//! bytes, little-endian), a length (1 byte) and that many bytes. They are applied to a store of
//! the first release, migrated to this one.

use std::path::Path;
use std::sync::OnceLock;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, AuditStore, ComponentStore, RunFilter, RunStore, SqliteStore,
    StateStore, StoreError,
};
use tollgate_agent::run::Run;

const OF_THE_FIRST_RELEASE: &[u8] = include_bytes!("../../host/tests/fixtures/store-0.1.0.db");
const FILE: &str = "tollgate.db";

pub(crate) fn run(bytes: &[u8]) {
    let mut pages = pages().to_vec();
    let mut patches = bytes;
    while let [low, middle, high, length, rest @ ..] = patches {
        let at = usize::from(*low) | usize::from(*middle) << 8 | usize::from(*high) << 16;
        let (patch, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        for (page, new) in pages.iter_mut().skip(at).zip(patch) {
            *page = *new;
        }
        patches = rest;
    }
    let folder = crate::folder("store");
    in_new_folder(&folder, &pages);
    if let Ok(store) = SqliteStore::open(&folder) {
        // Being unreadable is a valid outcome.
        let _ = crate::runtime().block_on(read_all(&store));
    }
}

async fn read_all(store: &SqliteStore) -> Result<(), StoreError> {
    let record = AuditRecord::new(AuditKind::Load, "fuzz", "served").of_tool("fuzzed");
    let noted = store.record_audit(vec![record]).await;
    for summary in store.runs(RunFilter::default()).await? {
        let Ok(events) = store.events(&summary.run_id, 0).await else { continue };
        let Ok(thread) = store.thread(&summary.thread_id).await else { continue };
        let mut run = Run::new(thread);
        let folded = events.iter().try_for_each(|event| run.apply(&event.event));
        if folded.is_ok() {
            let _ = (run.is_finished(), run.last_text().len());
        }
        let _ = store.changes(&summary.thread_id, 0, 100).await;
    }
    let _ = store.tool_health().await;
    let _ = store.component("0").await;
    let _ = store.audit(AuditFilter { run_id_prefix: Some("0".to_owned()), ..AuditFilter::default() }).await;
    let audit = store.audit(AuditFilter::default()).await?;
    assert!(noted.is_err() || !audit.is_empty(), "what was noted is not there");
    Ok(())
}

/// Returns the store's file without any others beside it.
fn pages() -> &'static [u8] {
    static PAGES: OnceLock<Vec<u8>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let folder = crate::folder("store-before");
        in_new_folder(&folder, OF_THE_FIRST_RELEASE);
        drop(SqliteStore::open(&folder).unwrap());
        std::fs::read(folder.join(FILE)).unwrap()
    })
}

fn in_new_folder(folder: &Path, pages: &[u8]) {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(FILE), pages).unwrap();
}
