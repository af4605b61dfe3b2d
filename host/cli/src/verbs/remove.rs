//! `tollgate remove`: removes a component, its entry in the lock file and its stored signature.

use crate::globals::Globals;
use crate::render::powers;
use crate::session::data::open_store;
use crate::session::origin::Origins;
use crate::terminal::output::GOOD;
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use serde_json::json;
use tollgate::store::{AuditKind, AuditRecord};

/// Remove a component that was installed with `add`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RemoveVerb {
    /// The component's id
    id: String,
}

const EXAMPLES: &str = "\
Examples:
  tollgate remove weather

Grants and stored state remain.";

impl RemoveVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let origins = Origins::open(globals)?;
        if origins.files.read_lock()?.of(&self.id).is_none() {
            let id = shown_line(&self.id, 64);
            return Err(Failure::usage(format!(
                "the lock file records no component {id}; see: {} verify",
                program()
            )));
        }
        let store = open_store(globals)?;
        let entry = origins.files.remove(&self.id)?;
        let record = AuditRecord::new(AuditKind::Revocation, "person", "removed")
            .of_component(entry.id.as_str(), Some(entry.wasm.hex().into()))
            .because(&format!("it came from {}", entry.from));
        store.record_audit(vec![record]).await?;
        let granted = powers::in_words(&origins.config.grants_of(&entry.id));
        if output.is_json() {
            output.json(&json!({ "removed": entry, "grants": granted }));
            return Ok(Exit::Done);
        }
        output.line(&format!("{GOOD}removed{GOOD:#} {} ({})", entry.id, entry.file));
        for granted in &granted {
            output.say(&format!("it is still granted: {}", shown_line(granted, 300)));
        }
        if !granted.is_empty() {
            output.say(&format!("take all of that back: {} revoke {} --all", program(), entry.id));
        }
        Ok(Exit::Done)
    }
}
