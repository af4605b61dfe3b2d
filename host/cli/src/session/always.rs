//! Permanent answers, which are written to the configuration when the decision is made.

use crate::globals::Globals;
use crate::terminal::Output;
use std::path::Path;
use tollgate::config::{FILE_NAME, remember_always};
use tollgate_agent::catalog::Catalog;
use tollgate_agent::gate::permissions::{Scope, answered};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer, Event, StoredEvent};

/// Writes the answer to the configuration if it is permanent, and reports it. `catalog` is the
/// catalog that the call was decided with.
pub(crate) fn keep(
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

/// Returns the question that a decision answers, from the record of its run.
pub(crate) fn question_of<'a>(
    record: impl IntoIterator<Item = &'a StoredEvent>,
    target: &str,
) -> Option<&'a SuspendedCall> {
    let questions = record.into_iter().filter_map(|event| match &event.event {
        Event::CallSuspended(asked) => Some(asked.as_ref()),
        _ => None,
    });
    questions.filter(|asked| asked.call_id == target || asked.suspension_id == target).last()
}
