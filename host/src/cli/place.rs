//! Where the program keeps what is its own, and that its compiler is a child of it:
//! what the command line adds to a configuration.

use super::data::data_dir;
use super::{Failure, Globals};
use etcetera::BaseStrategy;
use std::path::PathBuf;
use std::process::ExitCode;
use tollgate::config::Config;
use tollgate_sandbox::Compiler;

/// What a child of this program is started with to compile one component. No verb for
/// a person: it reads a component on standard input, and answers in machine code.
const COMPILE_CHILD: &str = "compile-child";

/// What this program is started with to become a server that ends with its parent. No verb
/// for a person.
#[cfg(all(target_os = "linux", feature = "mcp"))]
const SERVER_CHILD: &str = "server-child";

/// What this program is started with to end the group of a server once its input is closed.
/// No verb for a person.
#[cfg(all(target_os = "linux", feature = "mcp"))]
const GROUP_KEEPER: &str = "group-keeper";

/// Does what a child of this program is for, where this process is one.
pub(crate) fn as_child() -> Option<ExitCode> {
    let verb = std::env::args_os().nth(1)?;
    #[cfg(all(target_os = "linux", feature = "mcp"))]
    if verb == SERVER_CHILD {
        return Some(become_server());
    }
    #[cfg(all(target_os = "linux", feature = "mcp"))]
    if verb == GROUP_KEEPER {
        return Some(keep_group());
    }
    (verb == COMPILE_CHILD).then(tollgate_sandbox::compile_child)
}

/// Becomes the server that the arguments name, after the id of the process that started this
/// one: when that process ends, the system kills the server.
#[cfg(all(target_os = "linux", feature = "mcp"))]
fn become_server() -> ExitCode {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt as _;
    let mut args = std::env::args_os().skip(2);
    let (parent, command) = (args.next(), args.next());
    let parent = parent.and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let Some(command) = command else { return ExitCode::from(2) };
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || parent.is_none() || getppid() != parent
    {
        // The parent is gone already.
        return ExitCode::FAILURE;
    }
    // It returns only if the command cannot be started.
    let _ = std::process::Command::new(command).args(args).exec();
    ExitCode::from(127)
}

/// Kills the process group that the argument names, which is this process's own, once nobody
/// holds the other end of its input.
#[cfg(all(target_os = "linux", feature = "mcp"))]
fn keep_group() -> ExitCode {
    use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
    let group = std::env::args().nth(2).and_then(|id| Pid::from_raw(id.parse().ok()?));
    if group != Some(getpgrp()) {
        return ExitCode::from(2);
    }
    // Nobody writes to it.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let _ = kill_process_group(getpgrp(), Signal::KILL);
    ExitCode::SUCCESS
}

#[cfg(all(target_os = "linux", feature = "mcp"))]
fn server_launcher() -> Vec<std::ffi::OsString> {
    // Of the process that starts it: this program, even where its file is replaced meanwhile.
    vec!["/proc/self/exe".into(), SERVER_CHILD.into()]
}

#[cfg(not(all(target_os = "linux", feature = "mcp")))]
fn server_launcher() -> Vec<std::ffi::OsString> {
    Vec::new()
}

#[cfg(all(target_os = "linux", feature = "mcp"))]
fn group_keeper() -> Vec<std::ffi::OsString> {
    vec!["/proc/self/exe".into(), GROUP_KEEPER.into()]
}

#[cfg(not(all(target_os = "linux", feature = "mcp")))]
fn group_keeper() -> Vec<std::ffi::OsString> {
    Vec::new()
}

impl Globals {
    /// The configuration that was named, at its place on this machine.
    pub(crate) fn read_config(&self) -> Result<Config, Failure> {
        self.placed(Config::load(self.config.as_deref())?)
    }

    /// A configuration at its place on this machine.
    pub(crate) fn placed(&self, mut config: Config) -> Result<Config, Failure> {
        let sandbox = &mut config.limits.sandbox;
        sandbox.compiler = Compiler::this_program(COMPILE_CHILD)
            .map_err(|e| Failure::failed(format!("the system does not say where this program lies: {e}")))?;
        // Without a home directory there is no cache, and each start compiles anew.
        sandbox.cache_dir = self.cache.clone().or_else(user_cache);
        // Where there is none, the verbs that need one say so.
        config.data_dir = data_dir(self).ok();
        let token = self.token_variable.iter();
        config.held_variables.extend(token.map(|name| (name.clone(), "the token of --token-env".to_owned())));
        config.launcher = server_launcher();
        config.group_keeper = group_keeper();
        Ok(config)
    }
}

fn user_cache() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("tollgate"))
}
