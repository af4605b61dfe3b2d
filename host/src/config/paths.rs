//! The usual directories, and how relative paths of the configuration are resolved.

use std::path::{Path, PathBuf};

/// The default directory of tools.
pub const DEFAULT_TOOLS_DIR: &str = "tools";
/// The default directory of gates.
pub const DEFAULT_GATES_DIR: &str = "gates";

/// Resolves a path of the configuration. A base directory of `.` is left out.
pub(super) fn in_dir(base_dir: &Path, path: &Path) -> PathBuf {
    match base_dir == Path::new(".") {
        true => path.to_owned(),
        false => base_dir.join(path),
    }
}
