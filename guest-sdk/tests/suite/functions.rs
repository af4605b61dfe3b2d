//! K1: a function is a tool and remains a function.

use crate::call;
use tollgate_sdk::{
    Arguments, Component, Context, Tool, ToolDescriptor, ToolError, ToolOutput, ToolResult, json,
};

/// Adds two numbers.
#[tollgate_sdk::tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Greets, in its own time.
#[tollgate_sdk::tool]
async fn greet(name: &str, ctx: &Context) -> Result<String, ToolError> {
    std::future::ready(()).await;
    yielding().await;
    Ok(format!("Hello {name} from {}", ctx.call_id()))
}

/// Yields once, after waking itself.
async fn yielding() {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Waits for what never comes.
#[tollgate_sdk::tool]
async fn hang() {
    std::future::pending::<()>().await;
}

#[test]
fn k1_a_function_is_a_tool_and_stays_a_function() {
    assert_eq!(add(2, 3), 5);
    assert_eq!(call(&add {}, &json!({"a": 2, "b": 3})).unwrap().result.data(), json!(5));
}

#[test]
fn k1_an_async_function_is_a_tool_and_stays_a_function() {
    let plain = tollgate_sdk::block_on(greet("Ada", &Context::for_test())).unwrap();
    assert_eq!(plain, Ok("Hello Ada from call-1".to_owned()));
    let output = call(&greet {}, &json!({"name": "Ada"})).unwrap();
    assert_eq!(output.result.data(), json!("Hello Ada from call-1"));
}

#[test]
fn k1_an_async_tool_that_nothing_will_wake_ends_with_an_error() {
    let error = call(&hang {}, &json!({})).unwrap_err();
    assert!(matches!(error, ToolError::Internal(message) if message.contains("awaits")));
}

/// The author's own names, which shadow names of the standard library that the macro
/// uses.
#[allow(dead_code)]
mod hygiene {
    use tollgate_sdk::ToolError;

    pub(super) type Result<T> = std::result::Result<T, ToolError>;
    type Answer = std::result::Result<i64, std::string::String>;

    struct Option;
    struct String;
    struct Vec;
    struct Box;
    struct Arguments;
    struct Tool;
    struct ToolOutput;
    trait Default {}
    fn parse() {}
    use std::result::Result::{Err as Ok, Ok as Err};

    /// Halves a number.
    #[tollgate_sdk::tool]
    pub(super) fn halve(#[default = 4] number: i64) -> Result<i64> {
        let half: std::result::Result<i64, ToolError> = Err(number / 2);
        half
    }

    /// Fails under another name.
    #[tollgate_sdk::tool]
    pub(super) fn refuse(why: std::string::String) -> Answer {
        Ok(why)
    }

    /// A tool that is called what the macro calls its own.
    #[tollgate_sdk::tool]
    pub(super) fn args(args: i64, ctx: &tollgate_sdk::Context, r#type: i64) -> i64 {
        args + r#type + i64::from(ctx.attempt())
    }
}

#[test]
fn k1_names_of_the_authors_own_do_not_break_a_tool() {
    assert_eq!(hygiene::halve(8), Ok(4));
    assert_eq!(call(&hygiene::halve {}, &json!({})).unwrap().result.data(), json!(2));
    assert_eq!(call(&hygiene::args {}, &json!({"args": 2, "type": 3})).unwrap().result.data(), json!(6));
}

#[test]
fn k1_a_result_under_another_name_is_a_result() {
    let output = call(&hygiene::refuse {}, &json!({"why": "no"})).unwrap();
    assert!(output.result.is_error());
    assert_eq!(output.result.message(), Some("no"));
}

struct Echo;

impl Tool for Echo {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new("echo", "echo", "Says it again.")
    }

    fn validate_args(&self, args: Arguments<'_>) -> Result<(), ToolError> {
        match args.value()?.get("text") {
            Some(_) => Ok(()),
            None => Err(ToolError::invalid_arguments("there is no `text`")),
        }
    }

    fn execute(&self, args: Arguments<'_>, ctx: &mut Context) -> Result<ToolOutput, ToolError> {
        ctx.add_context("echoed");
        Ok(ToolResult::success(args.value()?).into())
    }
}

tollgate_sdk::component! {
    id: "mixed",
    version: "2.0",
    tools: [add, Echo, hygiene::halve],
}

#[test]
fn k1_a_tool_by_hand_stands_beside_those_made_of_functions() {
    let names: Vec<String> = Exported::describe().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["add", "echo", "halve"]);

    let mut ctx = Context::for_test().with_tool_name("echo");
    let output = Exported::execute(r#"{"text":"hi"}"#, &mut ctx).unwrap();
    assert_eq!(output.result.data(), json!({"text": "hi"}));
    assert_eq!(output.actions.len(), 1);

    assert_eq!(Exported::validate_args("echo", r#"{"text":"hi"}"#), Ok(()));
    let refused = Exported::validate_args("echo", "{}").unwrap_err();
    assert_eq!(refused, ToolError::invalid_arguments("there is no `text`"));
}

#[test]
fn k1_a_name_that_the_component_lacks_is_not_found() {
    let mut ctx = Context::for_test().with_tool_name("subtract");
    let error = Exported::execute("{}", &mut ctx).unwrap_err();
    assert_eq!(error, ToolError::not_found("`mixed` has no tool `subtract`."));
}

#[test]
fn k1_arguments_that_do_not_fit_are_invalid_arguments() {
    let unknown = call(&add {}, &json!({"a": 1, "b": 2, "c": 3})).unwrap_err();
    assert!(matches!(unknown, ToolError::InvalidArguments(message) if message.contains("`c`")));
    let missing = call(&add {}, &json!({"a": 1})).unwrap_err();
    assert_eq!(missing, ToolError::invalid_arguments("The arguments do not fit: missing field `b`."));
}
