//! `tollgate tools`: lists what is loaded, with its grants and limits, what is refused, and the
//! gates that judge calls.

use crate::globals::Globals;
use crate::render::{limits, powers, provenance};
use crate::session::data::open_store;
use crate::session::open::notices;
use crate::session::servers::end_servers;
use crate::session::{OpenSession, approve, warn_of_left_out, with_servers};
use crate::terminal::output::{BAD, BOLD, DIM};
use crate::terminal::remedy::of_file;
use crate::terminal::table::{Column, Table};
use crate::terminal::text::{shown, shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output, program, quantity};
use clap::Args;
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use tollgate::Host;
use tollgate::config::ToolLimits;
use tollgate::tools::{LoadedComponent, RefusedFile, Toolbox};
use tollgate_agent::catalog::{OwnerKind, Tool};
use tollgate_agent::name::did_you_mean;
use tollgate_agent::run::RunLimits;
use tollgate_agent::text::quoted;
use tollgate_sandbox::OmittedFunction;

/// List the tools and what is refused, or show one tool with its schema, grants, limits and health
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolsVerb {
    /// Show only this tool, in full
    name: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate tools
  tollgate tools word_count                          its schema, grants, limits and health
  tollgate tools --json | jq '.tools[] | {name, limits}'
  tollgate --config strict.toml tools";

impl ToolsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let mut opened = OpenSession::open(globals, output).await?;
        let mut builder = Host::builder().toolbox(opened.loaded.toolbox.clone());
        if let Ok(store) = open_store(globals) {
            builder = builder.store(store);
        }
        let host = builder.build()?;
        host.refresh_health().await?;
        let servers = with_servers(&host, &opened.config, output).await?;
        warn_of_left_out(&servers, output);
        opened.loaded.toolbox = Toolbox::clone(&host.toolbox());
        let shown = match &self.name {
            Some(name) => show_one(&opened, name, output),
            None if output.is_json() => {
                let gaps = opened.sandbox.compiler_gaps().await;
                output.json(&as_json(&opened, gaps));
                Ok(())
            }
            None => {
                show(&opened, output);
                Ok(())
            }
        };
        end_servers(servers).await;
        shown.map(|()| Exit::Done)
    }
}

fn show(opened: &OpenSession, output: &Output) {
    let catalog = opened.loaded.toolbox.catalog();
    if !opened.loaded.components.is_empty() {
        let mut rows = Table::new(&[
            Column::whole("TOOL", 0),
            Column::text("DOES", 1),
            Column::whole("COMPONENT", 2),
            Column::text("GRANTS", 1),
            Column::whole("LIMITS", 4),
            Column::text("FILE", 5),
            Column::whole("DIGEST", 6),
        ]);
        for tool in catalog.tools() {
            let Some(component) = opened.loaded.component_of(&tool.descriptor.name) else { continue };
            rows.row([
                tool.descriptor.name.clone(),
                first_sentence(&tool.descriptor.description),
                format!("{} {}", component.id, shown_line(&component.version, 20)),
                shown_line(&grants_in_words(component), 2_000),
                limits_of(tool, component, &opened.config.limits.run),
                shown_line(&tool.owner.origin, 200),
                component.digest.chars().take(12).collect(),
            ]);
        }
        output.line(&rows.text());
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
        provenance::show(&opened.loaded.lock, &opened.config, &component.id, output);
        for left in &component.left_out {
            let (id, function) = (&component.id, shown_line(&left.function, 200));
            output.line(&format!("{DIM}left out of {id}{DIM:#} {function}: {}", shown_marked(&left.reason)));
        }
    }
    for refused in opened.loaded.toolbox.refused() {
        let file = shown_line(&refused.file.display().to_string(), 200);
        output.line(&format!("{BAD}refused{BAD:#} {BOLD}{file}{BOLD:#}: {}", of_file(refused)));
    }
    crate::render::gates::show(&opened.gates, output);
    opened.warn_of_all(output);
    next_line(opened, output);
}

/// Shows the tools of MCP servers, whose limits are the servers' own.
fn show_remote(opened: &OpenSession, output: &Output) {
    let mut rows = Table::new(&[
        Column::whole("TOOL", 0),
        Column::text("DOES", 1),
        Column::whole("SERVER", 0),
        Column::whole("LIMITS", 2),
    ]);
    for tool in remote(opened) {
        rows.row([
            tool.descriptor.name.clone(),
            first_sentence(&tool.descriptor.description),
            tool.owner.id.to_string(),
            quantity::millis(timeout_ms(tool, &opened.config.limits.run)),
        ]);
    }
    if !rows.is_empty() {
        output.line(&rows.text());
    }
}

/// Returns the first sentence of a description, on one line.
fn first_sentence(description: &str) -> String {
    let line = shown_line(description, 400);
    match line.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => line.trim_end_matches('.').to_owned(),
    }
}

fn timeout_ms(tool: &Tool, run: &RunLimits) -> u64 {
    u64::from(run.attempt_timeout_ms(&tool.descriptor.execution))
}

/// Returns the error for a name that no tool has. It may be that of a refused file.
fn unknown(opened: &OpenSession, name: &str) -> Failure {
    let toolbox = &opened.loaded.toolbox;
    let spelled = |name: &str| name.replace('-', "_");
    let is_named =
        |part: Option<&OsStr>| part.is_some_and(|part| spelled(&part.to_string_lossy()) == spelled(name));
    let has_name =
        |refused: &&RefusedFile| is_named(refused.file.file_stem()) || is_named(refused.file.file_name());
    if let Some(refused) = toolbox.refused().iter().find(has_name) {
        let file = shown_line(&refused.file.display().to_string(), 200);
        return Failure::usage(format!("{file} is refused: {}", of_file(refused)));
    }
    let known = toolbox.catalog().tools().map(|tool| tool.descriptor.name.as_str());
    let see = did_you_mean(name, known).map_or("; see:".to_owned(), |near| near + " See:");
    Failure::usage(format!("there is no tool {}{see} {} tools", shown_line(name, 80), program()))
}

/// Shows one tool in full.
fn show_one(opened: &OpenSession, name: &str, output: &Output) -> Result<(), Failure> {
    let catalog = opened.loaded.toolbox.catalog();
    let Some(tool) = catalog.tool(name) else { return Err(unknown(opened, name)) };
    let component = opened.loaded.component_of(name);
    if output.is_json() {
        output.json(&match component {
            Some(component) => tool_json(tool, component, opened),
            None => remote_json(tool, opened),
        });
        return Ok(());
    }
    let descriptor = &tool.descriptor;
    output.line(&format!("{BOLD}{name}{BOLD:#}"));
    for line in shown(&descriptor.description).lines() {
        output.line(&format!("  {line}"));
    }
    output.line(&format!("\n{BOLD}arguments{BOLD:#}"));
    let schema = serde_json::to_string_pretty(&descriptor.parameters).unwrap_or_default();
    shown(&schema).lines().for_each(|line| output.line(&format!("  {line}")));
    output.line(&format!("\n{BOLD}source{BOLD:#}"));
    match component {
        Some(component) => {
            let component_line = format!("{} {}", component.id, shown_line(&component.version, 40));
            output.line(&format!("  component  {}", component_line.trim_end()));
            output.line(&format!("  file       {}", shown_line(&component.file.display().to_string(), 300)));
            output.line(&format!("  digest     sha256:{}", component.digest));
            provenance::show_in_full(&opened.loaded.lock, &opened.config, &component.id, output);
            show_grants(component, output);
            let run = &opened.config.limits.run;
            output.line(&format!("\n{BOLD}limits{BOLD:#}\n  {}", limits_of(tool, component, run)));
        }
        None => {
            output.line(&format!("  {} {}", kind_of(tool.owner.kind), tool.owner.id));
            let timeout = quantity::millis(timeout_ms(tool, &opened.config.limits.run));
            output.line(&format!("\n{BOLD}limits{BOLD:#}\n  {timeout}"));
        }
    }
    let health = match catalog.disabled(name) {
        Some(reason) => {
            format!(
                "{BAD}disabled{BAD:#}: {}; back into use: {} enable {name}",
                shown_marked(reason),
                program()
            )
        }
        None => "in use".to_owned(),
    };
    output.line(&format!("\n{BOLD}health{BOLD:#}\n  {health}"));
    let arguments = crate::render::example::word(&descriptor.parameters);
    output.hint(&format!("\n{DIM}call it: {} call {name} {arguments}{DIM:#}", program()));
    Ok(())
}

/// Shows what a component was granted, and what it asks for and lacks.
fn show_grants(component: &LoadedComponent, output: &Output) {
    output.line(&format!("\n{BOLD}grants{BOLD:#}"));
    let granted = powers::in_words(&component.grants);
    if granted.is_empty() {
        output.line("  none: it can only compute");
    }
    granted.iter().for_each(|words| output.line(&format!("  {}", shown_line(words, 300))));
    let lacking = powers::lacking(&component.imports, &component.grants);
    if !lacking.is_empty() && component.asks.is_none() {
        let file = quoted(&shown_line(&component.file.display().to_string(), 300));
        output.line(&format!("  {DIM}imports without a grant: {}{DIM:#}", lacking.join(", ")));
        output.hint(&format!("  {DIM}how to grant them: {} inspect {file}{DIM:#}", program()));
    }
    let lacking = powers::asked_and_lacking(component.asks.as_ref(), &component.grants);
    approve::say_lacking(&component.id, &lacking, output);
}

fn kind_of(kind: OwnerKind) -> &'static str {
    match kind {
        OwnerKind::Mcp => "MCP server",
        _ => "host",
    }
}

fn remote(opened: &OpenSession) -> impl Iterator<Item = &Tool> {
    let tools = opened.loaded.toolbox.catalog().tools();
    tools.map(AsRef::as_ref).filter(|tool: &&Tool| tool.owner.kind == OwnerKind::Mcp)
}

fn next_line(opened: &OpenSession, output: &Output) {
    let program = program();
    let dir = shown_line(&opened.config.tools_dir.display().to_string(), 200);
    let mut served = opened.loaded.toolbox.catalog().tools();
    let words = match served.find(|tool| opened.loaded.component_of(&tool.descriptor.name).is_some()) {
        None if remote(opened).next().is_some() => return,
        None if !opened.loaded.toolbox.refused().is_empty() => {
            format!("no tool is served from {dir}; the reasons are above")
        }
        None => {
            format!("no tool is served from {dir}. Make one: {program} new hello && {program} build hello")
        }
        Some(tool) => {
            let arguments = crate::render::example::word(&tool.descriptor.parameters);
            format!("call one: {program} call {} {arguments}", tool.descriptor.name)
        }
    };
    output.hint(&format!("{DIM}{words}{DIM:#}"));
}

fn limits_of(tool: &Tool, component: &LoadedComponent, run: &RunLimits) -> String {
    let timeout_ms = timeout_ms(tool, run);
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

fn as_json(opened: &OpenSession, compiler_gaps: Option<String>) -> Value {
    let tools: Vec<Value> = opened
        .loaded
        .toolbox
        .catalog()
        .tools()
        .filter_map(|tool| Some(tool_json(tool, opened.loaded.component_of(&tool.descriptor.name)?, opened)))
        .collect();
    let remote: Vec<Value> = remote(opened).map(|tool| remote_json(tool, opened)).collect();
    let left_out = opened.loaded.components.iter().flat_map(|component| {
        let named = |left: &OmittedFunction| {
            json!({"component": component.id, "function": left.function, "reason": left.reason})
        };
        component.left_out.iter().map(named)
    });
    json!({
        "tools": tools,
        "remote_tools": remote,
        "left_out": left_out.collect::<Vec<_>>(),
        "refused": opened.loaded.toolbox.refused().iter().map(refused_json).collect::<Vec<_>>(),
        "gates": crate::render::gates::as_json(&opened.gates),
        "refused_gates": opened.gates.refused,
        "notices": notices(&opened.loaded),
        "limits": limits::as_json(&opened.config),
        "compiler_gaps": compiler_gaps,
    })
}

/// Returns a file that is not served, with the command that resolves it in its reason.
fn refused_json(refused: &RefusedFile) -> Value {
    json!(RefusedFile { reason: of_file(refused), ..refused.clone() })
}

fn tool_json(tool: &Tool, component: &LoadedComponent, opened: &OpenSession) -> Value {
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
        "origin": provenance::origin(&opened.loaded.lock, &opened.config, &component.id),
        "imports": component.imports,
        "grants": component.grants.to_json(),
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

fn remote_json(tool: &Tool, opened: &OpenSession) -> Value {
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
