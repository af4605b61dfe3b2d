//! Tests of state: every reducer, values too large for the snapshot, keys of other components.

use super::{all_data, all_fault, all_tour, building, host};
use crate::built::LANGUAGES;
use serde_json::{Value, json};
use tollgate::CallRequest;

/// Returns the state of a thread before anything is written to it.
fn nothing() -> Value {
    json!({
        "replaced": "nothing", "merged": {}, "appended": [], "added": 0, "united": [], "greatest": 0,
        "passing": "nobody", "large": 0, "label": "books",
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_updates_by_each_reducer() {
    let host = host().await;
    let read = json!({"what": "read"});
    assert_eq!(all_data(&host, "state", &read).await, nothing());
    // Sorted by bytes, as some languages write the members of an object.
    for (text, count, words) in
        [("first", 5, json!(["b", "a", "b"])), ("last", 2, json!(["c", "a"])), ("ä\"", 0, json!([]))]
    {
        let update = json!({"what": "reduce", "text": text, "count": count, "words": words});
        assert_eq!(all_data(&host, "state", &update).await, "reduced");
    }
    let written = json!({
        "replaced": "ä\"", "merged": {"first": 5, "last": 2, "ä\"": 0}, "appended": ["first", "last", "ä\""],
        "added": 7, "united": ["a", "b", "c"], "greatest": 5,
        // A direct call is a run of its own.
        "passing": "nobody", "large": 0, "label": "books",
    });
    assert_eq!(all_data(&host, "state", &read).await, written);
    assert_eq!(all_data(&host, "another", &read).await, nothing());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn s10_every_language_sees_its_own_updates() {
    let host = host().await;
    let update = json!({"what": "reduce", "text": "first", "count": 5, "words": ["b", "a"]});
    assert_eq!(all_data(&host, "own", &update).await, "reduced");
    let reread = json!({"what": "reread", "text": "last", "count": 3, "words": ["😀", "\u{ffff}", "c", "b"]});
    let seen = all_data(&host, "own", &reread).await;
    let expected = json!({
        "replaced": "last", "merged": {"first": 5, "last": 3}, "appended": ["first", "last"], "added": 8,
        "united": ["a", "b", "c", "\u{ffff}", "😀"], "greatest": 5, "passing": "last", "large": 0, "label": "books",
    });
    assert_eq!(seen, expected);
    let mut stored = expected;
    // A direct call is a run by itself.
    stored["passing"] = json!("nobody");
    assert_eq!(all_data(&host, "own", &json!({"what": "read"})).await, stored, "the host comes to the same");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k14_every_language_reads_the_settings_that_were_granted() {
    let host = building("settings = { units = \"metric\", empty = \"\" }").await.build().unwrap();
    for (name, value) in [("units", json!("metric")), ("empty", json!("")), ("other", Value::Null)] {
        assert_eq!(
            all_data(&host, "settings", &json!({"what": "setting", "text": name})).await,
            value,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_attaches_images_files_and_links() {
    let host = host().await;
    for language in &LANGUAGES {
        let arguments = json!({"what": "attach", "text": "Grüezi"}).to_string();
        let end = host.call(CallRequest::from_json(language.tour(), arguments)).await.unwrap();
        let result = end.result().unwrap_or_else(|| panic!("{}: {end:?}", language.name));
        assert_eq!(result.data, "attached", "{}", language.name);
        let content = serde_json::to_value(&result.content).unwrap();
        let expected = json!([
            {"type": "image", "mime_type": "image/png", "data": "iVBORw=="},
            {"type": "text_file", "uri": "tour:///notes.txt", "mime_type": "text/plain", "text": "Grüezi"},
            {"type": "link", "uri": "https://example.org/tour", "name": "Grüezi", "description": "A tour."},
        ]);
        assert_eq!(content, expected, "{}", language.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_reads_what_the_snapshot_has_no_room_for() {
    let host = host().await;
    // Values up to 64 KiB are in the snapshot, larger ones are not.
    for kilobytes in [63, 64, 200] {
        let fill = json!({"what": "fill", "count": kilobytes});
        assert_eq!(all_data(&host, "large", &fill).await, "filled");
        let data = all_data(&host, "large", &json!({"what": "read"})).await;
        assert_eq!((&data["large"], &data["label"]), (&json!(1024 * kilobytes), &json!("books")));
    }
    // 256 KiB are too much for one update.
    let (code, _) = all_fault(&host, "large", &json!({"what": "fill", "count": 256})).await;
    assert_eq!(code, "bad_mutation");
    assert_eq!(all_data(&host, "large", &json!({"what": "read"})).await["large"], 1024 * 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_only_reads_anothers_key_and_only_where_it_is_granted() {
    // The grants include more than the library declares for itself.
    let granted = host().await;
    let (code, words) = all_fault(&granted, "foreign", &json!({"what": "trespass"})).await;
    assert_eq!(code, "bad_mutation");
    assert!(words.contains("shelf.label"), "{words}");
    assert_eq!(all_data(&granted, "foreign", &json!({"what": "read"})).await["label"], "books");

    let bare = building("").await.build().unwrap();
    assert_eq!(all_data(&bare, "foreign", &json!({"what": "read"})).await["label"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_is_told_the_revision_and_its_time() {
    let host = host().await;
    for revision in [0, 1] {
        let data = all_data(&host, "told", &json!({"what": "context"})).await;
        assert_eq!((&data["tool"], &data["revision"]), (&json!("TOOL"), &json!(revision)));
        assert_eq!(data["timely"], true);
        assert_eq!(data["parent"], json!({"run": null, "thread": null, "call": null}));
        all_tour(&host, "told", &json!({"what": "reduce"})).await;
    }
}
