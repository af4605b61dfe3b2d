//! Commands that are shown to a person: how this program was called, and the commands and options that
//! resolve errors of the library.

use crate::terminal::text::shown_marked;
use std::fmt::Display;
use std::path::Path;
use std::sync::OnceLock;
use tollgate::store::Remedy;
use tollgate::tools::RefusedFile;
use tollgate::tools::directory::{FileRemedy, Notice};
use tollgate_agent::text::{clean, quoted};
use tollgate_registry::{self as registry, Code};

/// Returns the message of an error, followed by the command that resolves it.
pub(crate) fn with_command(error: impl Display, remedy: Option<&Remedy>) -> String {
    let message = error.to_string();
    let Some(remedy) = remedy else { return message };
    let is_alternative = matches!(remedy, Remedy::OtherDirectory | Remedy::MakeRoom);
    // An alternative to what the message itself says to do.
    let joint = if is_alternative && message.contains("; ") { ", or" } else { ";" };
    format!("{message}{joint} {}", of_store(remedy))
}

/// Returns the command that resolves an error of the store, with what it does.
pub(crate) fn of_store(remedy: &Remedy) -> String {
    let program = program();
    match remedy {
        Remedy::OtherDirectory => "name another directory with --data".to_owned(),
        Remedy::CopyDirectory => {
            "copy its directory to a place that can be written, and name that with --data".to_owned()
        }
        Remedy::Verify => format!("`{program} store verify` looks for damage"),
        Remedy::MakeRoom => format!(
            "change the limit in [store] of tollgate.toml, or remove old runs with `{program} prune \
             --older-than 30d`"
        ),
        Remedy::ShowRun(run_id) => {
            format!("`{program} show {run_id}` shows what is left, `{program} store verify` checks every run")
        }
        Remedy::Resume => {
            format!(
                "`{program} show RUN` shows what is left, and `{program} resume RUN` continues from there"
            )
        }
        Remedy::CreateSchema => format!("run `{program} store init`"),
        Remedy::MigrateSchema => format!("run `{program} store migrate`"),
        Remedy::GrantPrivileges => format!(
            "grant it as `{program} store init --print` shows, or restore the database from a backup if a \
             table is missing"
        ),
        Remedy::PruneAsOwner => format!(
            "run `{program} prune --store postgres://OWNER@HOST/DATABASE` as the role that created the tables"
        ),
        Remedy::RepeatCopy => format!("run `{program} store copy` again"),
    }
}

/// Returns the message of a registry's or the lock file's error, followed by the command that
/// resolves it.
pub(crate) fn of_registry(error: &registry::Error) -> String {
    let program = program();
    let command = match (error.remedy(), error.code) {
        (Some(remedy), _) => of_lock(remedy, &program),
        (None, Code::InvalidJson | Code::ForeignLayer | Code::UnlistedLayer | Code::ImportsMismatch) => {
            format!("{program} publish")
        }
        (None, Code::NotWasm) => format!("`{program} build` makes one, and `{program} publish` publishes it"),
        (None, Code::UnknownKey) => "--key FILE".to_owned(),
        (None, _) => return error.to_string(),
    };
    format!("{error}: {command}")
}

/// Returns the command of a step that resolves an error of the lock file.
fn of_lock(remedy: &registry::Remedy, program: &str) -> String {
    use registry::Remedy::{Accept, Add, AddAgain, List, MoveTag, OtherName, Remove, Restore, Update};
    match remedy {
        Add => format!("{program} add SOURCE"),
        Accept { source } => format!("{program} add {}", quoted(source)),
        AddAgain { id, source } => format!("{program} remove {id} && {program} add {}", quoted(source)),
        Restore { id } => format!("{program} sync; see what differs: {program} verify {id}"),
        Update { id } => format!("{program} update {id}"),
        Remove { id } => format!("{program} remove {id}"),
        List => format!("{program} verify"),
        OtherName => "--as NAME".to_owned(),
        MoveTag => "--replace".to_owned(),
    }
}

/// Returns why a file is not served, and the command that resolves it. The reason may quote a
/// stranger, whose lines are marked.
pub(crate) fn of_file(refused: &RefusedFile) -> String {
    followed_by_command(shown_marked(&refused.reason), refused.remedy.as_ref())
}

/// Returns a notice, followed by the command that resolves what it is about.
pub(crate) fn of_notice(notice: &Notice) -> String {
    followed_by_command(notice.text.clone(), notice.remedy.as_ref())
}

fn followed_by_command(message: String, remedy: Option<&FileRemedy>) -> String {
    match remedy {
        Some(remedy) => format!("{message}: {}", of_refusal(remedy, &program())),
        None => message,
    }
}

/// Returns the commands that get a file served, for those who may not see the directories of this machine: the
/// program is named without its path, and a file from the directory of the configuration, or by its name alone.
#[cfg(feature = "mcp")]
pub(crate) fn commands_for(refused: &RefusedFile, base_dir: &Path) -> Option<String> {
    let name = |path: &Path| {
        let below = path.strip_prefix(base_dir).ok().filter(|below| below.is_relative());
        below.or_else(|| path.file_name().map(Path::new)).unwrap_or(path).to_owned()
    };
    let shown = match refused.remedy.clone()? {
        FileRemedy::Approve { id, file } => FileRemedy::Approve { id, file: name(&file) },
        FileRemedy::ApproveOne { id, file, rival } => {
            FileRemedy::ApproveOne { id, file: name(&file), rival: name(&rival) }
        }
        other => other,
    };
    Some(of_refusal(&shown, "tollgate"))
}

/// Returns the commands that get a file served.
fn of_refusal(remedy: &FileRemedy, program: &str) -> String {
    let typed = |path: &Path| quoted(&clean(&path.display().to_string(), 300));
    match remedy {
        FileRemedy::Approve { id, file } => {
            format!("{program} inspect {}; {program} grant {id} --asked", typed(file))
        }
        FileRemedy::ApproveOne { id, file, rival } => {
            let (file, rival) = (typed(file), typed(rival));
            format!(
                "{program} inspect {file}; {program} inspect {rival}; {program} grant {id} --asked --file {file}"
            )
        }
        FileRemedy::Restore => format!("{program} sync"),
        FileRemedy::Lock(remedy) => of_lock(remedy, program),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Cli;
    use clap::Parser as _;

    #[test]
    fn each_command_that_is_shown_can_be_typed() {
        let id = || "echo".to_owned();
        let mut of_stores =
            vec![Remedy::Verify, Remedy::MakeRoom, Remedy::ShowRun("r".to_owned()), Remedy::Resume];
        if cfg!(feature = "postgres") {
            of_stores.extend([Remedy::CreateSchema, Remedy::MigrateSchema, Remedy::GrantPrivileges]);
            of_stores.extend([Remedy::PruneAsOwner, Remedy::RepeatCopy]);
        }
        let of_stores = of_stores.iter().map(|remedy| with_command("it failed", Some(remedy)));
        let of_lock = [
            registry::Remedy::Add,
            registry::Remedy::Accept { source: "oci://ghcr.io/acme/echo".to_owned() },
            registry::Remedy::AddAgain { id: id(), source: "echo.wasm".to_owned() },
            registry::Remedy::Restore { id: id() },
            registry::Remedy::Update { id: id() },
            registry::Remedy::Remove { id: id() },
            registry::Remedy::List,
        ];
        let of_files = [
            FileRemedy::Approve { id: id(), file: "a.wasm".into() },
            FileRemedy::ApproveOne { id: id(), file: "a.wasm".into(), rival: "b.wasm".into() },
            FileRemedy::Restore,
        ];
        let of_files = of_files.into_iter().chain(of_lock.into_iter().map(FileRemedy::Lock));
        for shown in of_stores.chain(of_files.map(|remedy| of_refusal(&remedy, &program()))) {
            let commands: Vec<_> = shown.split(&format!("{} ", program())).skip(1).collect();
            assert!(!commands.is_empty(), "{shown}");
            for typed in commands {
                let typed = typed.split(['`', ';', '&']).next().unwrap_or_default();
                let words = std::iter::once("tollgate").chain(typed.split_whitespace());
                let refused = Cli::try_parse_from(words).err().map(|why| why.to_string());
                assert_eq!(refused, None, "{shown}");
            }
        }
    }

    #[cfg(feature = "mcp")]
    #[test]
    fn a_file_is_named_from_the_directory_of_the_configuration_or_by_its_name() {
        let remedy =
            FileRemedy::Approve { id: "echo".to_owned(), file: "/srv/tollgate/tools/echo.wasm".into() };
        let refused = RefusedFile {
            file: "/srv/tollgate/tools/echo.wasm".into(),
            reason: "it asks for more".to_owned(),
            remedy: Some(remedy),
            still_serves: None,
        };
        for (base_dir, file) in [("/srv/tollgate", "tools/echo.wasm"), ("/etc/tollgate", "echo.wasm")] {
            let expected = format!("tollgate inspect {file}; tollgate grant echo --asked");
            assert_eq!(commands_for(&refused, Path::new(base_dir)), Some(expected));
        }
        assert_eq!(commands_for(&RefusedFile { remedy: None, ..refused }, Path::new("")), None);
    }

    #[test]
    fn an_alternative_follows_what_the_message_says_to_do() {
        let other = Some(&Remedy::OtherDirectory);
        let first = "it failed; name another directory with --data";
        assert_eq!(with_command("it failed", other), first);
        let second = "it failed; check it, or name another directory with --data";
        assert_eq!(with_command("it failed; check it", other), second);
        assert_eq!(with_command("it failed", None), "it failed");
    }
}
