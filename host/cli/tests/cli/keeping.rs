//! Tests of the data directory: its contents, its protection, and the errors if it cannot be used.

use crate::place::{Place, Said};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tollgate_artifacts::{good, hostile};

/// The id of a user who owns nothing.
const NOBODY: u32 = 65_534;

fn run(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let said = Said {
        code: output.status.code().expect("the program ends by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    said
}

/// Calls the adder, whose number lives as long as its thread.
fn add(place: &Place) -> Said {
    place.type_in(&["call", "adder", "--thread", "t"])
}

#[test]
fn s6_state_outlives_the_process_and_goes_out_and_in() {
    let place = Place::new().with_tools(&[good::ADDER]);
    for number in ["0", "1", "2"] {
        assert_eq!(add(&place).ends_with(0).stdout.trim(), number);
    }
    place.type_in(&["state", "import", "--help"]).ends_with(0).answers("copy-of-notes < notes.json");
    let exported = place.type_in(&["state", "export", "t"]).ends_with(0);
    assert_eq!(
        exported.json(),
        json!({"thread": "t", "revision": 3, "state": {"adder.total": 3}, "set_aside": {}})
    );
    let import = |text: &str, more: &[&str]| {
        let arguments = [&["state", "import", "copy"], more].concat();
        Said::of(&place.tollgate(&arguments).write_stdin(text).assert())
    };
    import(&exported.stdout, &[]).ends_with(0).says("1 key set");
    assert_eq!(place.type_in(&["call", "adder", "--thread", "copy"]).ends_with(0).stdout.trim(), "3");

    let unknown = r#"{"state": {"adder.total": 9, "gone.items": [1]}}"#;
    import(unknown, &[]).ends_with(2).says("gone.items: no loaded component defines it");
    import(r#"{"state": {"adder.total": "many"}}"#, &[])
        .ends_with(2)
        .says("adder.total")
        .says("nothing was imported");
    assert_eq!(
        place.type_in(&["state", "export", "copy"]).json()["state"]["adder.total"],
        4,
        "s8: all or nothing"
    );
    import(unknown, &["--keep-unknown"]).ends_with(0);
    assert_eq!(place.type_in(&["state", "export", "copy"]).json()["state"]["gone.items"], json!([1]));
}

#[test]
fn s7_a_value_that_no_longer_fits_is_set_aside_and_reported() {
    let place = Place::new().with_tools(&[good::ADDER]);
    let text = r#"{"state": {"adder.total": {"old": "shape"}}}"#;
    std::fs::rename(place.path().join("tools/adder.wasm"), place.path().join("adder")).unwrap();
    let arguments = ["state", "import", "t", "--keep-unknown"];
    Said::of(&place.tollgate(&arguments).write_stdin(text).assert()).ends_with(0);
    std::fs::rename(place.path().join("adder"), place.path().join("tools/adder.wasm")).unwrap();
    place.type_in(&["state", "export", "t"]).ends_with(0).says("adder.total no longer fits its key");
    let said = add(&place).ends_with(0);
    assert_eq!(said.stdout.trim(), "0");
    let said = said.says("adder.total in thread t no longer fits").stdout;
    assert_eq!(add(&place).ends_with(0).stdout.trim(), "1", "{said}");
    let exported = place.type_in(&["state", "export", "t"]).ends_with(0);
    assert_eq!(exported.json()["set_aside"], json!({"adder.total@1": {"old": "shape"}}));
    assert_eq!(exported.stderr, "", "it is said once");
    let back = place.tollgate(&["state", "import", "copy"]).write_stdin(exported.stdout).assert();
    Said::of(&back).ends_with(0);
    let copy = place.type_in(&["state", "export", "copy"]).json();
    assert_eq!(
        (&copy["set_aside"]["adder.total@1"]["old"], &copy["state"]["adder.total"]),
        (&json!("shape"), &json!(2))
    );
}

#[test]
fn no_grant_reaches_the_data_directory() {
    for (data, granted) in
        [("data", "."), ("data", "data"), ("data/deep", "data"), ("data", "data/processes")]
    {
        let grants = format!(
            "[tools]\ndir = \"../tools\"\n[grants.adder]\nfiles = [{{ host = \"../{granted}\", guest = \"/d\" }}]\n"
        );
        let place = Place::new().with_tools(&[good::ADDER]);
        std::fs::create_dir_all(place.path().join("data/processes")).unwrap();
        let config = place.write("config/tollgate.toml", grants);
        let mut command =
            place.tollgate(&["tools", "--json", "--config", config.to_str().unwrap(), "--data", data]);
        let read = Said::of(&command.assert()).ends_with(0).json();
        let reason = read["refused"][0]["reason"]
            .as_str()
            .unwrap_or_else(|| panic!("{granted} was granted"))
            .to_owned();
        let expected = if granted == "." {
            "which no tool may see"
        } else {
            "the data directory, which no tool may see"
        };
        assert!(
            reason.contains(expected) && reason.contains("correct `files` in [grants.adder]"),
            "{reason}"
        );
    }
}

/// A limit on the size of files stands for a full disk. Its signal does not end the program.
#[test]
fn a_disk_that_takes_no_more_is_told_and_nothing_is_lost() {
    let place = Place::new().with_tools(&[good::ADDER]);
    add(&place).ends_with(0);
    let limited = |blocks: u32| {
        let mut command = Command::new("bash");
        let script = format!("ulimit -f {blocks}; exec \"$0\" call adder --thread t");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_tollgate")]);
        command.current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
        run(command)
    };
    let refused = limited(1).ends_with(1);
    assert!(refused.stdout.is_empty(), "nothing is answered that is not kept: {refused:?}");
    refused.says("tollgate.db").says("the disk refused the write");
    for verb in ["runs --json", "audit", "store verify"] {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit -f 0; exec \"$0\" {verb}"), env!("CARGO_BIN_EXE_tollgate")]);
        command.current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
        run(command).ends_with(0);
    }
    assert_eq!(add(&place).ends_with(0).stdout.trim(), "1", "the first was kept, the second was not");
}

#[test]
fn a_directory_that_may_not_be_written_is_told() {
    let place = Place::new().with_tools(&[good::ADDER]);
    add(&place).ends_with(0);
    let program = a_copy_for_everybody(place.path());
    let set = |mode: u32, file_mode: u32| {
        for path in [place.path().to_owned(), place.path().join("data"), place.path().join("data/processes")]
        {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        for file in std::fs::read_dir(place.path().join("data")).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                std::fs::set_permissions(file, PermissionsExt::from_mode(file_mode)).unwrap();
            }
        }
    };
    set(0o555, 0o444);
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(place.path());
        command.env("TOLLGATE_DATA", place.path().join("data"));
        // Permissions do not restrict root.
        if std::fs::metadata(place.path()).unwrap().uid_is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        run(command)
    };
    let said = as_nobody(&["call", "adder", "--thread", "t"]);
    // Reading requires no other access.
    let listed = as_nobody(&["runs", "--json"]).ends_with(0).json();
    let id = listed[0]["run_id"].as_str().unwrap().to_owned();
    as_nobody(&["show", &id]).ends_with(0);
    as_nobody(&["audit"]).ends_with(0);
    as_nobody(&["store", "verify"]).ends_with(0);
    as_nobody(&["replay", &id]).ends_with(0);
    set(0o755, 0o644);
    let said = said.ends_with(1).says("data").says("--data");
    assert!(said.stderr.contains("check"), "{}", said.stderr);
    assert_eq!(add(&place).ends_with(0).stdout.trim(), "1");
}

trait Owned {
    fn uid_is_root(&self) -> bool;
}

impl Owned for std::fs::Metadata {
    fn uid_is_root(&self) -> bool {
        std::os::unix::fs::MetadataExt::uid(self) == 0
    }
}

/// Copies the program to a place where another user can run it.
fn a_copy_for_everybody(directory: &Path) -> std::path::PathBuf {
    let copy = directory.join("tollgate");
    let program = env!("CARGO_BIN_EXE_tollgate");
    if std::fs::hard_link(program, &copy).is_err() {
        std::fs::copy(program, &copy).unwrap();
    }
    copy
}

#[test]
fn what_is_no_store_of_this_program_is_refused_in_words() {
    let place = Place::new();
    place.write("data/tollgate.db", "no database, but long enough to be looked at. ".repeat(100));
    place
        .type_in(&["runs"])
        .ends_with(1)
        .says("it is not an SQLite file; name another directory with --data");
    place.write("file", "");
    place.type_in(&["runs", "--data", "file"]).ends_with(1).says("file").says("--data");
}

fn database(place: &Place) -> rusqlite::Connection {
    rusqlite::Connection::open(place.path().join("data/tollgate.db")).unwrap()
}

#[test]
fn z8_old_runs_are_removed_and_their_state_is_kept() {
    let place = Place::new().with_tools(&[good::ADDER]);
    for _ in 0..3 {
        add(&place).ends_with(0);
    }
    place.type_in(&["prune"]).ends_with(2).says("--older-than 30d");
    place.type_in(&["prune", "--older-than", "1d", "--dry-run"]).ends_with(0).answers("would remove 0 runs");
    database(&place).execute_batch("UPDATE runs SET updated_at_ms = 1; UPDATE audit SET at_ms = 1").unwrap();
    let counted = place.type_in(&["prune", "--older-than", "1d", "--dry-run", "--json"]).ends_with(0).json();
    assert_eq!((&counted["runs"], &counted["dry_run"]), (&json!(3), &json!(true)));
    place.write("tollgate.toml", "[store]\nkeep = \"1d\"\n");
    place.type_in(&["prune"]).ends_with(0).answers("removed 3 runs");
    assert_eq!(place.type_in(&["runs", "--json"]).ends_with(0).json(), json!([]));
    assert_eq!(add(&place).ends_with(0).stdout.trim(), "3", "the state stays");
}

#[test]
fn z8_a_call_without_room_for_its_record_is_refused_before_it_runs() {
    let place = Place::new().with_tools(&[good::ADDER]);
    add(&place).ends_with(0);
    place.write("tollgate.toml", "[store]\nmin_free_bytes = 9000000000000000000\n");
    let refused = place.type_in(&["call", "adder", "--thread", "t", "--json"]).ends_with(1).json();
    assert_eq!(refused["error"]["code"], "overloaded", "{refused}");
    assert!(refused.to_string().contains("min_free_bytes"), "{refused}");
    let refused = place.type_in(&["call", "adder", "--thread", "t"]).ends_with(1);
    refused
        .says("min_free_bytes")
        .says("change the limit in [store]")
        .says("tollgate prune --older-than 30d");
    place.write("tollgate.toml", "");
    assert_eq!(add(&place).ends_with(0).stdout.trim(), "1", "it did not run");
}

#[test]
fn s9_a_damaged_record_is_found_and_said() {
    let place = Place::new().with_tools(&[good::ADDER]);
    add(&place).ends_with(0);
    place.type_in(&["store", "verify"]).ends_with(0).answers("0 damaged");
    let id = place.type_in(&["runs", "--json"]).json()[0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(database(&place).execute("DELETE FROM events WHERE number = 2", []).unwrap(), 1);
    place.type_in(&["store", "verify"]).ends_with(1).answers("is damaged: event 2: it is missing");
    place.type_in(&["show", &id]).ends_with(1).says("event 2: it is missing");
    place.type_in(&["replay", &id]).ends_with(1).says("is damaged");
}

/// Returns how many calls of a guest succeed before one is refused, and the refusal. `thread` names
/// the thread of each call.
fn calls_until_refused(place: &Place, tool: &str, thread: impl Fn(usize) -> String) -> (usize, Value) {
    for done in 0..40 {
        let said = place.type_in(&["call", tool, "--thread", &thread(done), "--json"]);
        if said.code != 0 {
            return (done, said.json());
        }
    }
    panic!("nothing bounds what {tool} has recorded")
}

#[test]
fn z8_a_guest_that_appends_without_end_meets_the_quota_of_its_state_and_then_of_its_records() {
    let place = Place::new()
        .with_tools(&[hostile::FILL_THE_RECORD, good::ADDER])
        .with_config("[store]\nthread_state_bytes = 3_000_000\ncomponent_record_bytes = 8_000_000\n");
    let tool = "fill-the-record";
    let (calls, refused) = calls_until_refused(&place, tool, |_| "t".to_owned());
    assert_eq!((calls, &refused["error"]["code"]), (3, &json!("bad_mutation")), "{refused}");
    assert!(refused.to_string().contains("thread_state_bytes"), "{refused}");
    add(&place).ends_with(0);

    let (calls, refused) = calls_until_refused(&place, tool, |call| format!("t{call}"));
    assert_eq!(refused["error"]["code"], "overloaded", "{refused}");
    assert!((2..=8).contains(&calls), "{calls} calls");
    assert!(refused.to_string().contains("component_record_bytes = 8000000"), "{refused}");
    add(&place).ends_with(0);
    let turns = "[[turn]]\ncalls = [{ name = \"fill-the-record\", arguments = {} }]\n[[turn]]\ntext = \"It is full.\"\n";
    place.write("turns.toml", turns);
    let told = place.type_in(&["run", "--model", "recorded/turns.toml", "Fill it."]).ends_with(0);
    told.answers("It is full.").says("tollgate prune --older-than 30d");
}

#[test]
fn z8_a_guest_that_replaces_a_large_value_without_end_meets_the_quota_of_its_records() {
    let place = Place::new()
        .with_tools(&[hostile::REWRITE_THE_RECORD, good::ADDER])
        .with_config("[store]\nthread_state_bytes = 3_000_000\ncomponent_record_bytes = 4_000_000\n");
    let (calls, refused) = calls_until_refused(&place, "rewrite-the-record", |_| "t".to_owned());
    assert_eq!(refused["error"]["code"], "overloaded", "{refused}");
    assert!((2..=20).contains(&calls), "{calls} calls");
    assert!(refused.to_string().contains("component_record_bytes = 4000000"), "{refused}");
    add(&place).ends_with(0);
}
