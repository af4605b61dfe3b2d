//! The programs that the host starts: itself and the configured servers, with the scripts that
//! their command lines name.

use super::protected_path::{ProtectedPath, from_here};
use crate::config::{Config, ServerPlace};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tollgate_sandbox::Compiler;

/// The maximum number of bytes read from a script's first line.
const MAX_FIRST_LINE: u64 = 512;
/// Programs that run a directory as a program. To any other program, a directory is data.
const RUNNERS: [&str; 11] =
    ["node", "deno", "bun", "npm", "pnpm", "yarn", "python", "pypy", "uv", "ruby", "php"];
/// Files that make a directory a program.
const MAIN_FILES: [&str; 7] =
    ["package.json", "index.js", "index.mjs", "deno.json", "pyproject.toml", "__main__.py", "__init__.py"];

/// Returns the programs that a host with this configuration starts.
pub(super) fn of(config: &Config) -> Vec<ProtectedPath> {
    let mut programs = Vec::new();
    let own = std::env::current_exe().ok().into_iter();
    let compiler = match &config.limits.sandbox.compiler {
        Compiler::Child { program, .. } => Some(program.clone()),
        Compiler::InProcess => None,
    };
    programs.extend(own.chain(compiler).map(|path| ProtectedPath::new(path, "the program tollgate")));
    for (name, server) in &config.servers {
        if let ServerPlace::Process { command, args, env } = &server.place {
            let what = format!("a program of [mcp.{name}]");
            let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
            let runs_directories = RUNNERS.iter().any(|runner| name.starts_with(runner));
            let started = ServerCommand { base_dir: &config.base_dir, env, runs_directories };
            programs.extend(
                started.files(command, args).into_iter().map(|path| ProtectedPath::new(path, what.clone())),
            );
        }
    }
    programs
}

/// The command of a server.
struct ServerCommand<'a> {
    base_dir: &'a Path,
    env: &'a BTreeMap<String, String>,
    runs_directories: bool,
}

impl ServerCommand<'_> {
    /// Returns every file and directory that decides what code runs.
    fn files(&self, command: &str, args: &[String]) -> Vec<PathBuf> {
        let mut files = self.program(command);
        files.extend(args.iter().flat_map(|arg| self.named_by(arg)));
        let searched = self.env.iter().filter(|(name, _)| name.ends_with("PATH") && *name != "PATH");
        files.extend(searched.flat_map(|(_, paths)| std::env::split_paths(paths).map(|path| self.at(&path))));
        // Package runners look for programs there first.
        files.push(self.at(Path::new("node_modules")));
        let interpreters: Vec<PathBuf> = files.iter().flat_map(|file| self.interpreters(file)).collect();
        files.extend(interpreters);
        files
    }

    /// Returns the files of the interpreter that a script's first line names, and of the program that
    /// `env` starts if that is the interpreter.
    fn interpreters(&self, script: &Path) -> Vec<PathBuf> {
        let line = first_line(script).unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else { return Vec::new() };
        let mut files = self.program(interpreter);
        if interpreter.ends_with("/env") {
            let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
            files.extend(named.into_iter().flat_map(|word| self.program(word)));
        }
        files
    }

    /// Returns the files to which a program's name may refer: the file at this path, or the one that a
    /// search of `PATH` finds, and those that would be found before it.
    fn program(&self, command: &str) -> Vec<PathBuf> {
        if command.contains('/') {
            // Systems disagree on the base of a relative path.
            return vec![self.at(Path::new(command)), from_here(Path::new(command))];
        }
        let path = self.env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
        let mut candidates = Vec::new();
        for directory in std::env::split_paths(&path.unwrap_or_default()) {
            let file = self.at(&directory).join(command);
            let exists = file.is_file();
            candidates.push(file);
            if exists {
                break;
            }
        }
        candidates
    }

    /// Returns the path that an argument names: a file, which need not exist yet, or a
    /// directory that is a program. Other directories are data of the server.
    fn named_by(&self, argument: &str) -> Option<PathBuf> {
        let value = match argument.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ if argument.starts_with('-') => return None,
            _ => argument,
        };
        let path = self.at(Path::new(value.strip_prefix("file://").unwrap_or(value)));
        let has_main = || MAIN_FILES.iter().any(|name| path.join(name).is_file());
        let is_program = !path.is_dir() || (self.runs_directories && has_main());
        (!value.is_empty() && is_program).then_some(path)
    }

    fn at(&self, path: &Path) -> PathBuf {
        from_here(&self.base_dir.join(path))
    }
}

/// Reads the first line of a script, after `#!`.
fn first_line(file: &Path) -> Option<String> {
    let mut start = Vec::new();
    let open = tollgate_sandbox::open_regular(&file.canonicalize().ok()?).ok()?;
    open.take(MAX_FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}
