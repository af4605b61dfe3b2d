//! Checks of grants before they are written, and the file to which they are written.

use crate::terminal::text::shown_line;
use crate::terminal::{Failure, program};
use std::io::ErrorKind;
use std::path::PathBuf;
use tollgate::config::{Config, Edit, FILE_NAME, FileGrantConfig, Grant, GrantKind};
use tollgate::grants::check_files;
use tollgate_agent::text::quoted;
use tollgate_sandbox::{FileAccess, FileGrant};

/// Returns the file of a configuration, which may not exist yet.
pub(crate) fn file_of(config: &Config) -> PathBuf {
    config.file.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME))
}

/// Checks the grants that a component would have after an edit. Of the directories, it opens only those
/// in `typed`, the grants that were just named: earlier ones may no longer exist. `placed` is the current
/// configuration, with its paths on this machine.
///
/// # Errors
/// The edited configuration is not valid, a directory belongs to the host, or one cannot be opened.
pub(crate) fn check(edit: &Edit, id: &str, typed: &[Grant], placed: &Config) -> Result<(), Failure> {
    // The error begins with a position in the edited file, which was not written.
    let granted = edit.preview().map_err(|why| {
        let why = why.to_string();
        let first = why.lines().next().unwrap_or_default();
        let why = first.split_once(": ").map_or(first, |(_, why)| why);
        Failure::usage(format!("nothing was granted to {id}: {why}"))
    })?;
    let granted = granted.grants_of(id);
    check_files(&granted, id, placed).map_err(|e| Failure::usage(e.to_string()))?;
    let is_typed = |file: &&FileGrantConfig| {
        typed.iter().any(|grant| grant.kind == GrantKind::Files && grant.name == file.guest)
    };
    granted.files().filter(is_typed).try_for_each(|file| check_directory(file, id))
}

/// Opens a directory as it is opened for the component, to refuse a grant that would keep the
/// component from being served.
fn check_directory(file: &FileGrantConfig, id: &str) -> Result<(), Failure> {
    let Err(why) = FileGrant::open(&file.host, file.guest.as_str(), file.access) else { return Ok(()) };
    let shown = quoted(&shown_line(&file.host.display().to_string(), 300));
    let remedy = match std::fs::symlink_metadata(&file.host) {
        Err(e) if e.kind() == ErrorKind::NotFound => format!("create it first: mkdir -p {shown}"),
        Ok(found) if found.is_symlink() => format!("grant the directory itself: readlink -f {shown}"),
        Ok(found) if !found.is_dir() => {
            let option = if file.access == FileAccess::Read { "--read" } else { "--write" };
            let parent = file.host.parent().map(|parent| parent.display().to_string());
            let parent = parent.filter(|parent| !parent.is_empty()).unwrap_or_else(|| ".".to_owned());
            let value = quoted(&format!("{}={}", shown_line(&parent, 300), shown_line(&file.guest, 300)));
            format!("grant the directory that holds it: {} grant {id} {option} {value}", program())
        }
        _ => format!("look at its path and mode: ls -ld {shown}"),
    };
    Err(Failure::usage(format!("nothing was granted: {why}; {remedy}")))
}
