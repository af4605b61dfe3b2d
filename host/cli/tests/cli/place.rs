//! A separate working directory for each test, with tools in it.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use tempfile::TempDir;
use tollgate_artifacts::Guest;

/// A working directory.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Puts guests into the tools directory.
    pub(crate) fn with_tools(self, guests: &[Guest]) -> Self {
        for guest in guests {
            self.write(&format!("tools/{}.wasm", guest.name), guest.bytes());
        }
        self
    }

    /// Writes `tollgate.toml`.
    pub(crate) fn with_config(self, text: &str) -> Self {
        self.write("tollgate.toml", text);
        self
    }

    /// Writes a file.
    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the command for the program in this directory.
    pub(crate) fn tollgate(&self, arguments: &[&str]) -> Command {
        Command::from_std(self.program(arguments))
    }

    /// Returns the command for callers that do not wait for its end.
    pub(crate) fn program(&self, arguments: &[&str]) -> process::Command {
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(arguments).current_dir(self.path()).env("TOLLGATE_DATA", self.path().join("data"));
        command.env("TOLLGATE_CACHE", self.path().join("cache"));
        command.env_remove("TOLLGATE_LOG").env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs the program and returns its output. A decision gets the code of its question, like that of
    /// a person who has read it.
    pub(crate) fn type_in(&self, arguments: &[&str]) -> Said {
        let mut arguments = arguments.to_vec();
        let code = match arguments.as_slice() {
            ["decide", run, call, ..] if !arguments.contains(&"--code") => self.code(run, call),
            _ => None,
        };
        arguments.extend(code.iter().flat_map(|code| ["--code", code]));
        Said::of(&self.tollgate(&arguments).assert())
    }

    /// The code of a question, as the program computes it: of the data directory's key, the run and
    /// the suspension.
    pub(crate) fn code(&self, run: &str, call: &str) -> Option<String> {
        let shown = self.tollgate(&["show", run, "--json"]).output().unwrap();
        let events = String::from_utf8(shown.stdout).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut asked = events.filter(|event| {
            event["type"] == "call_suspended"
                && [&event["call_id"], &event["suspension_id"]].contains(&&Value::from(call))
        });
        let asked = asked.next_back()?;
        let key = match fs::read(self.path().join("data/tollgate.decisions.key")) {
            Ok(key) => key,
            Err(_) => {
                fs::write(self.path().join("data/tollgate.decisions.key"), [7; 32]).unwrap();
                vec![7; 32]
            }
        };
        let mut hash = Sha256::new();
        hash.update(b"tollgate decision\0");
        hash.update(key);
        for name in ["run_id", "suspension_id"] {
            let part = asked[name].as_str().unwrap();
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let letters = b"0123456789abcdefghjkmnpqrstvwxyz";
        Some(hash.finalize().iter().take(6).map(|byte| char::from(letters[usize::from(byte & 31)])).collect())
    }
}

/// The program's output and exit status.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(assert: &Assert) -> Self {
        let output = assert.get_output();
        let said = Self {
            code: output.status.code().expect("the program ends by itself"),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        };
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
        said
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Checks that standard error holds these words.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{words:?} is not in:\n{}", self.stderr);
        self
    }

    /// Checks that standard output holds these words.
    #[track_caller]
    pub(crate) fn answers(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "{words:?} is not in:\n{}", self.stdout);
        self
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}
