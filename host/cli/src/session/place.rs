//! The program's own directories and its child processes, which the command line adds to a
//! configuration.

use crate::globals::Globals;
use crate::session::data::data_dir;
use crate::terminal::Failure;
use etcetera::BaseStrategy;
use std::path::PathBuf;
use std::process::ExitCode;
use tollgate::config::Config;
use tollgate_sandbox::Compiler;

/// The internal argument that starts a child to compile one component. The child reads a component
/// on standard input and answers with machine code.
const COMPILE_CHILD: &str = "compile-child";

/// The internal argument that turns this program into a server that ends with its parent.
#[cfg(all(target_os = "linux", feature = "mcp"))]
const SERVER_CHILD: &str = "server-child";

/// The internal argument that starts a child to end a server's process group once its own input is
/// closed.
#[cfg(all(target_os = "linux", feature = "mcp"))]
const GROUP_KEEPER: &str = "group-keeper";

/// Runs the child's job if this process is a child of this program.
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

/// Becomes the server that the arguments name. The first argument is the id of the process that
/// started this one: when it ends, the system kills the server.
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
        // The parent has already ended.
        return ExitCode::FAILURE;
    }
    // `exec` returns only if the command cannot be started.
    let _ = std::process::Command::new(command).args(args).exec();
    ExitCode::from(127)
}

/// Kills the process group that the argument names, which is this process's own, once the other end
/// of its input is closed.
#[cfg(all(target_os = "linux", feature = "mcp"))]
fn keep_group() -> ExitCode {
    use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
    let group = std::env::args().nth(2).and_then(|id| Pid::from_raw(id.parse().ok()?));
    if group != Some(getpgrp()) {
        return ExitCode::from(2);
    }
    // Nothing is ever written to it; reading ends when it is closed.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let _ = kill_process_group(getpgrp(), Signal::KILL);
    ExitCode::SUCCESS
}

#[cfg(all(target_os = "linux", feature = "mcp"))]
fn server_launcher() -> Vec<std::ffi::OsString> {
    // The link resolves to the program of the parent, even if its file was replaced meanwhile.
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
    /// Reads the configuration that the options name, and adds this machine's directories.
    pub(crate) fn read_config(&self) -> Result<Config, Failure> {
        self.placed(Config::load(self.config.as_deref())?)
    }

    /// Adds this machine's directories to a configuration.
    pub(crate) fn placed(&self, mut config: Config) -> Result<Config, Failure> {
        #[cfg(not(feature = "mcp"))]
        if let Some(name) = config.servers.keys().next() {
            let why = "this program was built without servers of that protocol";
            return Err(Failure::usage(format!("[mcp.{name}]: {why}")));
        }
        let sandbox = &mut config.limits.sandbox;
        sandbox.compiler = Compiler::this_program(COMPILE_CHILD)
            .map_err(|e| Failure::failed(format!("cannot determine the path of this program: {e}")))?;
        // Without a home directory there is no cache, and each start compiles anew.
        sandbox.cache_dir = self.cache.clone().or_else(user_cache);
        // Without a data directory, the commands that need one fail with a message.
        config.data_dir = data_dir(self).ok();
        let token = self.token_variable.iter();
        config.held_variables.extend(token.map(|name| (name.clone(), "the token of --token-env".to_owned())));
        config.launcher = server_launcher();
        config.group_keeper = group_keeper();
        Ok(config)
    }
}

/// Returns the user's cache directory of this program.
pub(crate) fn user_cache() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("tollgate"))
}
