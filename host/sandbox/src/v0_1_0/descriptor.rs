//! Conversion of a component's descriptor to the host's types. It is parsed here, and truncated
//! as the contract specifies; the catalog judges it.

use super::types;
use tollgate_agent::descriptor::{
    ComponentDescriptor, ExecutionPolicy, MAX_DESCRIPTION_BYTES, MAX_LABEL_BYTES, MAX_STATE_KEYS, MAX_TOOLS,
    StateAccess, StateKey, ToolDescriptor,
};
use tollgate_agent::json;
use tollgate_agent::schema::MAX_SCHEMA_BYTES;
use tollgate_agent::state::{KeyScope, Reducer};
use tollgate_agent::text::clean;

/// Reads a descriptor. The error names the part that cannot be read.
pub(crate) fn lift_descriptor(given: types::ComponentDescriptor) -> Result<ComponentDescriptor, String> {
    if given.tools.len() > MAX_TOOLS {
        return Err(format!("it offers {} tools; at most {MAX_TOOLS} are accepted", given.tools.len()));
    }
    if given.state.len() > MAX_STATE_KEYS {
        return Err(format!(
            "it declares {} state keys; at most {MAX_STATE_KEYS} are accepted",
            given.state.len()
        ));
    }
    Ok(ComponentDescriptor {
        id: given.id,
        version: clean(&given.version, MAX_LABEL_BYTES),
        tools: given.tools.into_iter().map(tool).collect::<Result<_, _>>()?,
        state: given.state.into_iter().map(access).collect::<Result<_, _>>()?,
    })
}

fn tool(given: types::ToolDescriptor) -> Result<ToolDescriptor, String> {
    let what = format!("the parameters of the tool \"{}\"", clean(&given.name, 64));
    if given.parameters.len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "{what} have {} bytes; a schema may have {MAX_SCHEMA_BYTES}",
            given.parameters.len()
        ));
    }
    Ok(ToolDescriptor {
        parameters: json::parse(&given.parameters)
            .map_err(|e| format!("{what} are not acceptable JSON: {e}"))?,
        id: given.id,
        name: given.name,
        description: clean(&given.description, MAX_DESCRIPTION_BYTES),
        category: given.category.map(|c| clean(&c, MAX_LABEL_BYTES)),
        execution: ExecutionPolicy {
            timeout_ms: given.execution.timeout_ms,
            max_retries: given.execution.max_retries,
            idempotent: given.execution.idempotent,
            validates: given.execution.validates,
        },
    })
}

fn access(given: types::StateAccess) -> Result<StateAccess, String> {
    let shown = clean(&given.key, 140);
    let parse = |what: &str, text: &str| {
        json::parse(text)
            .map_err(|e| format!("the {what} of the state key \"{shown}\" is not acceptable JSON: {e}"))
    };
    let defines = match given.defines {
        None => None,
        Some(key) => Some(StateKey {
            initial: parse("initial value", &key.initial)?,
            schema: key.schema.as_deref().map(|s| parse("schema", s)).transpose()?,
            reducer: reducer(key.reducer),
            scope: match key.scope {
                types::KeyScope::Run => KeyScope::Run,
                types::KeyScope::Thread => KeyScope::Thread,
            },
            persistent: key.persistent,
        }),
    };
    Ok(StateAccess { key: given.key, read: given.read, write: given.write, defines })
}

fn reducer(given: types::Reducer) -> Reducer {
    match given {
        types::Reducer::Replace => Reducer::Replace,
        types::Reducer::MergePatch => Reducer::MergePatch,
        types::Reducer::Append => Reducer::Append,
        types::Reducer::Add => Reducer::Add,
        types::Reducer::Union => Reducer::Union,
        types::Reducer::Max => Reducer::Max,
    }
}
