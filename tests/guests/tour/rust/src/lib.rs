//! The tour in Rust; `tests/guests/tour/README.md` describes it.

use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_sdk::{
    ChildRun, Context, Key, Level, ProgressStatus, ResumeMode, Resumption, RunIdentity, Ticket, ToolError,
    ToolResult, Value, component, data, json,
    reducer::{Add, Append, Max, MergePatch, Union},
    tool,
};

static REPLACED: Key<String> =
    Key::thread("tour-rust.replaced").persistent().initial(|| "nothing".to_owned());
static MERGED: Key<BTreeMap<String, i64>, MergePatch> =
    Key::thread("tour-rust.merged").merge_patch().persistent();
static APPENDED: Key<Vec<String>, Append> = Key::thread("tour-rust.appended").append().persistent();
static ADDED: Key<i64, Add> = Key::thread("tour-rust.added").add().persistent();
static UNITED: Key<Vec<String>, Union> = Key::thread("tour-rust.united").union().persistent();
static GREATEST: Key<i64, Max> = Key::thread("tour-rust.greatest").max().persistent();
static PASSING: Key<String> = Key::run("tour-rust.passing").initial(|| "nobody".to_owned());
static LARGE: Key<String> = Key::thread("tour-rust.large").persistent();
static LABEL: Key<Option<String>> = Key::of_another("shelf.label");

#[data]
#[serde(rename_all = "lowercase")]
enum What {
    Echo,
    Context,
    Report,
    Reduce,
    Fill,
    Read,
    Trespass,
    Act,
    Suspend,
    Fail,
    Error,
    Message,
    Big,
    Cancel,
    Reread,
    Setting,
    Child,
    Attach,
    File,
}

#[data]
#[serde(deny_unknown_fields)]
struct Place {
    /// The name of the place.
    name: String,
    /// Its code.
    zip: Option<String>,
    /// The country of the place.
    #[serde(default = "country")]
    country: String,
}

fn country() -> String {
    "CH".to_owned()
}

#[data]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The action to take.
    what: What,
    /// Which way to do it.
    how: Option<String>,
    /// A text.
    #[serde(default = "plain")]
    text: String,
    /// A number of things.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 1000))]
    count: u32,
    /// A part of a whole.
    #[serde(default = "half")]
    ratio: f64,
    /// Yes or no.
    #[serde(default = "yes")]
    flag: bool,
    /// Some words.
    #[serde(default)]
    words: Vec<String>,
    /// A size.
    #[serde(default = "two")]
    #[schemars(extend("enum" = [1, 2, 4]))]
    size: i64,
    /// A place.
    place: Option<Place>,
    /// Numbers by name.
    #[serde(default)]
    scores: BTreeMap<String, i64>,
}

fn plain() -> String {
    "plain".to_owned()
}

fn three() -> u32 {
    3
}

fn half() -> f64 {
    0.5
}

fn yes() -> bool {
    true
}

fn two() -> i64 {
    2
}

/// Exercises what the contract offers.
#[tool(
    category = "test",
    timeout = "4s",
    max_retries = 1,
    idempotent,
    validate = is_allowed,
    state(REPLACED, MERGED, APPENDED, ADDED, UNITED, GREATEST, PASSING, LARGE, LABEL)
)]
fn tour_rust(#[args] args: Arguments, ctx: &Context) -> Result<ToolResult, ToolError> {
    let how = args.how.as_deref().unwrap_or_default();
    let text = args.text.as_str();
    Ok(match args.what {
        What::Echo => ToolResult::success(args),
        What::Context => ToolResult::success(caller(ctx)),
        What::Report => report(ctx),
        What::Reduce => reduce(&args, ctx)?,
        What::Fill => {
            ctx.set(&LARGE, &large(args.count))?;
            ToolResult::success("filled")
        }
        What::Read => read(ctx)?,
        What::Trespass => {
            ctx.update(LABEL.name(), &text)?;
            ToolResult::success("trespassed")
        }
        What::Act => act(how, text, ctx),
        What::Suspend => match ctx.resume() {
            Some(resume) => resumed(text, resume),
            None => suspend(how, &args),
        },
        What::Fail => return fail(how, text),
        What::Error => match how {
            "coded" => ToolResult::error_with_code("full", text),
            "plain" => ToolResult::error(text),
            _ => unknown(),
        },
        What::Message => ToolResult::success_with_message(json!({"count": args.count}), text),
        What::Big => ToolResult::success(large(args.count)),
        What::Cancel => cancel(ctx),
        What::Reread => {
            reduce(&args, ctx)?;
            read(ctx)?
        }
        What::Setting => ToolResult::success(json!(ctx.setting(text))),
        What::Child => child(how, text, ctx)?,
        What::Attach => {
            ctx.attach("image/png", b"\x89PNG")?;
            ctx.attach_file("tour:///notes.txt", "text/plain", text.as_bytes())?;
            ctx.attach_link("https://example.org/tour", text, Some("A tour."))?;
            ToolResult::success("attached")
        }
        What::File => {
            ToolResult::success(through_file(text).map_err(|e| ToolError::internal(e.to_string()))?)
        }
    })
}

fn is_allowed(args: &Arguments) -> Result<(), String> {
    if args.text == "forbidden" { Err("The text may not be forbidden.".to_owned()) } else { Ok(()) }
}

fn unknown() -> ToolResult {
    ToolResult::success("unknown")
}

fn large(kilobytes: u32) -> String {
    "x".repeat(1024 * kilobytes as usize)
}

#[derive(Serialize)]
struct Caller<'a> {
    tool: &'a str,
    revision: u64,
    timely: bool,
    agent: Agent<'a>,
    parent: Parent<'a>,
}

#[derive(Serialize)]
struct Agent<'a> {
    id: &'a str,
    description: Option<&'a str>,
    delegates: &'a [String],
}

#[derive(Serialize)]
struct Parent<'a> {
    run: Option<&'a str>,
    thread: Option<&'a str>,
    call: Option<&'a str>,
}

fn caller(ctx: &Context) -> Caller<'_> {
    let RunIdentity { parent_run_id, parent_thread_id, parent_call_id, .. } = ctx.identity();
    let agent = ctx.agent();
    Caller {
        tool: ctx.tool_name(),
        revision: ctx.revision(),
        timely: (1..=4000).contains(&ctx.deadline().as_millis()),
        agent: Agent {
            id: &agent.id,
            description: agent.description.as_deref(),
            delegates: &agent.delegates,
        },
        parent: Parent {
            run: parent_run_id.as_deref(),
            thread: parent_thread_id.as_deref(),
            call: parent_call_id.as_deref(),
        },
    }
}

fn report(ctx: &Context) -> ToolResult {
    let told = |status, message: Option<&str>, fraction| {
        ctx.progress_status(status, message.map(str::to_owned), fraction);
    };
    ctx.activity("tour", "first stop");
    ctx.activity_delta("tour", json!([{"op": "add", "path": "/stops", "value": 1}]));
    told(ProgressStatus::Pending, None, None);
    ctx.progress(0.25, "under way");
    told(ProgressStatus::Running, None, Some(0.5));
    told(ProgressStatus::Failed, Some("broken"), None);
    told(ProgressStatus::Cancelled, Some("stopped"), Some(0.75));
    told(ProgressStatus::Done, Some("there"), Some(1.0));
    ctx.stream_output("one ");
    ctx.stream_output("two\n");
    ctx.log(Level::Trace, "trace");
    ctx.log(Level::Debug, "debug");
    ctx.log(Level::Info, "info");
    ctx.log(Level::Warn, "warn");
    ctx.log(Level::Error, "error");
    ToolResult::success("reported")
}

fn reduce(args: &Arguments, ctx: &Context) -> Result<ToolResult, ToolError> {
    let count = i64::from(args.count);
    ctx.set(&REPLACED, &args.text)?;
    ctx.merge(&MERGED, BTreeMap::from([(args.text.as_str(), Some(count)), ("gone", None)]))?;
    ctx.append(&APPENDED, &args.text)?;
    ctx.add(&ADDED, count)?;
    ctx.union(&UNITED, &args.words)?;
    ctx.max(&GREATEST, count)?;
    ctx.set(&PASSING, &args.text)?;
    Ok(ToolResult::success("reduced"))
}

#[derive(Serialize)]
struct Values {
    replaced: String,
    merged: BTreeMap<String, i64>,
    appended: Vec<String>,
    added: i64,
    united: Vec<String>,
    greatest: i64,
    passing: String,
    large: usize,
    label: Option<String>,
}

fn read(ctx: &Context) -> Result<ToolResult, ToolError> {
    Ok(ToolResult::success(Values {
        replaced: ctx.get(&REPLACED)?,
        merged: ctx.get(&MERGED)?,
        appended: ctx.get(&APPENDED)?,
        added: ctx.get(&ADDED)?,
        united: ctx.get(&UNITED)?,
        greatest: ctx.get(&GREATEST)?,
        passing: ctx.get(&PASSING)?,
        large: ctx.get(&LARGE)?.len(),
        label: ctx.get(&LABEL)?,
    }))
}

fn child(how: &str, text: &str, ctx: &Context) -> Result<ToolResult, ToolError> {
    let child = ctx.run_child(ChildRun::new(text).with_user_message(how))?.completed()?;
    Ok(ToolResult::success(json!({
        "response": child.response, "streamed": child.streamed, "steps": child.steps,
    })))
}

fn through_file(text: &str) -> std::io::Result<String> {
    let file = "/files/rust.txt";
    std::fs::write(file, text)?;
    let read = std::fs::read_to_string(file)?;
    std::fs::remove_file(file)?;
    Ok(read)
}

fn act(how: &str, text: &str, ctx: &Context) -> ToolResult {
    match how {
        "add-context" => ctx.add_context(text),
        "transfer" => ctx.transfer_to(text),
        "escalate" => ctx.escalate(),
        _ => return unknown(),
    }
    ToolResult::success("acted")
}

fn suspend(how: &str, args: &Arguments) -> ToolResult {
    let mode = match how {
        "plain" => return ToolResult::suspended(format!("Go on with {}?", args.text)),
        "replay-tool-call" => ResumeMode::ReplayToolCall,
        "use-decision-as-tool-result" => ResumeMode::UseDecisionAsToolResult,
        "pass-decision-to-tool" => ResumeMode::PassDecisionToTool,
        _ => return unknown(),
    };
    ToolResult::suspended_with(
        Ticket::new("choose", format!("Which one, {}?", args.text))
            .with_parameters(json!({"words": args.words, "count": args.count}))
            .with_response_schema(json!({"type": ["object", "string", "boolean"]}))
            .with_resume_mode(mode),
    )
}

#[derive(Serialize)]
struct Resumed<'a> {
    text: &'a str,
    action: &'a str,
    message: &'a str,
    value: Value,
    reason: Option<&'a str>,
    decision: &'a str,
    suspension: bool,
    decided: bool,
}

fn resumed(text: &str, resume: &Resumption) -> ToolResult {
    ToolResult::success(Resumed {
        text,
        action: &resume.action,
        message: &resume.message,
        value: resume.json(),
        reason: resume.reason.as_deref(),
        decision: &resume.decision_id,
        suspension: !resume.suspension_id.is_empty(),
        decided: resume.decided_at_ms > 0,
    })
}

fn fail(how: &str, text: &str) -> Result<ToolResult, ToolError> {
    Err(match how {
        "invalid-arguments" => ToolError::invalid_arguments(text),
        "execution-failed" => ToolError::execution_failed(text),
        "denied" => ToolError::denied(text),
        "not-found" => ToolError::not_found(text),
        "internal" => ToolError::internal(text),
        _ => return Ok(unknown()),
    })
}

fn cancel(ctx: &Context) -> ToolResult {
    ctx.progress(0.0, "waiting");
    while !ctx.is_cancelled() {}
    ctx.log(Level::Info, "saw the cancellation");
    ToolResult::error_with_code("cancelled", "The run was cancelled.")
}

component! { id: "tour-rust", tools: [tour_rust] }
