//! K8: the guide's tools, tested as plain functions, off wasm.

use tollgate_sdk::{Context, Key, ToolError, data, json, reducer::Append, tool};

static ITEMS: Key<Vec<Note>, Append> = Key::thread("notes.items").append().persistent();

#[data]
#[derive(Debug, PartialEq)]
struct Note {
    text: String,
}

/// Adds a note and says how many there are.
#[tool(state(ITEMS))]
fn add_note(text: String, ctx: &Context) -> Result<usize, ToolError> {
    ctx.append(&ITEMS, &Note { text })?;
    Ok(ctx.get(&ITEMS)?.len())
}

tollgate_sdk::component! { id: "notes", tools: [add_note] }

#[test]
fn k8_a_tool_is_called_with_a_context_built_in_the_test() {
    let ctx = Context::for_test().with_state("notes.items", json!([{"text": "bread"}]));
    assert_eq!(add_note("milk".to_owned(), &ctx), Ok(2));
    assert_eq!(ctx.mutations().len(), 1);
    assert_eq!(ctx.mutations()[0].key(), "notes.items");
    assert_eq!(ctx.mutations()[0].update(), json!({"text": "milk"}));
}

#[test]
fn k8_a_whole_component_is_called_with_the_text_of_the_arguments() {
    use tollgate_sdk::Component;
    let mut ctx = Context::for_test().with_tool_name("add_note");
    let output = Exported::execute(r#"{"text":"milk"}"#, &mut ctx).unwrap();
    assert_eq!(output.result.data(), json!(1));
    assert_eq!(output.mutations[0].update(), json!({"text": "milk"}));
    assert_eq!(ctx.mutations(), [], "what was handed over is the output's");
}
