//! `add_note`, `list_notes` and `delete_note`: notes that last as long as their
//! thread and are visible only within it.
//!
//! The notes are an object by id, and each update is a merge patch of one member. So
//! parallel calls may add and delete different notes without a conflict. An id is
//! derived from the call's own id: a retried attempt writes the same note again
//! instead of a second one.

pub mod book;

use book::{Book, Note, Shown};
use std::time::{SystemTime, UNIX_EPOCH};
use tollgate_sdk::reducer::MergePatch;
use tollgate_sdk::{CodedError, Context, Key, ToolError, ToolResult, Value, component, json, tool};

static ITEMS: Key<Book, MergePatch> = Key::thread("notes.items").merge_patch().persistent();

/// Adds a note to this conversation. It is still there in later runs.
///
/// Args:
///     text: What to remember, at most 2000 characters.
///     tags: Words to find it by, at most 8.
#[tool(category = "memory", idempotent, state(ITEMS))]
pub fn add_note(text: String, #[default] tags: Vec<String>, ctx: &Context) -> Result<ToolResult, ToolError> {
    let book = ctx.get(&ITEMS)?;
    let id = book::id(&ctx.identity().run_id, ctx.call_id());
    let note = match book.check(&id, text, tags) {
        Ok(note) => Note { created_ms: now_ms(), ..note },
        Err(error) => return Ok(error.into()),
    };
    ctx.merge(&ITEMS, patch(&id, json!(note)))?;
    let count = ctx.get(&ITEMS)?.len();
    Ok(ToolResult::success(json!({"id": id, "count": count})))
}

/// Lists the notes of this conversation, oldest first.
///
/// Args:
///     contains: Only notes with this text, in any case.
///     tag: Only notes with this tag.
#[tool(category = "memory", idempotent, state(read(ITEMS)))]
pub fn list_notes(contains: Option<String>, tag: Option<String>, ctx: &Context) -> Result<Shown, ToolError> {
    Ok(ctx.get(&ITEMS)?.show(contains.as_deref(), tag.as_deref()))
}

/// Deletes a note of this conversation.
///
/// Args:
///     id: The note's id, as `add_note` and `list_notes` give it.
#[tool(category = "memory", state(ITEMS))]
pub fn delete_note(id: &str, ctx: &Context) -> Result<ToolResult, ToolError> {
    let book = ctx.get(&ITEMS)?;
    if !book.has(id) {
        let message = format!("There is no note `{id}`. `list_notes` shows the ids of all.");
        return Ok(CodedError::new("unknown_note", message).into());
    }
    ctx.merge(&ITEMS, patch(id, Value::Null))?;
    Ok(ToolResult::success(json!({"deleted": id, "count": book.len() - 1})))
}

/// Returns a merge patch of one note; `null` deletes it.
fn patch(id: &str, note: Value) -> Value {
    json!({ id: note })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

component! { id: "notes", tools: [add_note, list_notes, delete_note] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Reducer, Scope, ToolOutput};

    fn call(tool: &str, args: Value, ctx: Context) -> ToolOutput {
        let mut ctx = ctx.with_tool_name(tool);
        Exported::execute(&args.to_string(), &mut ctx).unwrap()
    }

    fn with_notes(notes: Value) -> Context {
        Context::for_test().with_state("notes.items", notes)
    }

    fn two_notes() -> Context {
        with_notes(json!({
            "n-2": {"text": "Later", "created_ms": 2},
            "n-1": {"text": "Buy MILK", "tags": ["shop"], "created_ms": 1},
        }))
    }

    #[test]
    fn a_note_is_added_by_a_patch_of_one_member() {
        let output = call("add_note", json!({"text": "milk", "tags": ["shop"]}), two_notes());
        let id = output.result.data()["id"].as_str().unwrap().to_owned();
        assert_eq!(output.result.data()["count"], 3);
        let [mutation] = output.mutations.as_slice() else {
            unreachable!("one mutation");
        };
        assert_eq!(mutation.key(), "notes.items");
        let update = mutation.update();
        assert_eq!(update.as_object().unwrap().len(), 1);
        assert_eq!(update[&id]["text"], "milk");
        assert_eq!(update[&id]["tags"], json!(["shop"]));
        assert!(update[&id]["created_ms"].as_u64().unwrap() > 0);
    }

    #[test]
    fn another_attempt_writes_the_same_note_and_another_call_another() {
        let add = |ctx: Context| call("add_note", json!({"text": "x"}), ctx).result.data()["id"].clone();
        let first = add(Context::for_test().with_call_id("call-7"));
        assert_eq!(first, add(Context::for_test().with_call_id("call-7").with_attempt(2)));
        assert_ne!(first, add(Context::for_test().with_call_id("call-8")));
    }

    #[test]
    fn notes_are_listed_oldest_first_and_filtered() {
        let ids = |args: Value| {
            let data = call("list_notes", args, two_notes()).result.data();
            let notes = data["notes"].as_array().unwrap().clone();
            notes.iter().map(|note| note["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(json!({})), ["n-1", "n-2"]);
        assert_eq!(ids(json!({"contains": "milk"})), ["n-1"]);
        assert_eq!(ids(json!({"tag": "shop"})), ["n-1"]);
        assert!(ids(json!({"contains": "milk", "tag": "other"})).is_empty());
    }

    #[test]
    fn a_note_is_deleted_by_its_id() {
        let output = call("delete_note", json!({"id": "n-1"}), two_notes());
        assert_eq!(output.result.data(), json!({"deleted": "n-1", "count": 1}));
        assert_eq!(output.mutations[0].update(), json!({"n-1": null}));
        let unknown = call("delete_note", json!({"id": "n-9"}), two_notes());
        assert_eq!(unknown.result.data()["error"]["code"], "unknown_note");
        assert!(unknown.mutations.is_empty());
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let output = call("add_note", json!({"text": "  "}), Context::for_test());
        assert_eq!(output.result.data()["error"]["code"], "empty_note");
        assert!(output.mutations.is_empty());
    }

    #[test]
    fn the_notes_belong_to_the_thread_and_persist() {
        let described = Exported::describe();
        assert_eq!(described.tools.len(), 3);
        let [items] = described.state.as_slice() else {
            unreachable!("one key");
        };
        assert!(items.read && items.write);
        let key = items.defines.as_ref().unwrap();
        assert_eq!((key.scope, key.persistent), (Scope::Thread, true));
        assert_eq!((key.reducer, &key.initial), (Reducer::MergePatch, &json!({})));
    }
}
