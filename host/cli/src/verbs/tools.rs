//! `tollgate tools`: lists what is loaded, with its grants and limits, what is refused, and the
//! gates that judge calls.

use crate::globals::Globals;
use crate::render::{limits, powers, provenance};
use crate::session::data::open_store;
use crate::session::open::end_servers;
use crate::session::{Opened, approve, with_servers};
use crate::terminal::output::{BAD, BOLD, DIM, shown_line, shown_marked};
use crate::terminal::table::{table, text_of};
use crate::terminal::{Exit, Failure, Output, program, quantity};
use clap::Args;
use serde_json::{Map, Value, json};
use tollgate::Host;
use tollgate::config::ToolLimits;
use tollgate::tools::{LoadedComponent, Toolbox};
use tollgate_agent::catalog::{OwnerKind, Tool};
use tollgate_agent::run::RunLimits;
use tollgate_sandbox::LeftOut;

/// List the tools with their source, grants and limits, and list what is refused
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolsVerb {}

const EXAMPLES: &str = "\
Examples:
  tollgate tools
  tollgate tools --json | jq '.tools[] | {name, limits}'
  tollgate --config strict.toml tools";

impl ToolsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let mut opened = Opened::open(globals, output).await?;
        let mut builder = Host::builder().toolbox(opened.loaded.toolbox.clone());
        if let Ok(store) = open_store(globals) {
            builder = builder.store(store);
        }
        let host = builder.build()?;
        host.refresh_health().await?;
        let servers = with_servers(&host, &opened.config, output).await?;
        opened.loaded.toolbox = Toolbox::clone(&host.toolbox());
        if output.is_json() {
            let gaps = opened.sandbox.compiler_gaps().await;
            output.json(&as_json(&opened, gaps));
        } else {
            show(&opened, output);
        }
        end_servers(servers).await;
        Ok(Exit::Done)
    }
}

fn show(opened: &Opened, output: &Output) {
    let catalog = opened.loaded.toolbox.catalog();
    if !opened.loaded.components.is_empty() {
        let mut rows = table(&["tool", "component", "file", "digest", "grants", "limits"]);
        for tool in catalog.tools() {
            let Some(component) = opened.loaded.component_of(&tool.descriptor.name) else { continue };
            let limits = limits_of(tool, component, &opened.config.limits.run);
            rows.add_row([
                tool.descriptor.name.clone(),
                format!("{} {}", component.id, shown_line(&component.version, 20)),
                shown_line(&tool.owner.origin, 200),
                component.digest.chars().take(12).collect(),
                shown_line(&grants_in_words(component), 2_000),
                limits,
            ]);
        }
        output.line(&text_of(&rows));
    }
    show_remote(opened, output);
    for tool in catalog.tools() {
        let name = &tool.descriptor.name;
        if let Some(reason) = catalog.disabled(name) {
            let program = program();
            output.line(&format!(
                "{BAD}disabled{BAD:#} {BOLD}{name}{BOLD:#}: {}; enable it: {program} enable {name}",
                shown_marked(reason)
            ));
        }
    }
    for component in &opened.loaded.components {
        let lacking = powers::asked_and_lacking(component.asks.as_ref(), &component.grants);
        approve::say_lacking(&component.id, &lacking, output);
        provenance::show(opened, &component.id, output);
        for left in &component.left_out {
            let (id, function) = (&component.id, shown_line(&left.function, 200));
            output.line(&format!("{DIM}left out of {id}{DIM:#} {function}: {}", shown_marked(&left.reason)));
        }
    }
    for refused in opened.loaded.toolbox.refused() {
        let file = shown_line(&refused.file.display().to_string(), 200);
        output.line(&format!("{BAD}refused{BAD:#} {BOLD}{file}{BOLD:#}: {}", shown_marked(&refused.reason)));
    }
    crate::render::gates::show(&opened.gates, output);
    next_line(opened, output);
}

/// Shows the tools of MCP servers, whose limits are the servers' own.
fn show_remote(opened: &Opened, output: &Output) {
    let mut rows = table(&["tool", "server", "limits"]);
    for tool in remote(opened) {
        let timeout_ms = u64::from(opened.config.limits.run.attempt_timeout_ms(&tool.descriptor.execution));
        rows.add_row([tool.descriptor.name.clone(), tool.owner.id.to_string(), quantity::millis(timeout_ms)]);
    }
    if rows.row_count() > 0 {
        output.line(&text_of(&rows));
    }
}

fn remote(opened: &Opened) -> impl Iterator<Item = &Tool> {
    let tools = opened.loaded.toolbox.catalog().tools();
    tools.map(AsRef::as_ref).filter(|tool: &&Tool| tool.owner.kind == OwnerKind::Mcp)
}

fn next_line(opened: &Opened, output: &Output) {
    let program = program();
    let dir = shown_line(&opened.config.tools_dir.display().to_string(), 200);
    let mut served = opened.loaded.toolbox.catalog().tools();
    let words = match served.find(|tool| opened.loaded.component_of(&tool.descriptor.name).is_some()) {
        None => {
            format!("no tool is served from {dir}. Make one: {program} new hello && {program} build hello")
        }
        Some(tool) => {
            let arguments = crate::render::example::arguments(&tool.descriptor.parameters);
            format!("call one: {program} call {} '{arguments}'", tool.descriptor.name)
        }
    };
    output.say(&format!("{DIM}{words}{DIM:#}"));
}

fn limits_of(tool: &Tool, component: &LoadedComponent, run: &RunLimits) -> String {
    let timeout_ms = u64::from(run.attempt_timeout_ms(&tool.descriptor.execution));
    let Some(ToolLimits { call, .. }) = component.limits.get(&tool.descriptor.name) else {
        return String::new();
    };
    format!(
        "{} fuel, {}, {}",
        quantity::fuel(call.fuel),
        quantity::bytes(call.memory_bytes),
        quantity::millis(timeout_ms)
    )
}

/// Returns a component's grants, and its imports without a grant. The requests of its manifest, if
/// it has one, are listed below the table.
fn grants_in_words(component: &LoadedComponent) -> String {
    let granted = powers::in_words(&component.grants);
    let granted = if granted.is_empty() { "none".to_owned() } else { granted.join("; ") };
    let lacking = powers::lacking(&component.imports, &component.grants);
    match lacking.is_empty() || component.asks.is_some() {
        true => granted,
        false => format!("{granted} (imports {})", lacking.join(", ")),
    }
}

fn as_json(opened: &Opened, compiler_gaps: Option<String>) -> Value {
    let tools: Vec<Value> = opened
        .loaded
        .toolbox
        .catalog()
        .tools()
        .filter_map(|tool| Some(tool_json(tool, opened.loaded.component_of(&tool.descriptor.name)?, opened)))
        .collect();
    let remote: Vec<Value> = remote(opened).map(|tool| remote_json(tool, opened)).collect();
    let left_out = opened.loaded.components.iter().flat_map(|component| {
        let named = |left: &LeftOut| {
            json!({"component": component.id, "function": left.function, "reason": left.reason})
        };
        component.left_out.iter().map(named)
    });
    json!({
        "tools": tools,
        "remote_tools": remote,
        "left_out": left_out.collect::<Vec<_>>(),
        "refused": opened.loaded.toolbox.refused(),
        "gates": crate::render::gates::as_json(&opened.gates),
        "refused_gates": opened.gates.refused,
        "notices": opened.loaded.notices,
        "limits": limits::as_json(opened),
        "compiler_gaps": compiler_gaps,
    })
}

fn tool_json(tool: &Tool, component: &LoadedComponent, opened: &Opened) -> Value {
    let descriptor = &tool.descriptor;
    let of_all = &opened.config.limits;
    let mut limits = match component.limits.get(&descriptor.name).map(|limits| json!(limits.call)) {
        Some(Value::Object(limits)) => limits,
        _ => Map::new(),
    };
    limits.insert("timeout_ms".to_owned(), json!(of_all.run.attempt_timeout_ms(&descriptor.execution)));
    let of_tool = component.limits.get(&descriptor.name).and_then(|limits| limits.concurrent_calls);
    let of_component = of_all.sandbox.component_calls();
    let concurrent_calls = of_tool.map_or(of_component, |calls| calls.min(of_component));
    limits.insert("concurrent_calls".to_owned(), json!(concurrent_calls));
    json!({
        "name": descriptor.name,
        "id": descriptor.id,
        "description": descriptor.description,
        "category": descriptor.category,
        "parameters": descriptor.parameters,
        "execution": descriptor.execution,
        "component": component.id,
        "version": component.version,
        "file": component.file,
        "digest": component.digest,
        "surface": component.surface_hash(),
        "recorded": opened.loaded.lock.of(&component.id),
        "lock": provenance::lock_state(opened, &component.id),
        "imports": component.imports,
        "grants": powers::as_json(&component.grants),
        "asks": component.asks,
        "lacking": powers::lacking(&component.imports, &component.grants),
        "to_grant": powers::asked_and_lacking(component.asks.as_ref(), &component.grants),
        "state": {
            "reads": tool.access.reads().collect::<Vec<_>>(),
            "writes": tool.access.writes().collect::<Vec<_>>(),
        },
        "limits": limits,
        "disabled": opened.loaded.toolbox.catalog().disabled(&descriptor.name),
    })
}

fn remote_json(tool: &Tool, opened: &Opened) -> Value {
    let descriptor = &tool.descriptor;
    let server = opened.config.servers.get(tool.owner.id.as_str());
    json!({
        "name": descriptor.name,
        "description": descriptor.description,
        "parameters": descriptor.parameters,
        "server": tool.owner.id,
        "limits": {
            "timeout_ms": opened.config.limits.run.attempt_timeout_ms(&descriptor.execution),
            "answer_bytes": server.map(|server| server.answer_bytes),
        },
    })
}
