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

/// Does what a child of this program is for, where this process is one.
pub(crate) fn as_compile_child() -> Option<ExitCode> {
    let is_child = std::env::args_os().nth(1).is_some_and(|verb| verb == COMPILE_CHILD);
    is_child.then(tollgate_sandbox::compile_child)
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
        Ok(config)
    }
}

fn user_cache() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("tollgate"))
}
