//! Tests of `tollgate.toml`: mistakes end with 2 and show their location.

use crate::place::Place;
use tollgate_artifacts::good;

#[test]
fn a_mistake_shows_its_place_and_what_is_known_there() {
    let place = Place::new().with_config("[limits]\nmemry_bytes = 1\n");
    let said = place.type_in(&["tools"]).ends_with(2);
    assert_eq!(said.stdout, "");
    said.says("error: tollgate.toml:2:1: unknown key `memry_bytes`; did you mean `memory_bytes`? known: ")
        .says(" 2 | memry_bytes = 1\n     | ^^^^^^^^^^^");
}

#[test]
fn a_tool_that_does_not_exist_is_reported_with_the_nearest_name() {
    let config = "[agents.assistant]\ntools = [\"ecko\", \"unlike\", \"other__t\"]\n[mcp.other]\ncommand = \"true\"\n\
                  [permissions]\nallow = [\"ech*\", \"ehco\"]\ndeny = [\"unlike\"]\n[model]\nprovider = \"recorded\"\n\
                  file = \"turns.toml\"\n";
    let place = Place::new().with_tools(&[good::ECHO]).with_config(config);
    place.write("turns.toml", "[[turn]]\ntext = \"Done.\"\n");
    for arguments in [&["tools"] as &[&str], &["run", "Go."]] {
        let said = place.type_in(arguments).ends_with(0);
        let said = said
            .says("the agent `assistant` lists the tool `ecko`, which does not exist; did you mean `echo`?")
            .says("the agent `assistant` lists the tool `unlike`, which does not exist\n")
            .says(
                "`allow` of [permissions] names the tool `ehco`, which does not exist; did you mean `echo`?",
            );
        assert_eq!(said.stderr.matches("does not exist").count(), 3, "{said:?}");
    }
}

#[test]
fn a_misspelt_key_of_the_tools_is_suggested() {
    let place = Place::new().with_config("[tools]\ndri = \"tools\"\n");
    place
        .type_in(&["tools"])
        .ends_with(2)
        .says("tollgate.toml:2:")
        .says("unknown key `dri`; did you mean `dir`?");
}

#[test]
fn a_named_configuration_must_be_there() {
    Place::new()
        .type_in(&["--config", "other.toml", "tools"])
        .ends_with(2)
        .says("other.toml: the configuration cannot be read: ")
        .says("--config FILE");
}

#[test]
fn a_configuration_that_is_no_text_is_refused() {
    let place = Place::new();
    place.write("tollgate.toml", [0xff, 0xfe]);
    place.type_in(&["tools"]).ends_with(2).says("save it as UTF-8");
}

#[test]
fn a_tools_directory_that_is_none_is_refused() {
    let place = Place::new().with_config("[tools]\ndir = \"tollgate.toml\"\n");
    place
        .type_in(&["tools"])
        .ends_with(2)
        .says("the tools directory tollgate.toml cannot be read: ")
        .says("name another in [tools] of tollgate.toml");
}

#[test]
fn every_limit_is_read_back() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config(
        "[limits]\nfuel = 1000000000\nconcurrency = 2\ncompile_cpu_ms = 90000\nstack_bytes = 1048576\ncache_bytes = 2147483648\n[tools.echo.limits]\nmemory_bytes = 1048576\ntimeout_ms = 2500\nconcurrent_calls = 3\n",
    );
    let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
    let limits = &read["tools"][0]["limits"];
    assert_eq!(limits["fuel"], 1_000_000_000);
    assert_eq!(limits["memory_bytes"], 1_048_576);
    assert_eq!(limits["timeout_ms"], 2_500);
    assert_eq!(limits["concurrent_calls"], 3);
    let every = serde_json::to_value(tollgate_sandbox::Limits::default()).unwrap();
    for name in every.as_object().unwrap().keys() {
        assert!(limits[name].is_number(), "{name}");
    }
    assert_eq!(read["limits"]["run"]["concurrency"], 2);
    let of_the_host = [
        ("memory_budget_bytes", 6_u64 << 30),
        ("compile_cpu_ms", 90_000),
        ("compile_wall_ms", 300_000),
        ("compile_memory_bytes", 2 << 30),
        ("cache_bytes", 2 << 30),
        ("stack_bytes", 1 << 20),
        ("compiled_bytes", 64 << 20),
        ("loaded_code_bytes", 2 << 30),
    ];
    for (name, value) in of_the_host {
        assert_eq!(read["limits"]["host"][name], value, "{name}");
    }
    // Each missing feature for confining the compiler is described by a sentence.
    let gaps = &read["compiler_gaps"];
    assert!(
        gaps.is_null() || gaps.as_str().is_some_and(|gaps| gaps.contains(": this system lacks ")),
        "{gaps}"
    );
    let fixed = [
        ("answer_bytes", 256 << 10),
        ("json_depth", 128),
        ("mutations", 64),
        ("mutation_bytes", 256 << 10),
        ("mutations_bytes", 1 << 20),
        ("value_bytes", 16 << 20),
        ("values_bytes", 64 << 20),
        ("schema_bytes", 64 << 10),
        ("schema_check_base_steps", 20_000),
        ("schema_check_steps_per_part", 100),
        ("schema_check_steps", 10_000_000),
        ("schema_patterns", 64),
        ("schema_pattern_text_bytes", 16 << 10),
        ("pattern_bytes", 256 << 10),
        ("component_patterns_bytes", 16 << 20),
        ("initial_value_bytes", 64 << 10),
        ("descriptor_parsed_bytes", 8 << 20),
        ("component_bytes", 64 << 20),
        ("custom_section_bytes", 1 << 20),
        ("core_modules", 128),
        ("component_items", 100_000),
        ("component_nesting", 64),
        ("compiled_bytes_per_byte", 64),
        ("image_slack_bytes", 64 << 10),
        ("compiled_at_once", 2),
        ("describe_ms", 10_000),
        ("describe_fuel", 100_000_000),
        ("traps_that_disable", 5),
    ];
    for (name, value) in fixed {
        assert_eq!(read["limits"]["fixed"][name], value, "{name}");
    }
}

#[test]
fn words_that_nothing_answers_to_are_pointed_out() {
    let place = Place::new().with_config("[grants.ghost]\n[tools.spook.limits]\nfuel = 1\n");
    place
        .type_in(&["tools"])
        .ends_with(0)
        .says("tollgate.toml has [grants.ghost], and no component of that id is served")
        .says("tollgate.toml has [tools.spook.limits], and no tool of that name is served");
}

#[test]
fn a_grant_that_cannot_be_given_keeps_the_tool_out() {
    let grants = |host: &str| format!("[grants.echo]\nfiles = [{{ host = \"{host}\", guest = \"/d\" }}]\n");
    for (host, reason) in [
        ("nowhere", "correct `files` in [grants.echo]"),
        (".", "holds the tools directory"),
        ("cache", "holds the cache of compiled tools"),
        ("data/processes", "holds the data directory"),
    ] {
        let place = Place::new().with_tools(&[good::ECHO]);
        // Both exist after the first call.
        place.type_in(&["call", "echo", "{}"]).ends_with(0);
        let place = place.with_config(&grants(host));
        let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
        assert_eq!(read["tools"].as_array().unwrap().len(), 0);
        let said = read["refused"][0]["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{said}");
    }
}
