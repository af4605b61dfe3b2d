//! Gate components as shown to people and programs.

use crate::terminal::output::{BAD, BOLD, Output};
use crate::terminal::quantity;
use crate::terminal::table::{Column, Table};
use crate::terminal::text::{shown, shown_line, shown_marked};
use serde_json::{Value, json};
use tollgate::gates::{GateComponent, LoadedGates};

/// Shows the gates in force, and the gates that failed to load and so stop all calls.
pub(crate) fn show(gates: &LoadedGates, output: &Output) {
    if !gates.gates.is_empty() {
        let mut rows = Table::new(&[
            Column::whole("GATE", 0),
            Column::text("FILE", 1),
            Column::whole("DIGEST", 4),
            Column::text("READS", 2),
            Column::whole("LIMITS", 3),
            Column::text("SETTINGS", 5),
        ]);
        for loaded in &gates.gates {
            let gate = &loaded.gate;
            rows.row([
                gate.descriptor().id.clone(),
                shown_line(&loaded.file.display().to_string(), 60),
                gate.digest().chars().take(12).collect(),
                reads(gate),
                limits(gate),
                shown_line(gate.settings(), 60),
            ]);
        }
        output.line(&rows.text());
    }
    for refused in &gates.refused {
        output.line(&format!("{BAD}No tool runs:{BAD:#} {}", shown_marked(&refused.problem())));
    }
}

/// Shows one gate, for `inspect`.
pub(crate) fn show_one(gate: &GateComponent, output: &Output) {
    let descriptor = gate.descriptor();
    output.line(&format!("{BOLD}{}{BOLD:#} is a gate", descriptor.id));
    output.line(&format!("  file    {}", shown_line(gate.name(), 200)));
    output.line(&format!("  digest  sha256:{}", gate.digest()));
    output.line(&format!("  reads   {}", reads(gate)));
    for line in shown(&descriptor.description).lines() {
        output.line(&format!("  {line}"));
    }
    output.line("\nIt imports nothing: it can only judge what it is shown.");
    output.line(&format!("Its settings go into [gates.{}.settings] of tollgate.toml.", descriptor.id));
}

pub(crate) fn as_json(gates: &LoadedGates) -> Value {
    gates.gates.iter().map(|loaded| one_as_json(&loaded.gate)).collect()
}

pub(crate) fn one_as_json(gate: &GateComponent) -> Value {
    json!({
        "kind": "gate",
        "id": gate.descriptor().id,
        "description": gate.descriptor().description,
        "file": gate.name(),
        "digest": gate.digest(),
        "reads": gate.descriptor().reads,
        "limits": gate.limits(),
        "settings": serde_json::from_str::<Value>(gate.settings()).unwrap_or_default(),
    })
}

fn reads(gate: &GateComponent) -> String {
    match gate.descriptor().reads.as_slice() {
        [] => "no state".to_owned(),
        keys => shown_line(&keys.join(", "), 100),
    }
}

fn limits(gate: &GateComponent) -> String {
    let limits = gate.limits();
    format!(
        "{} fuel, {}, {}",
        quantity::fuel(limits.fuel),
        quantity::bytes(limits.memory_bytes),
        quantity::millis(u64::from(limits.timeout_ms))
    )
}
