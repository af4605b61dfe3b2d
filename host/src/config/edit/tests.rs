#![allow(clippy::unwrap_used)]
use super::super::grants::GrantKind;
use super::*;
use tollgate_sandbox::FileAccess;

fn edited(text: &str, edit: impl FnOnce(&mut Edit)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tollgate.toml");
    std::fs::write(&path, text).unwrap();
    let mut opened = Edit::open(&path).unwrap();
    edit(&mut opened);
    opened.save().unwrap();
    std::fs::read_to_string(path).unwrap()
}

fn http(pattern: &str) -> [Grant; 1] {
    [Grant::named(GrantKind::Http, pattern)]
}

#[test]
fn comments_and_order_are_kept() {
    let text = "# ours\n[tools]\ndir = \"t\" # there\n\n[grants.fetch] # the web\nhttp = [\n  # search\n  \"https://a.test/\",\n]\n\n[limits]\nfuel = 7\n";
    let after = edited(text, |edit| edit.grant("fetch", &http("https://b.test/")));
    assert_eq!(
        after,
        text.replace("\"https://a.test/\",\n", "\"https://a.test/\",\n  \"https://b.test/\",\n")
    );
    assert_eq!(edited(&after, |edit| edit.grant("fetch", &http("https://b.test/"))), after, "twice is once");
    assert_eq!(
        edited(&after, |edit| assert!(edit.revoke("fetch", &http("https://b.test/")).is_empty())),
        text
    );
}

#[test]
fn what_is_missing_is_made() {
    let grants = [
        Grant::named(GrantKind::Http, "https://a.test/"),
        Grant::files(Path::new("docs"), "/docs", FileAccess::Read, None),
        Grant::setting("units", "metric"),
        Grant::named(GrantKind::StateRead, "notes.items"),
    ];
    assert_eq!(
        edited("", |edit| edit.grant("fetch", &grants)),
        "[grants.fetch]\nhttp = [\"https://a.test/\"]\n\
         files = [{ host = \"docs\", guest = \"/docs\", access = \"read\" }]\n\
         settings = { units = \"metric\" }\nstate = { read = [\"notes.items\"] }\n"
    );
}

#[test]
fn a_directory_of_the_same_name_is_changed_where_it_stands() {
    for text in [
        "[grants.it]\nfiles = [{ host = \"a\", guest = \"/x\", quota_bytes = 7 }, { host = \"b\", guest = \"/y\" }]\n",
        "[grants.it]\nfiles = [\n  # the first\n  { host = \"a\", guest = \"/x\", quota_bytes = 7 }, # X\n  { host = \"b\", guest = \"/y\" }, # Y\n]\n",
        "# the first\n[[grants.it.files]] # X\nhost = \"a\" # where\nguest = \"/x\"\nquota_bytes = 7\n\n# Y\n[[grants.it.files]]\nhost = \"b\"\nguest = \"/y\"\n",
    ] {
        let grant = |quota| [Grant::files(Path::new("c"), "/x", FileAccess::ReadWrite, quota)];
        let after = edited(text, |edit| edit.grant("it", &grant(None)));
        assert_has_letters_of(&after, &text.replace("host = \"a\"", ""));
        let config = Config::parse(Path::new("tollgate.toml"), &after).unwrap();
        let granted = config.grants_of("it");
        let files: Vec<_> = granted.files().collect();
        let hosts: Vec<_> = files.iter().map(|file| file.host.as_path()).collect();
        assert_eq!(hosts, [Path::new("c"), Path::new("b")]);
        assert_eq!((files[0].access, files[0].quota_bytes), (FileAccess::ReadWrite, Some(7)), "{after}");
        let raised = edited(&after, |edit| edit.grant("it", &grant(Some(9))));
        let config = Config::parse(Path::new("tollgate.toml"), &raised).unwrap();
        assert_eq!(config.grants_of("it").files().next().unwrap().quota_bytes, Some(9), "{raised}");
        let none = edited(&after, |edit| assert!(edit.revoke("it", &grant(None)).is_empty()));
        assert!(!none.contains("/x") && none.contains("/y"));
        assert_eq!(none.contains("the first"), text.contains("the first"), "{none}");
        assert_eq!(none.contains("# Y"), text.contains("# Y"), "{none}");
    }
}

#[test]
fn the_keys_of_an_agent_are_written() {
    let granted = |text: &str| Config::parse(Path::new("tollgate.toml"), text).unwrap().grants_of("it");
    let agent = "[agents.other]\n\n[grants.it]\ndelegates = [{ agent = \"other\"";
    let text = format!("{agent}, seed = [\"it.brief\"], export = [\"it.result\", \"it.sources\"] }}]\n");
    for before in [
        "[agents.other]\n".to_owned(),
        format!("{agent} }}]\n"),
        format!("{agent}, seed = [\"it.old\"], export = [\"it.sources\"] }}]\n"),
    ] {
        assert_eq!(edited(&before, |edit| edit.grant("it", granted(&text).each())), text, "{before}");
    }
    let named = [Grant::named(GrantKind::Delegates, "other")];
    assert_eq!(edited(&text, |edit| edit.grant("it", &named)), text, "keys that are not given stay");
}

/// Asserts that all non-blank characters are still there, in order.
fn assert_has_letters_of(after: &str, before: &str) {
    let mut letters = after.chars();
    for letter in before.chars().filter(|letter| !letter.is_whitespace()) {
        assert!(letters.any(|there| there == letter), "of\n{before}\nsomething is lost in\n{after}");
    }
}

/// Grants and revokes a request; returns the text after each step.
fn there_and_back(text: &str) -> (String, String) {
    let powers = http("https://new.test/");
    let granted = edited(text, |edit| edit.grant("it", &powers));
    let revoked = edited(&granted, |edit| assert!(edit.revoke("it", &powers).is_empty()));
    (granted, revoked)
}

#[test]
fn a_new_value_stands_behind_the_last_ones_comment() {
    for (list, granted) in [
        // Comments above, after and between values, with a trailing comma.
        (
            "[ # list\n  # a\n  \"https://a.test/\", # A\n  # b\n  \"https://b.test/\", # B\n  # end\n]",
            "[ # list\n  # a\n  \"https://a.test/\", # A\n  # b\n  \"https://b.test/\", # B\n  \"https://new.test/\",\n  # end\n]",
        ),
        // Without a trailing comma.
        (
            "[\n  \"https://a.test/\", # A\n  \"https://b.test/\" # B\n]",
            "[\n  \"https://a.test/\", # A\n  \"https://b.test/\", # B\n  \"https://new.test/\"\n]",
        ),
        ("[\"https://a.test/\" # A\n]", "[\"https://a.test/\", # A\n  \"https://new.test/\"\n]"),
        ("[ # none yet\n]", "[ # none yet\n  \"https://new.test/\"\n]"),
        ("[\"https://a.test/\"]", "[\"https://a.test/\", \"https://new.test/\"]"),
        ("[ \"https://a.test/\", ]", "[ \"https://a.test/\", \"https://new.test/\", ]"),
        ("[]", "[\"https://new.test/\"]"),
    ] {
        let text = |list: &str| format!("# ours\n[grants.it] # it\nhttp = {list} # after\n# last\n");
        let (after, back) = there_and_back(&text(list));
        assert_eq!(after, text(granted));
        assert_has_letters_of(&back, &text(list));
    }
}

#[test]
fn a_value_goes_with_its_line_and_no_other_comment() {
    let text = "[grants.it]\nhttp = [\n  \"https://a.test/\", # A, with words\n  # b\n  \"https://b.test/\", # B\n  \"https://c.test/\"  # C\n]\n";
    for (gone, without) in [
        ("a", "  \"https://a.test/\", # A, with words\n"),
        ("b", "  \"https://b.test/\", # B\n"),
        // The list ends without a comma, as before.
        ("c", ", # B\n  \"https://c.test/\"  # C\n"),
    ] {
        let powers = http(&format!("https://{gone}.test/"));
        let after = edited(text, |edit| assert!(edit.revoke("it", &powers).is_empty()));
        let kept = if gone == "c" { " # B\n" } else { "" };
        assert_eq!(after, text.replace(without, kept));
    }
    let text =
        "[grants.it]\nhttp = [\"https://a.test/\", \"https://b.test/\", # both\n  \"https://c.test/\" ]\n";
    for (gone, after) in [
        ("a", "[\"https://b.test/\", # both\n  \"https://c.test/\" ]"),
        ("b", "[\"https://a.test/\", # both\n  \"https://c.test/\" ]"),
        ("c", "[\"https://a.test/\", \"https://b.test/\" # both\n  ]"),
    ] {
        let powers = http(&format!("https://{gone}.test/"));
        let shown = edited(text, |edit| assert!(edit.revoke("it", &powers).is_empty()));
        assert_eq!(shown, format!("[grants.it]\nhttp = {after}\n"));
    }
}

#[test]
fn a_setting_is_changed_and_removed_with_the_comments_around_it_kept() {
    let units = |value: &str| [Grant::setting("units", value)];
    for text in [
        "[grants.it.settings] # settings\n# above\nunits = \"metric\" # behind\n# below\nother = \"x\"\n",
        "[grants.it.settings]\nother = \"x\" # other\n# above\nunits = \"metric\" # behind\n\n# limits\n[limits]\n",
        "[grants.it]\nsettings = { other = \"x\", units = \"metric\" } # behind\n",
        "[grants.it]\nsettings.other = \"x\" # other\nsettings.units = \"metric\" # behind\n",
        "grants = { it.settings.units = \"metric\", it.settings.other = \"x\" } # behind\n",
    ] {
        let changed = edited(text, |edit| edit.grant("it", &units("imperial")));
        assert_eq!(changed, text.replace("metric", "imperial"));
        let gone = edited(text, |edit| assert!(edit.revoke("it", &units("")).is_empty()));
        assert!(!gone.contains("units") && gone.contains("other = \"x\""), "{gone}");
        for comment in ["# settings", "# above", "# below", "# other", "# limits"] {
            assert_eq!(gone.contains(comment), text.contains(comment), "{comment} in\n{gone}");
        }
    }
}

#[test]
fn all_is_taken_wherever_it_stands() {
    for (text, after) in [
        (
            "[limits]\nfuel = 7\n# memory_bytes = 9\n\n# it\n[grants.it] # the web\nhttp = []\n# not yet\n\n[grants.it.settings]\nx = \"1\"\n\n[tools]\n",
            "[limits]\nfuel = 7\n# memory_bytes = 9\n\n# it\n# not yet\n\n[tools]\n",
        ),
        (
            "grants.it.http = []\ngrants.other.http = []\ngrants.it.settings.x = \"1\"\n",
            "grants.other.http = []\n",
        ),
        ("[grants]\nit = { http = [] } # it\nother = {}\n", "[grants]\nother = {}\n"),
        ("[[grants.it.files]]\nhost = \"a\"\nguest = \"/a\"\n\n[tools]\n", "[tools]\n"),
    ] {
        assert_eq!(edited(text, |edit| assert!(edit.revoke_all("it"))), after);
    }
}

#[test]
fn a_grant_finds_its_place_however_the_file_is_written() {
    for (text, after) in [
        ("# last", "# last\n\n[grants.it]\nhttp = [\"https://new.test/\"]\n"),
        (
            "grants.other.http = [] # o\n",
            "grants.other.http = [] # o\ngrants.it.http = [\"https://new.test/\"]\n",
        ),
        (
            "grants.it.settings.x = \"1\"",
            "grants.it.settings.x = \"1\"\ngrants.it.http = [\"https://new.test/\"]\n",
        ),
        ("grants = {}\n", "grants = { it = { http = [\"https://new.test/\"] } }\n"),
        (
            "grants = { it.actions = [] }\n",
            "grants = { it.actions = [], it.http = [\"https://new.test/\"] }\n",
        ),
        (
            "[grants]\nit = { actions = [] }\n",
            "[grants]\nit = { actions = [], http = [\"https://new.test/\"] }\n",
        ),
        (
            "[grants.it.settings]\nx = \"1\"\n",
            "[grants.it.settings]\nx = \"1\"\n\n[grants.it]\nhttp = [\"https://new.test/\"]\n",
        ),
        (
            "[grants.it]\nactions = [] # a\n# more\n\n[limits] # l\n",
            "[grants.it]\nactions = [] # a\nhttp = [\"https://new.test/\"]\n# more\n\n[limits] # l\n",
        ),
        (
            "[grants.it] # it\r\n[limits]\r\n",
            "[grants.it] # it\r\nhttp = [\"https://new.test/\"]\r\n[limits]\r\n",
        ),
        ("\u{feff}[grants.it]\nhttp = []\n", "\u{feff}[grants.it]\nhttp = [\"https://new.test/\"]\n"),
    ] {
        let (granted, back) = there_and_back(text);
        assert_eq!(granted, after);
        assert_has_letters_of(&back, text);
    }
}

#[test]
fn what_cannot_be_meant_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tollgate.toml");
    std::fs::write(&path, "# ours\n").unwrap();
    let mut edit = Edit::open(&path).unwrap();
    edit.grant("fetch", &http("example.com"));
    assert!(edit.save().unwrap_err().to_string().contains("has no scheme"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# ours\n");
}

#[test]
fn what_was_not_there_is_said() {
    let text = "[grants.it]\nhttp = [\"https://a.test/\"]\n";
    edited(text, |edit| {
        assert_eq!(edit.revoke("it", &http("https://b.test/")), ["https://b.test/"]);
        assert!(!edit.revoke_all("other"));
        assert!(edit.revoke_all("it"));
    });
}

#[test]
fn z24_what_others_wrote_meanwhile_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tollgate.toml");
    std::fs::write(&path, "[grants.fetch]\nenvironment = [\"LANG\"]\n").unwrap();
    let mut edits = [Edit::open(&path).unwrap(), Edit::open(&path).unwrap(), Edit::open(&path).unwrap()];
    edits[0].grant("fetch", &http("https://a.test/"));
    edits[1].grant("fetch", &http("https://b.test/"));
    assert!(edits[2].revoke_all("fetch"));
    edits[2].grant("fetch", &http("https://c.test/"));
    let [first, second, third] = edits;
    first.save().unwrap();
    second.save().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(["LANG", "a.test", "b.test"].iter().all(|word| text.contains(word)), "{text}");
    third.save().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[grants.fetch]\nhttp = [\"https://c.test/\"]\n");
}
