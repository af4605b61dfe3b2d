//! K5: a tool's attributes, and several tools in one component.

use tollgate_sdk::{
    Arguments, Component, Context, ExecutionPolicy, Tool, ToolDescriptor, ToolError, ToolOutput, ToolResult,
    component, json, tool,
};

/// Not what the model reads.
#[tool(
    id = "dice",
    name = "rollDice",
    description = "Rolls dice.",
    category = "games",
    timeout = "5s",
    max_retries = 2,
    idempotent,
    validate = fair
)]
fn roll(sides: u32, #[default = 1] count: u32) -> u32 {
    sides * count
}

fn fair(sides: &u32, count: &u32) -> Result<(), String> {
    match (*sides, *count) {
        (0 | 1, _) => Err(format!("a die has 2 sides or more, not {sides}")),
        (_, 0) => Err("no dice".to_owned()),
        _ => Ok(()),
    }
}

/// Says nothing about itself.
#[tool]
fn plain_tool() {}

/// Takes its time in milliseconds.
#[tool(timeout = 250, validate = never, idempotent = false)]
fn brief(text: &str) -> usize {
    text.len()
}

fn never(text: &str) -> Result<(), ToolError> {
    Err(ToolError::denied(text))
}

/// Takes its time in words.
#[tool(timeout = "500ms")]
fn briefer() {}

/// Takes minutes.
#[tool(timeout = "2m")]
fn long() {}

component! { id: "games", tools: [roll, plain_tool, brief, briefer, long] }

#[test]
fn k5_attributes_say_it_all() {
    let descriptor = roll {}.descriptor();
    assert_eq!(descriptor.id, "dice");
    assert_eq!(descriptor.name, "rollDice");
    assert_eq!(descriptor.description, "Rolls dice.");
    assert_eq!(descriptor.category.as_deref(), Some("games"));
    assert_eq!(
        descriptor.execution,
        ExecutionPolicy { timeout_ms: Some(5_000), max_retries: Some(2), idempotent: true, validates: true }
    );
}

#[test]
fn k5_what_is_unset_comes_from_the_function() {
    let descriptor = plain_tool {}.descriptor();
    assert_eq!(descriptor.id, "plain-tool");
    assert_eq!(descriptor.name, "plain_tool");
    assert_eq!(descriptor.description, "Says nothing about itself.");
    assert_eq!(descriptor.category, None);
    assert_eq!(descriptor.execution, ExecutionPolicy::default());
}

#[test]
fn k5_a_timeout_is_a_text_or_milliseconds() {
    let timeout = |tool: &dyn Tool| tool.descriptor().execution.timeout_ms;
    assert_eq!(timeout(&brief {}), Some(250));
    assert_eq!(timeout(&briefer {}), Some(500));
    assert_eq!(timeout(&long {}), Some(120_000));
}

#[test]
fn k5_validate_checks_what_the_schema_cannot_say() {
    let check = |args: tollgate_sdk::Value| roll {}.validate_args(Arguments::new(&args.to_string()));
    assert_eq!(check(json!({"sides": 6})), Ok(()));
    assert_eq!(
        check(json!({"sides": 1})),
        Err(ToolError::invalid_arguments("a die has 2 sides or more, not 1"))
    );
    assert_eq!(check(json!({"sides": 6, "count": 0})), Err(ToolError::invalid_arguments("no dice")));
    let denied = brief {}.validate_args(Arguments::new(r#"{"text":"no"}"#));
    assert_eq!(denied, Err(ToolError::denied("no")));
}

#[test]
fn k5_several_tools_live_in_one_component() {
    let component = Exported::describe();
    assert_eq!(component.id, "games");
    assert_eq!(component.version, env!("CARGO_PKG_VERSION"));
    let ids: Vec<&str> = component.tools.iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(ids, ["dice", "plain-tool", "brief", "briefer", "long"]);

    let mut ctx = tollgate_sdk::Context::for_test().with_tool_name("brief");
    let output = Exported::execute(r#"{"text":"four"}"#, &mut ctx).unwrap();
    assert_eq!(output.result.data(), json!(4));
}

/// A tool written by hand, whose descriptor says nothing of its check.
struct ByHand;

impl Tool for ByHand {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("by-hand", "by_hand", "Takes nothing.")
    }

    fn validate_args(&self, _: Arguments<'_>) -> Result<(), ToolError> {
        Err(ToolError::invalid_arguments("Nothing fits."))
    }

    fn execute(&self, _: Arguments<'_>, _: &mut Context) -> Result<ToolOutput, ToolError> {
        Ok(ToolResult::success(()).into())
    }
}

struct ByHands;

impl Component for ByHands {
    const ID: &'static str = "by-hand";
    const VERSION: &'static str = "0.1.0";

    fn tools() -> &'static [&'static dyn Tool] {
        &[&ByHand, &brief {}, &plain_tool {}]
    }
}

#[test]
fn k9_a_check_that_is_overridden_is_called_without_a_flag() {
    let tools = ByHands::describe().tools;
    let validates: Vec<bool> = tools.iter().map(|tool| tool.execution.validates).collect();
    assert_eq!(validates, [true, true, false]);
}
