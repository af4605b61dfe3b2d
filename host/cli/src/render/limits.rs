//! The limits of calls, for `tollgate tools --json`: those of the configuration, and the fixed ones
//! that hold for all tools.

use serde_json::{Map, Value, json};
use std::time::Duration;
use tollgate::CLIENT_MEMORY_PART;
use tollgate::config::Config;
use tollgate::models;
use tollgate_agent::content::{MAX_CONTENT_BYTES, MAX_PARTS};
use tollgate_agent::descriptor::{MAX_PARSED_BYTES, MAX_STATE_KEYS, MAX_TOOLS};
use tollgate_agent::gate::permissions::MAX_REMEMBERED;
use tollgate_agent::health::TRAPS_THAT_DISABLE;
use tollgate_agent::prompt::{MAX_FILLED, MAX_FILLED_BYTES};
use tollgate_agent::proposal::MAX_ARGUMENTS_BYTES;
use tollgate_agent::question::{MAX_ACTION_BYTES, MAX_MESSAGE_BYTES, MAX_PARAMETERS_BYTES};
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::run::spec::MAX_RERUNS;
use tollgate_agent::state::change::{
    MAX_MUTATION_BYTES, MAX_MUTATIONS, MAX_MUTATIONS_BYTES, MAX_VALUE_BYTES, MAX_VALUES_BYTES,
};
use tollgate_agent::state::key::MAX_INITIAL_BYTES;
use tollgate_agent::{child, json as agent_json, schema};
use tollgate_sandbox as sandbox;

/// Returns the limits of a run, of the host and its store, and the fixed ones, each with its unit in
/// its name. A tool's own limits are listed with the tool.
pub(crate) fn as_json(config: &Config) -> Value {
    let Config { limits, store, .. } = config;
    let host = &limits.sandbox;
    let host = json!({
        "memory_budget_bytes": host.memory_budget_bytes,
        "client_memory_bytes": host.memory_budget_bytes / CLIENT_MEMORY_PART,
        "concurrent_calls": host.concurrent_calls,
        "component_calls": host.component_calls(),
        "waiting_calls": host.waiting_calls,
        "compile_cpu_ms": millis(host.compile_cpu),
        "compile_wall_ms": millis(host.compile_wall),
        "compile_memory_bytes": host.compile_memory_bytes,
        "compiled_bytes": host.compiled_bytes,
        "loaded_code_bytes": host.loaded_code_bytes,
        "cache_bytes": host.cache_bytes,
        "stack_bytes": host.stack_bytes,
        "ceiling": host.ceiling,
    });
    let store = json!({
        "component_record_bytes": store.limits.component_record_bytes,
        "thread_record_bytes": store.limits.thread_record_bytes,
        "principal_record_bytes": store.limits.principal_record_bytes,
        "thread_state_bytes": store.thread_state_bytes,
        "min_free_bytes": store.limits.min_free_bytes,
        "keep_s": store.keep.map(|keep| keep.as_secs()),
    });
    let parts =
        [of_calls(), of_runs(), of_schemas(), of_loading(), of_files_and_http(), of_clients_and_servers()];
    let fixed: Map<String, Value> = parts.into_iter().filter_map(into_object).flatten().collect();
    json!({"run": limits.run, "host": host, "store": store, "fixed": fixed})
}

fn of_calls() -> Value {
    json!({
        "arguments_bytes": MAX_ARGUMENTS_BYTES,
        "answer_bytes": MAX_ANSWER_BYTES,
        "content_parts": MAX_PARTS,
        "content_bytes": MAX_CONTENT_BYTES,
        "json_depth": agent_json::MAX_DEPTH,
        "mutations": MAX_MUTATIONS,
        "mutation_bytes": MAX_MUTATION_BYTES,
        "mutations_bytes": MAX_MUTATIONS_BYTES,
        "value_bytes": MAX_VALUE_BYTES,
        "values_bytes": MAX_VALUES_BYTES,
        "ticket_action_bytes": MAX_ACTION_BYTES,
        "ticket_message_bytes": MAX_MESSAGE_BYTES,
        "ticket_parameters_bytes": MAX_PARAMETERS_BYTES,
        "remembered_answers": MAX_REMEMBERED,
        "traps_that_disable": TRAPS_THAT_DISABLE,
    })
}

fn of_runs() -> Value {
    json!({
        "prompt_values": MAX_FILLED,
        "prompt_value_bytes": MAX_FILLED_BYTES,
        "reply_bytes": models::MAX_REPLY_BYTES,
        "reply_calls": models::MAX_REPLY_CALLS,
        "reply_event_bytes": models::MAX_EVENT_BYTES,
        "reply_event_parsed_bytes": models::MAX_EVENT_PARSED_BYTES,
        "reruns": MAX_RERUNS,
        "child_depth": child::MAX_DEPTH,
        "children_of_call": child::MAX_CHILDREN,
        "child_messages": child::MAX_CHILD_MESSAGES,
        "child_messages_bytes": child::MAX_CHILD_MESSAGES_BYTES,
        "child_keys": child::MAX_CHILD_KEYS,
        "child_text_bytes": child::MAX_CHILD_TEXT_BYTES,
    })
}

fn of_schemas() -> Value {
    json!({
        "schema_bytes": schema::MAX_SCHEMA_BYTES,
        "subschemas": schema::MAX_SUBSCHEMAS,
        "schema_depth": schema::MAX_SCHEMA_DEPTH,
        "schema_references": schema::MAX_REFERENCES,
        "schema_check_base_steps": schema::BASE_STEPS,
        "schema_check_steps_per_part": schema::STEPS_PER_PART,
        "schema_check_steps": schema::MAX_STEPS,
        "schema_violations": schema::MAX_VIOLATIONS,
        "schema_patterns": schema::MAX_PATTERNS,
        "schema_pattern_text_bytes": schema::MAX_PATTERN_TEXT_BYTES,
        "schema_wide_classes": schema::MAX_WIDE_CLASSES,
        "schema_class_escapes": schema::MAX_CLASS_ESCAPES,
        "pattern_bytes": schema::MAX_PATTERN_BYTES,
        "component_patterns_bytes": schema::MAX_PATTERNS_BYTES,
        "initial_value_bytes": MAX_INITIAL_BYTES,
        "descriptor_parsed_bytes": MAX_PARSED_BYTES,
        "component_tools": MAX_TOOLS,
        "component_state_keys": MAX_STATE_KEYS,
    })
}

fn of_loading() -> Value {
    json!({
        "component_bytes": sandbox::MAX_COMPONENT_BYTES,
        "loading_bytes": sandbox::MAX_LOADING_BYTES,
        "custom_section_bytes": sandbox::MAX_CUSTOM_BYTES,
        "core_modules": sandbox::MAX_CORE_MODULES,
        "component_items": sandbox::MAX_COMPONENT_ITEMS,
        "declaration_bytes": sandbox::MAX_DECLARATION_BYTES,
        "core_instance_bytes": sandbox::MAX_INSTANCE_BYTES,
        "component_nesting": sandbox::MAX_NESTING,
        "inner_components": sandbox::MAX_COMPONENTS,
        "compiled_bytes_per_byte": sandbox::COMPILED_BYTES_PER_BYTE,
        "image_slack_bytes": sandbox::IMAGE_SLACK_BYTES,
        "memory_images": sandbox::MAX_IMAGES,
        "compiled_at_once": sandbox::COMPILED_AT_ONCE,
        "describe_ms": millis(sandbox::DESCRIBE_TIME),
        "describe_fuel": sandbox::DESCRIBE_FUEL,
    })
}

fn of_files_and_http() -> Value {
    json!({
        "moved_at_once": sandbox::MAX_MOVED_AT_ONCE,
        "noted_moves": sandbox::MAX_MOVED,
        "response_head_bytes": sandbox::MAX_HEAD_BYTES,
        "lookups": sandbox::MAX_LOOKUPS,
        "lookups_of_component": sandbox::MAX_LOOKUPS_OF_COMPONENT,
        "lookups_of_call": sandbox::MAX_LOOKUPS_OF_CALL,
        "lookup_ms": millis(sandbox::LOOKUP_TIME),
    })
}

#[cfg(feature = "mcp")]
fn of_clients_and_servers() -> Value {
    use tollgate_mcp as mcp;
    json!({
        "client_message_bytes": mcp::MAX_MESSAGE_BYTES,
        "client_requests": mcp::MAX_REQUESTS,
        "client_requests_bytes": mcp::MAX_REQUEST_BYTES,
        "client_sessions": mcp::MAX_SESSIONS,
        "client_progress_token_bytes": mcp::MAX_TOKEN_BYTES,
        "server_tools": mcp::MAX_LISTED,
        "server_list_bytes": mcp::MAX_LISTED_BYTES,
        "server_list_json_nodes": mcp::MAX_LISTED_NODES,
        "server_bytes_per_second": mcp::MAX_BYTES_PER_SECOND,
        "server_unread_answers": mcp::MAX_UNANSWERED,
    })
}

#[cfg(not(feature = "mcp"))]
fn of_clients_and_servers() -> Value {
    json!({})
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(object) = value { Some(object) } else { None }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
