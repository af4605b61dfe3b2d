//! Every limit that calls run under, for whoever reads `tollgate tools --json`: those of
//! the configuration, and those that hold for all tools alike and are not to be changed.

use super::Opened;
use serde_json::{Value, json};
use std::time::Duration;
use tollgate::config::Config;
use tollgate_agent::health::TRAPS_THAT_DISABLE;
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::state::change::{
    MAX_MUTATION_BYTES, MAX_MUTATIONS, MAX_MUTATIONS_BYTES, MAX_VALUE_BYTES, MAX_VALUES_BYTES,
};
use tollgate_agent::state::key::MAX_INITIAL_BYTES;
use tollgate_agent::{json as agent_json, schema};
use tollgate_sandbox::{
    COMPILE_MEMORY_BYTES, COMPILED_AT_ONCE, COMPILED_BYTES_PER_BYTE, DESCRIBE_FUEL, DESCRIBE_TIME,
    IMAGE_SLACK_BYTES, MAX_COMPONENT_BYTES, MAX_COMPONENT_ITEMS, MAX_CORE_MODULES, MAX_CUSTOM_BYTES,
    MAX_NESTING,
};

/// Those of a run, those of the host, and those that are fixed. What a tool has of its
/// own stands with the tool.
pub(super) fn as_json(opened: &Opened) -> Value {
    let Config { limits, .. } = &opened.config;
    let sandbox = &limits.sandbox;
    let host = json!({
        "memory_budget_bytes": sandbox.memory_budget_bytes,
        "concurrent_calls": sandbox.concurrent_calls,
        "waiting_calls": sandbox.waiting_calls,
        "compile_cpu_ms": millis(sandbox.compile_cpu),
        "compile_wall_ms": millis(sandbox.compile_wall),
        "compiled_bytes": sandbox.compiled_bytes,
        "loaded_code_bytes": sandbox.loaded_code_bytes,
        "ceiling": sandbox.ceiling,
    });
    let fixed = json!({
        "stack_bytes": sandbox.stack_bytes,
        "answer_bytes": MAX_ANSWER_BYTES,
        "json_depth": agent_json::MAX_DEPTH,
        "mutations": MAX_MUTATIONS,
        "mutation_bytes": MAX_MUTATION_BYTES,
        "mutations_bytes": MAX_MUTATIONS_BYTES,
        "value_bytes": MAX_VALUE_BYTES,
        "values_bytes": MAX_VALUES_BYTES,
        "schema_bytes": schema::MAX_SCHEMA_BYTES,
        "subschemas": schema::MAX_SUBSCHEMAS,
        "schema_depth": schema::MAX_SCHEMA_DEPTH,
        "schema_check_base_steps": schema::BASE_STEPS,
        "schema_check_steps_per_part": schema::STEPS_PER_PART,
        "schema_check_steps": schema::MAX_STEPS,
        "schema_patterns": schema::MAX_PATTERNS,
        "schema_pattern_text_bytes": schema::MAX_PATTERN_TEXT_BYTES,
        "pattern_bytes": schema::MAX_PATTERN_BYTES,
        "component_patterns_bytes": schema::MAX_PATTERNS_BYTES,
        "initial_value_bytes": MAX_INITIAL_BYTES,
        "component_bytes": MAX_COMPONENT_BYTES,
        "custom_section_bytes": MAX_CUSTOM_BYTES,
        "core_modules": MAX_CORE_MODULES,
        "component_items": MAX_COMPONENT_ITEMS,
        "component_nesting": MAX_NESTING,
        "compiled_bytes_per_byte": COMPILED_BYTES_PER_BYTE,
        "image_slack_bytes": IMAGE_SLACK_BYTES,
        "compile_memory_bytes": COMPILE_MEMORY_BYTES,
        "compiled_at_once": COMPILED_AT_ONCE,
        "describe_ms": millis(DESCRIBE_TIME),
        "describe_fuel": DESCRIBE_FUEL,
        "traps_that_disable": TRAPS_THAT_DISABLE,
    });
    json!({"run": limits.run, "host": host, "fixed": fixed})
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
