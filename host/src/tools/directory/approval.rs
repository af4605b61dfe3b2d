//! Decides whether a version may be served: by the decisions about its component and, while the
//! host runs, by comparison with the previous version.

use super::loaded::{LoadedComponent, Notice, PendingComponent};
use super::refusal::FileRefusal;
use crate::grants::Approvals;
use crate::store::{AuditKind, AuditRecord};
use crate::tools::toolbox::FileRemedy;
use std::path::Path;

/// The end of a message about a component that a person has not approved as it is.
const APPROVE: &str = "Look at it, then approve it";

/// A policy for serving loaded components.
pub trait Approval: Send + Sync {
    /// Judges a new component, or a new version of one that is served now or was served earlier. Of the
    /// latter, `serving` holds the needs and the requests, without descriptions of tools.
    ///
    /// # Errors
    /// The component may not be served; the refusal says why, and how to allow it.
    fn judge(&self, new: &LoadedComponent, serving: Option<&LoadedComponent>) -> Result<(), FileRefusal>;
}

/// Allows a new version only what the previous one asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNewPowers;

impl Approval for NoNewPowers {
    fn judge(&self, new: &LoadedComponent, serving: Option<&LoadedComponent>) -> Result<(), FileRefusal> {
        let more = serving.map(|serving| new.excess_over(serving)).unwrap_or_default();
        nothing_more("this version asks for more than the one before it", &more, &new.id, &new.file)
    }
}

impl LoadedComponent {
    /// Describes the requests that exceed those of the other version.
    #[must_use]
    pub fn excess_over(&self, other: &Self) -> Vec<String> {
        let mut more = self.surface.needs().excess_over(&other.surface.needs());
        match (&self.asks, &other.asks) {
            (Some(now), Some(before)) => more.extend(now.excess_over(before)),
            (None, Some(_)) => {
                more.push("everything that it was granted, because its manifest is gone".to_owned())
            }
            (_, None) => {}
        }
        more
    }
}

/// Compares a component with the decisions about it.
///
/// # Errors
/// It asks for more than was approved; the message lists it.
pub(super) fn judge(found: &PendingComponent, approvals: &Approvals) -> Result<(), FileRefusal> {
    let beyond = approvals.excess_over(found.asks.as_ref(), &found.surface);
    nothing_more("it asks for more than was approved", &beyond, &found.id, &found.file)
}

/// Refuses a component that asks for more than it may; `why` is the beginning of the message.
fn nothing_more(why: &str, more: &[String], id: &str, file: &Path) -> Result<(), FileRefusal> {
    if more.is_empty() {
        return Ok(());
    }
    let reason = format!("{why}: {}. {APPROVE}", more.join("; "));
    Err(FileRefusal::new(reason, approving(id, file)))
}

/// Returns the audit record of a component that is now served.
pub(super) fn served(file: &Path, id: &str, digest: &str, reworded: &[String]) -> AuditRecord {
    let served = AuditRecord::new(AuditKind::Load, "host", "served")
        .of_file(file)
        .of_component(id, Some(digest.into()));
    match other_words(reworded) {
        Some(words) => served.because(&words),
        None => served,
    }
}

/// Returns a notice for the operator about tools whose text differs from the approved one;
/// `None` if there are none.
pub(super) fn notice_of(component: &LoadedComponent) -> Option<Notice> {
    let words = other_words(&component.reworded)?;
    Some(Notice {
        text: format!("{} is served with {words}. {APPROVE}", component.id),
        remedy: Some(approving(&component.id, &component.file)),
    })
}

/// Describes the tools whose text differs from the approved one.
pub(super) fn other_words(reworded: &[String]) -> Option<String> {
    (!reworded.is_empty())
        .then(|| format!("descriptions that differ from the approved ones, of {}", reworded.join(", ")))
}

fn approving(id: &str, file: &Path) -> FileRemedy {
    FileRemedy::Approve { id: id.to_owned(), file: file.to_owned() }
}
