//! External compilers: how they are found on the path, run, and reported if they are missing or fail.

use super::super::error::BuildError;
use super::super::toolchains;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The running time after which a compiler is first reported as still running. Each further report
/// comes after twice the time of the one before.
const FIRST_REPORT: Duration = Duration::from_secs(4);
/// The interval at which a running compiler is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A program that a language needs.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The names to look for, in this order.
    pub(crate) names: &'static [&'static str],
    /// The command that installs it.
    pub(crate) install: &'static str,
}

impl Program {
    /// Returns a command that runs it in `dir`, with its output on standard error.
    ///
    /// # Errors
    /// It is not installed; the error names the command that installs it.
    pub(crate) fn command(&self, dir: &Path) -> Result<Command, BuildError> {
        let path = self.find().ok_or_else(|| {
            BuildError::Failed(format!("{} is not installed; run: {}", self.names[0], self.install))
        })?;
        let mut command = Command::new(path);
        // Compilers look for each other on the path.
        command.env("PATH", Self::search_path());
        // A compiler in Rust would add a backtrace of its own to each error of the code.
        command.env_remove("RUST_BACKTRACE");
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
        Ok(command)
    }

    /// Identifies the installed program by its file (links resolved), size and modification time.
    /// `None` if it is not installed.
    pub(crate) fn identity(&self) -> Option<String> {
        let file = self.find()?.canonicalize().ok()?;
        let metadata = file.metadata().ok()?;
        let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some(format!("{} {} {} {time}", self.names[0], file.display(), metadata.len()))
    }

    /// Returns the directories in which programs are looked for, in the format of the variable `PATH`:
    /// those of that variable, then the one that `tollgate toolchains install` fills.
    pub(crate) fn search_path() -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = toolchains::dir().map(|dir| dir.join("bin"));
        let dirs = std::env::split_paths(&path).chain(installed);
        std::env::join_paths(dirs).unwrap_or(path)
    }

    /// Returns its path if it is installed.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        let dirs: Vec<PathBuf> = std::env::split_paths(&Self::search_path()).collect();
        let in_dirs = |name: &&str| dirs.iter().map(|dir| dir.join(name)).find(|file| file.is_file());
        self.names.iter().find_map(in_dirs)
    }
}

/// Runs a compiler until it ends. Reports slow compilers as still running, because most print
/// nothing meanwhile.
///
/// # Errors
/// It cannot be run or fails; its own output is on standard error.
pub(super) fn run(mut command: Command, source: &Path, say: &dyn Fn(&str)) -> Result<(), BuildError> {
    let path = command.get_program().to_string_lossy().into_owned();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
    let status = command.spawn().and_then(|child| wait(child, &name, say));
    let status = status.map_err(|e| BuildError::Failed(format!("{path} cannot be run: {e}")))?;
    check_status(status, source, &path)
}

/// Runs a compiler, and prints its output on standard error as `rewrite` changes it.
///
/// # Errors
/// It cannot be run or fails; its own output is on standard error.
pub(super) fn run_rewritten(
    mut command: Command,
    source: &Path,
    rewrite: impl Fn(&str) -> String,
) -> Result<(), BuildError> {
    let path = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|e| BuildError::Failed(format!("{path} cannot be run: {e}")))?;
    eprint!("{}", rewrite(&String::from_utf8_lossy(&output.stderr)));
    check_status(output.status, source, &path)
}

fn check_status(status: ExitStatus, source: &Path, compiler: &str) -> Result<(), BuildError> {
    if !status.success() {
        return Err(BuildError::Failed(format!(
            "{} does not compile ({status}); see the output of {compiler} above",
            source.display()
        )));
    }
    Ok(())
}

/// Runs a program that lists the files that a source needs, and returns its standard output.
///
/// # Errors
/// It cannot be run or fails; its own output is on standard error.
pub(super) fn list_files(mut command: Command, source: &Path) -> Result<String, BuildError> {
    let path = command.get_program().to_string_lossy().into_owned();
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| BuildError::Failed(format!("{path} cannot be run: {e}")))?;
    if !output.status.success() {
        return Err(BuildError::Failed(format!(
            "{path} failed to list the files of {} ({}); see its output above",
            source.display(),
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until a program has ended. Reports a slow one by this name as still running.
pub(crate) fn wait(mut child: Child, name: &str, say: &dyn Fn(&str)) -> io::Result<ExitStatus> {
    let (started, mut next_report) = (Instant::now(), FIRST_REPORT);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() >= next_report {
            say(&format!("{name} is still running after {} s", next_report.as_secs()));
            next_report *= 2;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
