//! The process of a server. It leads its own process group, so that its child processes end with
//! it. It does not outlive the host, however the host ends.

use super::failure::ConnectionFailure;
use super::output::ProcessOutput;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How long a server may take to end after its input is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// How long it may take after that, once it received a signal to terminate.
const TERMINATE_GRACE: Duration = Duration::from_millis(500);

/// How long to wait for the exit status of a server that sent nothing.
const END_GRACE: Duration = Duration::from_secs(1);
/// How long its standard error is read after that. It ends with the processes of its group, unless one
/// that left the group keeps it open.
const ERRORS_GRACE: Duration = Duration::from_secs(1);

/// The program of a server and its surroundings.
pub(super) struct Program<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) base_dir: &'a Path,
    /// See [`Config::launcher`](tollgate::config::Config::launcher).
    pub(super) launcher: &'a [OsString],
    /// See [`Config::group_keeper`](tollgate::config::Config::group_keeper).
    pub(super) keeper: &'a [OsString],
}

/// A server's process. Dropping it kills its group.
pub(super) struct ServerProcess {
    child: Child,
    group: Option<Pid>,
    /// Kills the group once its input is closed, which happens when this process ends.
    _keeper: Option<Child>,
    output: Arc<ProcessOutput>,
    /// The task that reads its standard error.
    errors: Option<JoinHandle<()>>,
    /// Its standard output, until it has answered.
    unanswered: Option<OwnedFd>,
}

impl ServerProcess {
    /// Starts the process with a clean environment.
    pub(super) fn start(program: &Program<'_>) -> Result<Self, ConnectionFailure> {
        let Program { command, args, env, base_dir, launcher, keeper } = program;
        let failed =
            |e: io::Error| ConnectionFailure::unanswered(format!("`{command}` cannot be started: {e}"));
        let mut start = match launcher {
            [] => Command::new(command),
            [launcher, first @ ..] => {
                // The launcher could not report why the program does not start.
                find(command, base_dir).map_err(failed)?;
                let mut start = Command::new(launcher);
                start.args(first).arg(std::process::id().to_string()).arg(command);
                start
            }
        };
        start
            .args(*args)
            .env_clear()
            .envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(*env)
            .current_dir(base_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = spawn(start).map_err(failed)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let keeper = group.and_then(|group| keep_group(group, keeper));
        let output = Arc::<ProcessOutput>::default();
        let errors = child.stderr.take().map(|stderr| output.read_errors(stderr));
        Ok(Self { child, group, _keeper: keeper, output, errors, unanswered: None })
    }

    /// Returns its output besides its messages.
    pub(super) fn output(&self) -> &Arc<ProcessOutput> {
        &self.output
    }

    /// Returns its exit status if it has ended or ends shortly, after reading what it wrote.
    pub(super) async fn ended_soon(&mut self) -> Option<ExitStatus> {
        let status = tokio::time::timeout(END_GRACE, self.child.wait()).await.ok()?.ok()?;
        // Its child processes may keep its standard error open.
        self.signal(Signal::KILL);
        self.group = None;
        if let Some(errors) = &mut self.errors {
            let _ = tokio::time::timeout(ERRORS_GRACE, errors).await;
        }
        if let Some(stdout) = self.unanswered.take() {
            self.output.read_rest(stdout);
        }
        Some(status)
    }

    /// Takes its standard streams; returns them only once.
    pub(super) fn streams(&mut self) -> Option<(ChildStdout, ChildStdin)> {
        let (stdout, stdin) = (self.child.stdout.take()?, self.child.stdin.take()?);
        self.unanswered = stdout.as_fd().try_clone_to_owned().ok();
        Some((stdout, stdin))
    }

    /// Notes that the server has answered.
    pub(super) fn answered(&mut self) {
        self.unanswered = None;
    }

    /// Returns whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Ends the process after its input is closed. It may end by itself for a while, then it is
    /// terminated, and then killed.
    pub(super) async fn end(mut self) {
        if tokio::time::timeout(CLOSE_GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(TERMINATE_GRACE, self.child.wait()).await;
        }
        // Its child processes may still be running.
        self.signal(Signal::KILL);
        let _ = tokio::time::timeout(TERMINATE_GRACE, self.child.wait()).await;
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(errors) = &self.errors {
            errors.abort();
        }
        // The id of a process that was waited for may have been reused.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
        }
    }
}

/// Starts the process that ends the group when this process ends. Returns `None` if none is
/// configured, or if the group is gone already.
fn keep_group(group: Pid, keeper: &[OsString]) -> Option<Child> {
    let [program, first @ ..] = keeper else { return None };
    let group = group.as_raw_nonzero().get();
    let mut start = Command::new(program);
    start.args(first).arg(group.to_string()).env_clear();
    start.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    start.process_group(group).kill_on_drop(true).spawn().ok()
}

/// Returns whether the program of a server exists: below the directory if its name has a slash, else
/// on the path.
#[must_use]
pub fn is_program(command: &str, base_dir: &Path) -> bool {
    match command.contains('/') {
        true => base_dir.join(command).is_file(),
        false => std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(command).is_file())),
    }
}

fn find(command: &str, base_dir: &Path) -> io::Result<()> {
    match is_program(command, base_dir) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error())),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts a process from a thread that lives as long as this process: a launched child is killed
/// when the thread that started it ends.
fn spawn(mut command: Command) -> io::Result<Child> {
    static THREAD: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (jobs, todo) = mpsc::channel::<Job>();
        let work = move || todo.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("tollgate-spawn".to_owned()).spawn(work).ok().map(|_| jobs)
    });
    let Some(thread) = thread else { return command.spawn() };
    let (handle, (reply, answer)) = (Handle::current(), mpsc::channel());
    let job = move || {
        let _runtime = handle.enter();
        let _ = reply.send(command.spawn());
    };
    let gone = || io::Error::other("the thread that starts processes is gone");
    thread.send(Box::new(job)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn l5_what_a_server_wrote_before_it_ended_is_shown_although_no_one_read_it() {
        let args = ["-c", "echo 'usage: server'; echo 'no input' >&2; exit 2"].map(str::to_owned);
        let program = Program {
            command: "/bin/sh",
            args: &args,
            env: &BTreeMap::new(),
            base_dir: Path::new("/"),
            launcher: &[],
            keeper: &[],
        };
        let mut process = ServerProcess::start(&program).unwrap();
        let streams = process.streams();
        assert_eq!(process.ended_soon().await.and_then(|status| status.code()), Some(2));
        let shown = process.output().shown();
        assert!(shown.contains("\"usage: server\"") && shown.contains("\"no input\""), "{shown}");
        drop(streams);
    }
}
