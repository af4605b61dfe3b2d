//! What changed in a tools directory, for whoever watches it and for the audit.

use super::approval::served;
use crate::store::{AuditKind, AuditRecord};
use crate::tools::RefusedFile;
use std::path::PathBuf;

/// What a look at the directory found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A file is served from now on.
    Served {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
        /// The digest of the version whose place it took.
        replaced: Option<String>,
        /// Its tools whose words are not those that were approved, sorted by name.
        reworded: Vec<String>,
    },
    /// A file cannot be served.
    Refused(RefusedFile),
    /// A file that was served is gone, and its tools with it.
    Removed {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
    },
    /// The same version as before may do something else from now on.
    Granted {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
    },
    /// The configuration, or the record of approvals, cannot be read any more; what it
    /// said before is in force.
    Unread {
        /// The file.
        file: PathBuf,
        /// What happened, why, and what to do.
        reason: String,
    },
}

impl Change {
    /// What the audit says of it.
    #[must_use]
    pub fn to_audit(&self) -> AuditRecord {
        match self {
            Self::Served { file, component_id, digest, reworded, .. } => {
                served(file, component_id, digest, reworded)
            }
            Self::Refused(refused) => refused.to_audit(),
            Self::Removed { file, component_id } => AuditRecord::new(AuditKind::Removal, "host", "removed")
                .of_file(file)
                .of_component(component_id.clone(), None),
            Self::Granted { file, component_id, digest } => {
                AuditRecord::new(AuditKind::Load, "host", "served")
                    .of_file(file)
                    .of_component(component_id, Some(digest.into()))
                    .because("what it was granted is another now")
            }
            Self::Unread { file, reason } => {
                AuditRecord::new(AuditKind::Refusal, "host", "refused").of_file(file).because(reason)
            }
        }
    }
}
