//! `tollgate tools`: what is loaded, what it may do and use, and what is refused;
//! and the gates that judge its calls.

use super::data::open_store;
use super::output::{BAD, BOLD, DIM, shown, shown_line};
use super::table::{table, text_of};
use super::{Exit, Failure, Globals, Opened, Output, program, quantity};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tollgate::Host;
use tollgate::config::{ComponentGrants, ToolLimits};
use tollgate::tools::{LoadedComponent, Toolbox};
use tollgate_agent::catalog::Tool;
use tollgate_agent::child::{DelegateGrant, Delegates};
use tollgate_agent::run::RunLimits;
use tollgate_sandbox::{FileAccess, Import, Power};

/// Lists the tools: from where, what they were granted, under which limits; and what is refused
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
        if let Ok(store) = open_store(globals) {
            let host = Host::builder().toolbox(opened.loaded.toolbox.clone()).store(store).build()?;
            host.refresh_health().await?;
            opened.loaded.toolbox = Toolbox::clone(&host.toolbox());
        }
        if output.is_json() {
            output.json(&as_json(&opened));
        } else {
            show(&opened, output);
        }
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
                tool.owner.origin.clone(),
                component.digest.chars().take(12).collect(),
                grants_in_words(component),
                limits,
            ]);
        }
        output.line(&text_of(&rows));
    }
    for tool in catalog.tools() {
        let name = &tool.descriptor.name;
        if let Some(reason) = catalog.disabled(name) {
            let program = program();
            output.line(&format!(
                "{BAD}disabled{BAD:#} {BOLD}{name}{BOLD:#}: {}; back into use: {program} enable {name}",
                shown(reason)
            ));
        }
    }
    for refused in opened.loaded.toolbox.refused() {
        let file = shown_line(&refused.file.display().to_string(), 200);
        output.line(&format!("{BAD}refused{BAD:#} {BOLD}{file}{BOLD:#}: {}", shown(&refused.reason)));
    }
    super::gates::show(&opened.gates, output);
    next_line(opened, output);
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
            let arguments = super::example::arguments(&tool.descriptor.parameters);
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

/// What a component was granted, and what it imports without a grant.
fn grants_in_words(component: &LoadedComponent) -> String {
    let granted = granted(&component.grants);
    let asks = lacking(&component.imports, &component.grants);
    match (granted.is_empty(), asks.is_empty()) {
        (true, true) => "none".to_owned(),
        (true, false) => format!("none (imports {})", asks.join(", ")),
        (false, true) => granted.join("; "),
        (false, false) => format!("{} (imports {})", granted.join("; "), asks.join(", ")),
    }
}

fn granted(grants: &ComponentGrants) -> Vec<String> {
    let files = grants.files.iter().map(|file| {
        let access = if file.access == FileAccess::Read { "read" } else { "read-write" };
        format!(
            "{} is {} ({access})",
            shown_line(&file.guest, 60),
            shown_line(&file.host.display().to_string(), 60)
        )
    });
    let reads = grants.catalog.reads.iter().map(|key| format!("reads {key}"));
    let writes = grants.catalog.writes.iter().map(|key| format!("writes {key}"));
    let actions = grants.catalog.actions.names().map(str::to_owned);
    let agents = delegates(grants).map(|(agent, _)| format!("runs the agent {agent}"));
    files.chain(reads).chain(writes).chain(actions).chain(agents).collect()
}

/// The powers that are imported and not granted.
pub(super) fn lacking(imports: &[Import], grants: &ComponentGrants) -> Vec<&'static str> {
    let powers: BTreeSet<Power> = imports.iter().filter_map(|import| import.power).collect();
    powers.into_iter().filter(|power| !has(*power, grants)).map(Power::as_str).collect()
}

fn has(power: Power, grants: &ComponentGrants) -> bool {
    match power {
        Power::Files => !grants.files.is_empty(),
        Power::Delegates => delegates(grants).next().is_some(),
        Power::Http | Power::Sockets | Power::Settings => false,
    }
}

/// The agents that the component may run.
fn delegates(grants: &ComponentGrants) -> impl Iterator<Item = (&String, &DelegateGrant)> {
    match &grants.catalog.delegates {
        Delegates::Granted(agents) => Some(agents),
        Delegates::None | Delegates::Any => None,
    }
    .into_iter()
    .flatten()
}

fn as_json(opened: &Opened) -> Value {
    let run = &opened.config.limits.run;
    let tools: Vec<Value> = opened
        .loaded
        .toolbox
        .catalog()
        .tools()
        .filter_map(|tool| Some(tool_json(tool, opened.loaded.component_of(&tool.descriptor.name)?, opened)))
        .collect();
    json!({
        "tools": tools,
        "refused": opened.loaded.toolbox.refused(),
        "gates": super::gates::as_json(&opened.gates),
        "refused_gates": opened.gates.refused,
        "notices": opened.loaded.notices,
        "limits": {"run": run, "host": host_limits(opened)},
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
    let concurrent_calls = of_tool.unwrap_or(of_all.sandbox.concurrent_calls);
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
        "imports": component.imports,
        "grants": grants_json(&component.grants),
        "lacking": lacking(&component.imports, &component.grants),
        "state": {
            "reads": tool.access.reads().collect::<Vec<_>>(),
            "writes": tool.access.writes().collect::<Vec<_>>(),
        },
        "limits": limits,
        "disabled": opened.loaded.toolbox.catalog().disabled(&descriptor.name),
    })
}

fn grants_json(grants: &ComponentGrants) -> Value {
    json!({
        "files": grants.files,
        "state": {"read": grants.catalog.reads, "write": grants.catalog.writes},
        "actions": grants.catalog.actions.names().collect::<Vec<_>>(),
        "delegates": delegates(grants).collect::<std::collections::BTreeMap<_, _>>(),
    })
}

fn host_limits(opened: &Opened) -> Value {
    let sandbox = &opened.config.limits.sandbox;
    json!({
        "memory_budget_bytes": sandbox.memory_budget_bytes,
        "concurrent_calls": sandbox.concurrent_calls,
        "waiting_calls": sandbox.waiting_calls,
        "ceiling": sandbox.ceiling,
    })
}
