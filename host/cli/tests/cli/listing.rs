//! Lists: short ids, `last`, statuses with their codes, tables on narrow terminals, one tool in full.

use crate::person::type_on_a_terminal;
use crate::place::Place;
use serde_json::Value;
use tollgate_artifacts::good;

fn place() -> Place {
    Place::new().with_tools(&[good::ECHO, good::ADDER])
}

fn runs(place: &Place) -> Vec<Value> {
    place.type_in(&["runs", "--json"]).ends_with(0).json().as_array().unwrap().clone()
}

#[test]
fn a_run_is_named_by_its_short_id_its_beginning_and_last() {
    let place = place();
    for text in ["one", "two"] {
        place.type_in(&["call", "echo", &format!("{{\"text\": \"{text}\"}}")]).ends_with(0);
    }
    let listed = runs(&place);
    let long = listed[0]["run_id"].as_str().unwrap();
    let short = listed[0]["short_id"].as_str().unwrap();
    assert!(short.len() == 8 && long.ends_with(short), "{listed:?}");
    for named in [long, &long[..30], short, "last"] {
        place.type_in(&["show", named]).ends_with(0).answers(long).answers("two");
        place.type_in(&["replay", named]).ends_with(0).answers("1 the same");
        place.type_in(&["resume", named]).ends_with(0).says("has ended: completed");
    }
    let audited = place.type_in(&["audit", "--run", short, "--json"]).ends_with(0).json();
    assert!(
        audited.as_array().unwrap().iter().all(|record| record["run_id"] == long) && audited[0].is_object()
    );
    // All ids of one moment begin alike, so that the beginning of a long one names several.
    place.type_in(&["show", &long[..2]]).ends_with(2).says("several runs match").says(short).says("echo");
    place.type_in(&["show", "zzzz"]).ends_with(2).says("there is no run zzzz");
    Place::new().type_in(&["show", "last"]).ends_with(2).says("there is no run yet");
}

#[test]
fn the_newest_thread_is_named_last() {
    let place = place();
    place.type_in(&["call", "echo", "{}", "--thread", "mine"]).ends_with(0);
    place.type_in(&["call", "echo", "{}", "--thread", "last"]).ends_with(0);
    assert!(runs(&place).iter().all(|run| run["thread_id"] == "mine"));
    assert_eq!(place.type_in(&["runs", "--thread", "last", "--json"]).json().as_array().unwrap().len(), 2);
}

#[test]
fn a_thread_with_a_generated_id_is_named_by_its_beginning() {
    let place = place();
    let call = |thread: &[&str]| place.type_in(&[&["call", "echo", "{}"], thread].concat());
    call(&[]).ends_with(0);
    let whole = runs(&place)[0]["thread_id"].as_str().unwrap().to_owned();
    call(&["--thread", &whole[..20]]).ends_with(0);
    assert!(runs(&place).iter().all(|run| run["thread_id"] == *whole));
    let listed = place.type_in(&["runs", "--thread", &whole[..9], "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    place.type_in(&["state", "export", &whole[..20]]).ends_with(0).answers(&whole);
    // Its first characters are the time, which another thread may share.
    let sibling = format!("{}{}", &whole[..35], if whole.ends_with('0') { '1' } else { '0' });
    call(&["--thread", &sibling]).ends_with(0);
    call(&["--thread", &whole[..20]]).ends_with(2).says("several threads match").says(&sibling);
    call(&["--thread", &whole]).ends_with(0);
    // Anything else names a thread of a person's own, even if it begins another name.
    for own in ["beginnings", "begin", "20261125-retro", "20261125"] {
        call(&["--thread", own]).ends_with(0);
        assert_eq!(runs(&place)[0]["thread_id"], own);
    }
}

#[test]
fn l12_a_direct_call_that_failed_is_listed_with_its_code() {
    let place = place();
    place.type_in(&["call", "nowhere", "{}"]).ends_with(1);
    place.type_in(&["call", "echo", "{}"]).ends_with(0);
    let listed = runs(&place);
    assert_eq!(
        (&listed[1]["status"], &listed[1]["code"]),
        (&"failed".into(), &"not_found".into()),
        "{listed:?}"
    );
    assert_eq!((&listed[0]["status"], &listed[0]["code"]), (&"completed".into(), &Value::Null));
    place.type_in(&["runs"]).ends_with(0).answers("failed (not_found)");
    place.type_in(&["show", listed[1]["run_id"].as_str().unwrap()]).answers("failed (not_found)");
    let failed = place.type_in(&["runs", "--status", "failed", "--json"]).ends_with(0).json();
    assert_eq!(failed.as_array().unwrap().len(), 1);
}

#[test]
fn a_table_on_a_narrow_terminal_breaks_no_id_and_drops_columns() {
    let place = place();
    place
        .type_in(&["call", "echo", "{}", "--thread", "a-thread-with-a-long-name-that-takes-much-space"])
        .ends_with(0);
    let short = runs(&place)[0]["short_id"].as_str().unwrap().to_owned();
    for (verb, whole, dropped) in [("runs", short.as_str(), "THREAD"), ("tools", "echo", "DIGEST")] {
        let screen = type_on_a_terminal(&place, &[verb], "").ends_with(0).shows(whole);
        let rows = screen.text.lines().filter(|line| line.contains(whole)).count();
        assert!(rows >= 1 && !screen.text.contains(dropped), "{}", screen.text);
        let widest = screen.text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80 || verb == "tools", "{}", screen.text);
    }
    // A pipe gets everything.
    place.type_in(&["runs"]).answers("THREAD").answers("a-thread-with-a-long-name-that-takes-much-space");
}

#[test]
fn one_tool_is_shown_in_full_and_a_wrong_name_gets_the_nearest() {
    let place = place().with_config("[grants.echo]\nhttp = [\"* https://*\"]\n");
    place.type_in(&["tools"]).ends_with(0).answers("DOES");
    let said = place.type_in(&["tools", "echo"]).ends_with(0);
    for words in ["arguments", "source", "any request to any host", "limits", "health", "in use", "sha256:"] {
        assert!(said.stdout.contains(words), "{words:?} is not in {}", said.stdout);
    }
    let one = place.type_in(&["tools", "echo", "--json"]).ends_with(0).json();
    assert_eq!(one["name"], "echo");
    place.type_in(&["tools", "ecko"]).ends_with(2).says("there is no tool ecko; did you mean `echo`?");
    place.type_in(&["grants", "ecko"]).ends_with(2).says("did you mean `echo`?");
    place.write("tools/broken-one.wasm", b"not wasm");
    for name in ["broken-one", "broken_one", "broken-one.wasm"] {
        place.type_in(&["tools", name]).ends_with(2).says("broken-one.wasm is refused: ");
    }
}

#[test]
fn a_message_for_people_does_not_address_a_model() {
    let place = place();
    let said = place
        .type_in(&["call", "nothing-like-it", "{}"])
        .ends_with(1)
        .says("There is no tool 'nothing-like-it'.");
    assert!(!said.stderr.contains("Call only"), "{said:?}");
    place.type_in(&["call", "ecko", "{}"]).ends_with(1).says("Did you mean 'echo'?");
}

#[test]
fn quiet_leaves_the_answer_and_what_is_wrong() {
    let place = place();
    let said = place.type_in(&["call", "echo", "{\"a\": 1}", "--quiet"]).ends_with(0);
    assert_eq!((said.stderr.as_str(), said.stdout.contains("\"a\": 1")), ("", true));
    place.type_in(&["call", "nowhere", "-q"]).ends_with(1).says("not_found");
}

#[test]
fn a_variable_names_the_configuration() {
    let place = place().with_config("[grants.echo]\nenvironment = [\"LANG\"]\n");
    place.write("other.toml", "[tools]\ndir = \"elsewhere\"\n");
    let mut command = place.program(&["tools", "--json"]);
    command.env("TOLLGATE_CONFIG", place.path().join("other.toml"));
    let output = command.output().unwrap();
    let tools: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(tools["tools"], Value::Array(Vec::new()));
}
