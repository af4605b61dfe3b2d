//! The reason why a server is not connected.

use tollgate_agent::text::one_line;

/// The maximum length of the reason for a lost server, in bytes.
pub(super) const MAX_WHY_BYTES: usize = 1_000;

/// The reason why a server is not connected.
#[derive(Debug)]
pub(super) struct ConnectionFailure {
    /// The reason, as a clause without a period.
    pub(super) why: String,
    /// Whether no server responded at all, for example because its program does not start.
    pub(super) is_unanswered: bool,
    /// Whether it sends or lists more than a server may. Its tools are then removed.
    pub(super) exceeds: bool,
    /// Whether nothing that happens while this process runs can change it. The server is then not tried
    /// again.
    pub(super) is_permanent: bool,
}

impl ConnectionFailure {
    /// Creates a reason, which may quote the server: it becomes one sanitized line.
    pub(super) fn because(why: impl AsRef<str>) -> Self {
        Self {
            why: one_line(why.as_ref(), MAX_WHY_BYTES),
            is_unanswered: false,
            exceeds: false,
            is_permanent: false,
        }
    }

    /// Creates the reason of a server that did not respond at all.
    pub(super) fn unanswered(why: impl AsRef<str>) -> Self {
        Self { is_unanswered: true, ..Self::because(why) }
    }

    /// Creates a reason that no further attempt can change.
    pub(super) fn permanent(why: impl AsRef<str>) -> Self {
        Self { is_unanswered: true, is_permanent: true, ..Self::because(why) }
    }

    /// Creates the reason of a server that exceeded a limit.
    pub(super) fn exceeds(why: impl AsRef<str>) -> Self {
        Self { exceeds: true, ..Self::because(why) }
    }
}
