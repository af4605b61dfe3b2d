//! K8: the guide's tools, tested as plain functions, off wasm.

use tollgate_sdk::{Action, Context, Key, ToolError, ToolResult, data, json, reducer::Append, tool};

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

tollgate_sdk::component! { id: "notes", tools: [add_note, publish] }

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

/// Publishes the notes, after asking.
#[tool(state(read(ITEMS)))]
fn publish(ctx: &Context) -> Result<ToolResult, ToolError> {
    let notes = ctx.get(&ITEMS)?;
    let Some(decision) = ctx.resume() else {
        return Ok(ToolResult::suspended(format!("Publish {} notes?", notes.len())));
    };
    if !decision.value::<bool>()? {
        ctx.transfer_to("editor");
        return Ok(ToolResult::error("The notes stay private."));
    }
    ctx.progress(1.0, "published");
    Ok(ToolResult::success(notes.len()))
}

#[test]
fn k8_a_test_asks_decides_and_looks_into_the_context() {
    let context = || Context::for_test().with_state("notes.items", json!([{"text": "bread"}]));

    let asked = publish(&context()).unwrap();
    assert_eq!((asked.is_pending(), asked.message()), (true, Some("Publish 1 notes?")));

    let yes = context().with_resume(true);
    assert_eq!(publish(&yes).unwrap().data(), json!(1));
    assert_eq!(yes.reports().len(), 1);

    let no = context().with_resume(false);
    assert!(publish(&no).unwrap().is_error());
    assert_eq!(no.actions(), [Action::TransferToAgent("editor".to_owned())]);
}
