//! `tollgate grants`: shows what components were granted and what they lack.

use crate::globals::Globals;
use crate::render::powers;
use crate::session::{OpenSession, approve};
use crate::terminal::output::DIM;
use crate::terminal::table::{Column, Table};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tollgate::tools::LoadedComponent;
use tollgate_agent::name::did_you_mean;

/// Show what components were granted, and what they ask for and lack
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GrantsVerb {
    /// Show only the component with this id
    component: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate grants
  tollgate grants fetch
  tollgate grants --json | jq '.fetch.lacking'";

impl GrantsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let opened = OpenSession::open(globals, output).await?;
        let served = opened.loaded.components.iter().map(|component| component.id.as_str());
        let pending = opened.loaded.pending.iter().map(|pending| pending.id.as_str());
        let known: BTreeSet<&str> =
            opened.config.grants.keys().map(String::as_str).chain(served).chain(pending).collect();
        if let Some(id) = self.component.as_deref().filter(|id| !known.contains(id)) {
            let shown = shown_line(id, 80);
            let hint = did_you_mean(id, known.iter().copied()).unwrap_or_else(|| ";".to_owned());
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Failure::usage(format!("there is no component {shown}{hint} known: {known}")));
        }
        let wanted = |id: &&str| self.component.as_deref().is_none_or(|only| only == *id);
        let ids: Vec<&str> = known.into_iter().filter(wanted).collect();
        if output.is_json() {
            let of_each = ids.iter().map(|id| ((*id).to_owned(), as_json(&opened, id)));
            output.json(&Value::Object(of_each.collect::<Map<_, _>>()));
        } else {
            show(&opened, &ids, output);
        }
        Ok(Exit::Done)
    }
}

fn show(opened: &OpenSession, ids: &[&str], output: &Output) {
    let mut rows = Table::new(&[Column::whole("COMPONENT", 0), Column::text("GRANTED", 0)]);
    for id in ids {
        let words = powers::in_words(&opened.config.grants_of(id));
        let words = if words.is_empty() { vec!["nothing".to_owned()] } else { words };
        for (number, word) in words.into_iter().enumerate() {
            rows.row([if number == 0 { (*id).to_owned() } else { String::new() }, word]);
        }
    }
    output.line(&rows.text());
    for id in ids {
        if let Some(component) = loaded(opened, id) {
            let lacking = powers::asked_and_lacking(component.asks.as_ref(), &component.grants);
            approve::say_lacking(id, &lacking, output);
        } else if let Some(pending) = opened.loaded.pending.iter().find(|pending| pending.id == **id) {
            let file = shown_line(&pending.file.display().to_string(), 200);
            output.say(&format!("{DIM}{id} waits for approval: {file}{DIM:#}"));
        }
    }
}

fn as_json(opened: &OpenSession, id: &str) -> Value {
    let grants = opened.config.grants_of(id);
    let pending = opened.loaded.pending.iter().find(|pending| pending.id == id);
    let asks = match pending {
        Some(pending) => pending.asks.as_ref(),
        None => loaded(opened, id).and_then(|component| component.asks.as_ref()),
    };
    json!({
        "grants": grants.to_json(),
        "asks": asks,
        "lacking": powers::asked_and_lacking(asks, &grants),
        "decided": opened.loaded.approvals.of(id),
        "waits_for_approval": pending.is_some(),
    })
}

fn loaded<'a>(opened: &'a OpenSession, id: &str) -> Option<&'a LoadedComponent> {
    opened.loaded.components.iter().find(|component| component.id == id)
}
