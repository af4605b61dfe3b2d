//! Whether a version may be served: measured by what people decided about its
//! component, and, while the host runs, by the version that it had before.

use super::{HeldComponent, LoadedComponent};
use crate::grants::Approvals;
use crate::store::{AuditKind, AuditRecord};
use std::path::Path;

/// Says whether a component that was loaded may be served.
pub trait Approval: Send + Sync {
    /// Judges a component that appeared, or a new version of one that is served now or
    /// was served last.
    ///
    /// # Errors
    /// Why it may not, and what a person does who wants it.
    fn judge(&self, new: &LoadedComponent, serving: Option<&LoadedComponent>) -> Result<(), String>;
}

/// A new version may ask for what the one before it asks for, and no more.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMoreThanServed;

impl Approval for NoMoreThanServed {
    fn judge(&self, new: &LoadedComponent, serving: Option<&LoadedComponent>) -> Result<(), String> {
        let more = serving.map(|serving| new.beyond(serving)).unwrap_or_default();
        nothing_more("this version asks for more than the one before it", &more, &new.id, &new.file)
    }
}

impl LoadedComponent {
    /// What it asks for that the other version does not, in words for a person.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let mut more = self.surface.needs().beyond(&other.surface.needs());
        match (&self.asks, &other.asks) {
            (Some(now), Some(before)) => more.extend(now.beyond(before)),
            (None, Some(_)) => more.push("all that it was granted, for its manifest is gone".to_owned()),
            (_, None) => {}
        }
        more
    }
}

/// Measures a component by what people decided about it.
///
/// # Errors
/// It asks for more than was approved; the sentence says what.
pub(super) fn judge(found: &HeldComponent, approvals: &Approvals) -> Result<(), String> {
    let beyond = approvals.beyond(found.asks.as_ref(), &found.surface);
    nothing_more("it asks for more than was approved", &beyond, &found.id, &found.file)
}

/// Refuses a component that asks for more than it may; `why` is the sentence's beginning.
fn nothing_more(why: &str, more: &[String], id: &str, file: &Path) -> Result<(), String> {
    if more.is_empty() {
        return Ok(());
    }
    Err(format!("{why}: {}. {}", more.join("; "), how_to_approve(id, file)))
}

/// What the audit says of a component that is served from now on.
pub(super) fn served(file: &Path, id: &str, digest: &str, reworded: &[String]) -> AuditRecord {
    let served = AuditRecord::new(AuditKind::Load, "host", "served")
        .of_file(file)
        .of_component(id, Some(digest.into()));
    match other_words(reworded) {
        Some(words) => served.because(&words),
        None => served,
    }
}

/// What an operator is told of tools whose words are not those that were approved; none
/// where there are no such tools.
pub(super) fn notice_of(component: &LoadedComponent) -> Option<String> {
    let words = other_words(&component.reworded)?;
    Some(format!(
        "{} is served with {words}. {}",
        component.id,
        how_to_approve(&component.id, &component.file)
    ))
}

/// The tools that say something else than was approved, in words.
pub(super) fn other_words(reworded: &[String]) -> Option<String> {
    (!reworded.is_empty()).then(|| format!("other words than were approved, of {}", reworded.join(", ")))
}

fn how_to_approve(id: &str, file: &Path) -> String {
    let file = tollgate_agent::text::clean(&file.display().to_string(), 300);
    format!("Look at it (tollgate inspect {file}), then approve it: tollgate grant {id} --asked")
}
