//! A directory in which a sequence of processes continues one story.

use crate::moment::Moment;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;
use tollgate_artifacts::good;

/// The variables through which the tests control the program.
pub(crate) const DIRECTORY: &str = "TOLLGATE_KILLED_IN";
pub(crate) const MOMENT: &str = "TOLLGATE_KILLED_AT";
pub(crate) const ADDS: &str = "TOLLGATE_KILLED_ADDS";
pub(crate) const THREAD: &str = "TOLLGATE_KILLED_THREAD";

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It reached the end of the story.
    Done,
    /// It was killed.
    Killed,
}

pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// Creates a directory with a tool, a granted directory, and an empty store.
    pub(crate) fn new() -> Self {
        static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory };
        std::fs::create_dir_all(place.ran()).unwrap();
        std::fs::create_dir_all(place.path().join("tools")).unwrap();
        let component = COMPONENT.get_or_init(|| good::APPENDS.bytes());
        std::fs::write(place.path().join("tools/appends.wasm"), component).unwrap();
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the directory in which tools leave one byte for each time that they ran.
    pub(crate) fn ran(&self) -> PathBuf {
        self.path().join("ran")
    }

    /// Starts a process that continues the story.
    pub(crate) fn start(&self, moment: Option<Moment>) -> Process {
        let mut command = self.program();
        if let Some(moment) = moment {
            command.env(MOMENT, moment.to_string());
        }
        Process::start(command)
    }

    /// Starts a process that continues only the story of this thread.
    pub(crate) fn start_thread(&self, thread: &str, moment: Option<Moment>) -> Process {
        let mut command = self.program();
        command.env(THREAD, thread);
        if let Some(moment) = moment {
            command.env(MOMENT, moment.to_string());
        }
        Process::start(command)
    }

    /// Replaces the component with another version, which differs only in a custom section.
    pub(crate) fn upgrade(&self) {
        let file = self.path().join("tools/appends.wasm");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend([0, 3, 2, b'v', b'2']);
        std::fs::write(file, bytes).unwrap();
    }

    /// Starts a process that repeatedly adds one to the number of a thread.
    pub(crate) fn start_adding(&self, times: usize) -> Process {
        let mut command = self.program();
        command.env(ADDS, times.to_string());
        Process::start(command)
    }

    /// Returns how many additions a process has reported.
    pub(crate) fn added(&self, process: &Process) -> usize {
        self.added_by(process.id())
    }

    /// Like [`added`](Self::added), of a process that may have ended.
    pub(crate) fn added_by(&self, process: u32) -> usize {
        std::fs::metadata(added(self.path(), process)).map_or(0, |file| file.len() as usize)
    }

    fn program(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["program::the_program_that_is_killed", "--exact", "--ignored", "--nocapture"]);
        command.env(DIRECTORY, self.path()).env_remove(MOMENT).env_remove(ADDS).env_remove(THREAD);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// Returns the file in which a process reports each addition with one byte.
pub(crate) fn added(directory: &Path, process: u32) -> PathBuf {
    directory.join(format!("added-{process}"))
}

pub(crate) struct Process(Child);

impl Process {
    fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal, such as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub(crate) fn kill(&self) {
        crate::moment::kill(self.0.id());
    }

    /// Waits for its end. Fails the test if the process fails for any reason other than being
    /// killed.
    pub(crate) fn wait(self) -> Started {
        use std::os::unix::process::ExitStatusExt;
        let output = self.0.wait_with_output().unwrap();
        match (output.status.code(), output.status.signal()) {
            (Some(0), _) => Started::Done,
            (None, Some(9)) => Started::Killed,
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
