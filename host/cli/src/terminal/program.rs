//! How this program was called, for commands that are shown.

use std::path::Path;
use std::sync::OnceLock;
use tollgate_agent::text::{clean, quoted};

/// The `--config` and `--data` options of this command line, for commands that are shown.
static NAMED: OnceLock<String> = OnceLock::new();

/// Adds these options, with absolute paths, to all commands that are shown from now on.
pub(crate) fn remember_named(config: Option<&Path>, data: Option<&Path>) {
    let mut words = String::new();
    for (option, path) in [("--config", config), ("--data", data)] {
        if let Some(path) = path.and_then(|path| std::path::absolute(path).ok()) {
            words.push_str(&format!(" {option} {}", quoted(&clean(&path.display().to_string(), 4_096))));
        }
    }
    // Set only once, before any command runs.
    let _ = NAMED.set(words);
}

/// Returns how this program was called, with its configuration and store, so that a command that is
/// shown can be typed.
pub(crate) fn program() -> String {
    let typed = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    let relative = std::env::current_dir()
        .ok()
        .and_then(|here| Path::new(&typed).strip_prefix(here).ok().map(|path| path.display().to_string()));
    let program = match relative.unwrap_or(typed) {
        typed if typed.is_empty() => "tollgate".to_owned(),
        typed => clean(&typed, 300),
    };
    program + NAMED.get().map_or("", String::as_str)
}
