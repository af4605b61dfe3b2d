//! Conversion of a component's descriptor to the host's types. Its size is checked and charged
//! here, then it is parsed, and truncated as the contract specifies; the catalog judges it.

use super::types;
use crate::admission::Slot;
use crate::blocking::offload;
use crate::description::DescriptionSize;
use crate::meter::Stop;
use std::sync::Arc;
use tollgate_agent::descriptor::{
    ComponentDescriptor, ExecutionPolicy, MAX_DESCRIPTION_BYTES, MAX_LABEL_BYTES, MAX_STATE_KEYS, MAX_TOOLS,
    StateAccess, StateKey, ToolDescriptor,
};
use tollgate_agent::json;
use tollgate_agent::schema::MAX_SCHEMA_BYTES;
use tollgate_agent::state::key::MAX_INITIAL_BYTES;
use tollgate_agent::state::{KeyScope, Reducer};
use tollgate_agent::text::clean;

/// A descriptor with the bytes that it takes, or why it is refused.
type ReadDescriptor = Result<(ComponentDescriptor, u64), String>;

/// Reads a descriptor on a thread that blocks no call. All lengths are checked, and its memory is
/// charged to the slot, before anything is parsed. The inner error names the part that cannot be
/// read.
///
/// # Errors
/// Fails if the question or the host has no room for the parsed form.
pub(crate) async fn read_descriptor(
    given: types::ComponentDescriptor,
    slot: &Arc<Slot>,
) -> wasmtime::Result<ReadDescriptor> {
    let slot = Arc::clone(slot);
    Ok(offload(move || read(given, &slot)).await?)
}

fn read(given: types::ComponentDescriptor, slot: &Slot) -> Result<ReadDescriptor, Stop> {
    let bytes = match check(&given) {
        Ok(bytes) => bytes,
        Err(why) => return Ok(Err(why)),
    };
    slot.charge(bytes)?;
    Ok(lift(given).map(|descriptor| (descriptor, bytes)))
}

/// Checks numbers and lengths, and returns how many bytes the parsed descriptor takes.
fn check(given: &types::ComponentDescriptor) -> Result<u64, String> {
    if given.tools.len() > MAX_TOOLS {
        return Err(format!("it offers {} tools; at most {MAX_TOOLS} are accepted", given.tools.len()));
    }
    if given.state.len() > MAX_STATE_KEYS {
        return Err(format!(
            "it declares {} state keys; at most {MAX_STATE_KEYS} are accepted",
            given.state.len()
        ));
    }
    let mut size = DescriptionSize::default();
    size.add_text(&given.id);
    for tool in &given.tools {
        let bytes = tool.parameters.len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(format!(
                "{} have {bytes} bytes; a schema may have {MAX_SCHEMA_BYTES}",
                parameters_of(tool)
            ));
        }
        size.add_text(&tool.id);
        size.add_text(&tool.name);
        size.add_json(&tool.parameters);
    }
    for access in &given.state {
        let Some(defined) = &access.defines else {
            size.add_text(&access.key);
            continue;
        };
        let within = |what: &str, text: &str, most: usize| match text.len() <= most {
            true => Ok(()),
            false => Err(format!(
                "the state key \"{}\" has {what} of {} bytes; at most {most} are accepted",
                clean(&access.key, 140),
                text.len()
            )),
        };
        within("an initial value", &defined.initial, MAX_INITIAL_BYTES)?;
        size.add_text(&access.key);
        size.add_json(&defined.initial);
        if let Some(schema) = &defined.schema {
            within("a schema", schema, MAX_SCHEMA_BYTES)?;
            size.add_json(schema);
        }
    }
    size.checked()
}

fn lift(given: types::ComponentDescriptor) -> Result<ComponentDescriptor, String> {
    Ok(ComponentDescriptor {
        id: given.id,
        version: clean(&given.version, MAX_LABEL_BYTES),
        tools: given.tools.into_iter().map(tool).collect::<Result<_, _>>()?,
        state: given.state.into_iter().map(access).collect::<Result<_, _>>()?,
    })
}

fn parameters_of(tool: &types::ToolDescriptor) -> String {
    format!("the parameters of the tool \"{}\"", clean(&tool.name, 64))
}

fn tool(given: types::ToolDescriptor) -> Result<ToolDescriptor, String> {
    Ok(ToolDescriptor {
        parameters: json::parse(&given.parameters)
            .map_err(|e| format!("{} are not acceptable JSON: {e}", parameters_of(&given)))?,
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
            .map(Arc::new)
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
