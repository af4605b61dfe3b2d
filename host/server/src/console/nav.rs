//! The navigation of every page.

use super::failure::Failure;
use super::open_questions;
use super::viewer::Viewer;
use crate::Scope;

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Waiting,
    Runs,
    Threads,
    Playground,
    Tools,
    Agents,
    Usage,
    Audit,
    Access,
}

pub(super) const SECTIONS: [(Section, &str, &str); 10] = [
    (Section::Overview, "Overview", "/console"),
    (Section::Waiting, "Waiting", "/console/waiting"),
    (Section::Runs, "Runs", "/console/runs"),
    (Section::Threads, "Threads", "/console/threads"),
    (Section::Playground, "Playground", "/console/playground"),
    (Section::Tools, "Tools", "/console/tools"),
    (Section::Agents, "Agents", "/console/agents"),
    (Section::Usage, "Usage", "/console/usage"),
    (Section::Audit, "Audit", "/console/audit"),
    (Section::Access, "Access", "/console/access"),
];

/// The facts that the frame of a page shows.
pub(super) struct Nav {
    pub(super) section: Section,
    pub(super) name: String,
    pub(super) may_read: bool,
    pub(super) may_use: bool,
    pub(super) waiting: usize,
}

impl Nav {
    /// Reads the facts for a person on this page.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn of(viewer: &Viewer, section: Section) -> Result<Self, Failure> {
        Ok(Self::new(viewer, section, open_questions::all(viewer).await?.len()))
    }

    /// Returns the facts for a person on this page, for whom this number of questions waits.
    pub(super) fn new(viewer: &Viewer, section: Section, waiting: usize) -> Self {
        Self {
            section,
            name: viewer.principal.name.clone(),
            may_read: viewer.has(Scope::Read),
            may_use: viewer.has(Scope::Use),
            waiting,
        }
    }

    pub(super) fn shows(&self, section: Section) -> bool {
        match section {
            Section::Audit => self.may_read,
            Section::Playground => self.may_use,
            _ => true,
        }
    }
}
