//! Answers that always apply, which are written to `[permissions]` of the configuration.

use crate::globals::Globals;
use crate::terminal::Output;
use std::path::Path;
use tollgate::config::{FILE_NAME, remember_always};
use tollgate_agent::catalog::Catalog;
use tollgate_agent::gate::permissions::{Scope, answered};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer};

/// Writes the answer to the configuration if it is permanent, and reports that it did, or why it could
/// not. `catalog` is the catalog with which the call was decided.
pub(crate) fn store(
    globals: &Globals,
    catalog: &Catalog,
    asked: &SuspendedCall,
    decision: &Decision,
    output: &Output,
) {
    let DecisionAnswer::Resume(answer) = &decision.answer else { return };
    let Some((Scope::Always, rule)) = answered(catalog, asked, answer) else { return };
    let file = globals.config.as_deref().unwrap_or(Path::new(FILE_NAME));
    match remember_always(file, &rule) {
        Ok(()) => output.say(&format!("remembered for always, in [permissions] of {}", file.display())),
        Err(why) => output.warn(&why.to_string()),
    }
}
