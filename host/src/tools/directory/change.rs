//! Changes of a tools directory, for observers and for the audit.

use super::approval::served;
use crate::store::{AuditKind, AuditRecord};
use crate::tools::RefusedFile;
use std::path::PathBuf;

/// A change that was found in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A file is now served.
    Served {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
        /// The digest of the version that it replaced.
        replaced: Option<String>,
        /// Its tools whose text differs from the approved one, sorted by name.
        reworded: Vec<String>,
    },
    /// A file cannot be served.
    Refused(RefusedFile),
    /// A served file was removed, and its tools with it.
    Removed {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
    },
    /// The powers of the same version have changed.
    Granted {
        /// The file.
        file: PathBuf,
        /// Its component.
        component_id: String,
        /// The SHA-256 of its bytes, in hexadecimal.
        digest: String,
    },
    /// The configuration or the record of approvals is no longer readable. Its previous content
    /// stays in force.
    Unread {
        /// The file.
        file: PathBuf,
        /// The problem, its cause, and the remedy.
        reason: String,
    },
}

impl Change {
    /// Returns the audit record of the change.
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
                    .because("its grants have changed")
            }
            Self::Unread { file, reason } => {
                AuditRecord::new(AuditKind::Refusal, "host", "refused").of_file(file).because(reason)
            }
        }
    }
}
