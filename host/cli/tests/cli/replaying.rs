//! Tests of `tollgate replay`.

use crate::place::Place;
use serde_json::Value;
use tollgate_artifacts::good;

/// Returns the id of the newest run.
fn last_run(place: &Place) -> String {
    place.type_in(&["runs", "--json"]).json()[0]["run_id"].as_str().unwrap().to_owned()
}

fn database(place: &Place) -> rusqlite::Connection {
    rusqlite::Connection::open(place.path().join("data/tollgate.db")).unwrap()
}

/// Returns the findings of a replay that ends with this code.
fn replay(place: &Place, code: i32) -> Vec<Value> {
    let said = place.type_in(&["replay", &last_run(place), "--json"]).ends_with(code);
    said.json()["attempts"].as_array().unwrap().clone()
}

#[test]
fn a_call_comes_to_the_same_with_the_clock_and_the_dice_of_its_record() {
    let place = Place::new().with_tools(&[good::DICE]);
    place.type_in(&["call", "dice"]).ends_with(0);
    assert_eq!(replay(&place, 0)[0]["finding"], "same");
    place.type_in(&["replay", &last_run(&place)]).ends_with(0).answers("1 the same, 0 different");
}

#[test]
fn a_tampered_record_is_found_with_the_place() {
    let place = Place::new().with_tools(&[good::ADDER]);
    for _ in 0..2 {
        place.type_in(&["call", "adder", "{}", "--thread", "t"]).ends_with(0);
    }
    assert_eq!(replay(&place, 0)[0]["finding"], "same");
    let changed = database(&place).execute(
        r#"UPDATE events SET body = replace(body, '"data":1', '"data":7')
           WHERE run = (SELECT max(id) FROM runs) AND body LIKE '%"data":1%'"#,
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    place.type_in(&["replay", &last_run(&place)]).ends_with(1).says("is damaged");
    // An earlier version wrote events without checksums.
    let unchecked = "UPDATE events SET checksum = NULL WHERE run = (SELECT max(id) FROM runs)";
    database(&place).execute(unchecked, []).unwrap();
    let found = replay(&place, 1).remove(0);
    assert_eq!(found["finding"], "differs");
    assert_eq!(found["place"], "/end/result/data");
    assert_eq!((found["recorded"].as_str(), found["now"].as_str()), (Some("7"), Some("1")));
    let said = place.type_in(&["replay", &last_run(&place)]).ends_with(1);
    said.answers("different at /end/result/data").answers("recorded: 7");
}

#[test]
fn a_component_is_kept_while_a_run_refers_to_it() {
    let place = Place::new().with_tools(&[good::DICE]);
    place.type_in(&["call", "dice"]).ends_with(0);
    place.type_in(&["call", "dice"]).ends_with(0);
    let kept = |place: &Place| -> i64 {
        database(place).query_row("SELECT count(*) FROM components", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(kept(&place), 1, "once for both runs");
    std::fs::remove_file(place.path().join("tools/dice.wasm")).unwrap();
    assert_eq!(replay(&place, 0)[0]["finding"], "same", "from what was kept");

    let store = database(&place);
    store.execute("DELETE FROM run_components WHERE run = (SELECT min(id) FROM runs)", []).unwrap();
    assert_eq!(kept(&place), 1, "one run still refers to it");
    store.execute("DELETE FROM run_components", []).unwrap();
    assert_eq!(kept(&place), 0);
    let found = replay(&place, 1).remove(0);
    assert_eq!(found["finding"], "not_replayable");
    assert!(found["why"].as_str().unwrap().contains("not archived"), "{found}");
}

#[test]
fn what_no_record_holds_is_never_passed_silently() {
    let place = Place::new()
        .with_tools(&[good::COUNTS_DIRECTORIES, good::WATCHES_THE_CLOCK])
        .with_config("[grants.counts-directories]\nfiles = [{ host = \"given\", guest = \"/given\", access = \"read\" }]\n");
    place.write("given/file.txt", "before");
    place.type_in(&["call", "counts-directories"]).ends_with(0).answers("1");
    let found = replay(&place, 1).remove(0);
    assert_eq!(found["finding"], "not_replayable");
    assert!(found["why"].as_str().unwrap().contains("files"), "{found}");
    let words = "not replayable: it used files, whose answers are not recorded";
    place.type_in(&["replay", "last"]).ends_with(1).answers(words);

    place.type_in(&["call", "watches-the-clock"]).ends_with(0);
    let found = replay(&place, 1).remove(0);
    assert!(found["why"].as_str().unwrap().contains("1024"), "{found}");
}

#[test]
fn a_power_that_was_granted_and_not_used_does_not_prevent_a_replay() {
    let place = Place::new()
        .with_tools(&[good::COULD_READ_SETTINGS])
        .with_config("[grants.could-read-settings.settings]\nunits = \"metric\"\n");
    place.type_in(&["call", "could-read-settings"]).ends_with(0);
    assert_eq!(replay(&place, 0)[0]["finding"], "same");
}

#[test]
fn a_run_that_is_not_there_is_said_so() {
    Place::new().type_in(&["replay", "nothing"]).ends_with(2).says("there is no run nothing");
}

#[test]
fn a_plain_component_is_kept_under_the_id_that_its_file_gave_it() {
    let place = Place::new().with_tools(&[good::PLAIN_DIVIDE]);
    place.type_in(&["call", "whole-divide", r#"{"dividend": 6, "divisor": 3}"#]).ends_with(0);
    std::fs::remove_file(place.path().join("tools/plain-divide.wasm")).unwrap();
    let found = replay(&place, 0);
    assert_eq!(found[0]["finding"], "same", "{found:?}");
}
