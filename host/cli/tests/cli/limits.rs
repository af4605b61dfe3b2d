//! Tests of limits as `tollgate tools --json` shows them.

use crate::place::Place;
use tollgate_artifacts::good;

#[test]
fn t7_the_places_of_one_component_are_shown_and_can_be_set() {
    for (text, shown) in
        [("", 48), ("[limits]\nconcurrent_calls = 8\n", 6), ("[limits]\ncomponent_calls = 5\n", 5)]
    {
        let place = Place::new().with_tools(&[good::ECHO]).with_config(text);
        let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
        assert_eq!(read["limits"]["host"]["component_calls"], shown, "{text}");
        assert_eq!(read["tools"][0]["limits"]["concurrent_calls"], shown, "{text}");
    }
}

/// Limits that no configuration changes.
const FIXED: &[(&str, u64)] = &[
    ("arguments_bytes", 16 << 20),
    ("content_parts", 64),
    ("content_bytes", 3 << 20),
    ("component_tools", 64),
    ("component_state_keys", 64),
    ("children_of_call", 64),
    ("child_messages_bytes", 1 << 20),
    ("reply_bytes", 32 << 20),
    ("reply_event_bytes", 4 << 20),
    ("reply_event_parsed_bytes", 32 << 20),
    ("ticket_action_bytes", 64),
    ("ticket_message_bytes", 4 << 10),
    ("ticket_parameters_bytes", 64 << 10),
    ("prompt_values", 64),
    ("prompt_value_bytes", 4 << 10),
    ("remembered_answers", 256),
    ("reply_calls", 1_024),
    ("reruns", 16),
    ("schema_references", 64),
    ("schema_violations", 20),
    ("schema_wide_classes", 64),
    ("schema_class_escapes", 1_024),
    ("inner_components", 1_000),
    ("declaration_bytes", 4 << 20),
    ("memory_images", 32),
    ("moved_at_once", 10_000),
    ("noted_moves", 20_000),
    ("response_head_bytes", 64 << 10),
    ("lookups", 16),
    ("lookups_of_component", 8),
    ("loading_bytes", 64 << 20),
    ("lookups_of_call", 4),
    ("lookup_ms", 5_000),
    ("client_message_bytes", 4 << 20),
    ("client_requests", 2_048),
    ("client_requests_bytes", 32 << 20),
    ("client_sessions", 256),
    ("server_tools", 1_024),
    ("server_list_bytes", 4 << 20),
    ("server_list_json_nodes", 100_000),
    ("server_bytes_per_second", 64 << 20),
    ("client_progress_token_bytes", 1_024),
    ("server_unread_answers", 64),
];

#[test]
fn z8_the_limits_of_the_store_and_those_that_are_fixed_are_shown() {
    let place = Place::new().with_config("[store]\nthread_state_bytes = 1_000_000\nkeep = \"7d\"\n");
    let read = place.type_in(&["tools", "--json"]).ends_with(0).json();
    let stated = [
        ("component_record_bytes", 1 << 30),
        ("thread_record_bytes", 1 << 30),
        ("principal_record_bytes", 512 << 20),
        ("thread_state_bytes", 1_000_000),
        ("min_free_bytes", 256 << 20),
        ("keep_s", 604_800),
    ];
    for (name, value) in stated {
        assert_eq!(read["limits"]["store"][name], value, "{name}");
    }
    let host = &read["limits"]["host"];
    assert_eq!(host["client_memory_bytes"].as_u64(), host["memory_budget_bytes"].as_u64().map(|all| all / 4));
    for (name, value) in FIXED {
        assert_eq!(read["limits"]["fixed"][name], *value, "{name}");
    }
}
