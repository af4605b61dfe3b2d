//! The gates directory: every `.wasm` file in it, loaded once at start.
//!
//! A missing tool is noticed. A missing gate is not: the calls that it would have denied would
//! run. Therefore nothing runs while a gate that the operator installed or configured is not in
//! force.

use crate::config::Config;
use crate::tools::wasm_files;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use tollgate_sandbox::{GateComponent, Sandbox};

/// The result of loading the gates directory.
#[derive(Default)]
pub struct LoadedGates {
    /// The loaded gates, sorted by file.
    pub gates: Vec<LoadedGate>,
    /// The gates that failed to load, which keep everything from running.
    pub refused: Vec<RefusedGate>,
}

/// A gate that was loaded.
#[derive(Clone)]
pub struct LoadedGate {
    /// Its file.
    pub file: PathBuf,
    /// The gate, with its settings.
    pub gate: GateComponent,
}

/// A gate that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedGate {
    /// Its file, or the expected one.
    pub file: PathBuf,
    /// The problem, its cause, and the remedy.
    pub reason: String,
    /// Whether the directory or the configuration is at fault, and not one file.
    #[serde(skip)]
    pub is_of_directory: bool,
}

impl RefusedGate {
    /// Returns the problem as a clause that names the file or the directory.
    #[must_use]
    pub fn problem(&self) -> String {
        match self.is_of_directory {
            true => self.reason.clone(),
            false => format!("gate {} is not in force ({})", self.file.display(), self.reason),
        }
    }
}

/// The error that a gate is missing, so that nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("refusing to run tools: {problem}; fix it or remove it")]
pub struct GatesRefusal {
    problem: String,
}

/// Loads all gates in the gates directory of the configuration.
pub async fn load(sandbox: &Sandbox, config: &Config) -> LoadedGates {
    let mut loaded = LoadedGates::default();
    let dir = &config.gates_dir;
    match files(&dir.path, dir.is_named) {
        Ok(files) => {
            for file in files {
                let gate = load_one(sandbox, &file, config).await.and_then(|gate| loaded.accept(&file, gate));
                if let Err(reason) = gate {
                    loaded.refused.push(RefusedGate { file, reason, is_of_directory: false });
                }
            }
        }
        Err(why) => {
            let reason = format!("the directory `{}` cannot be read: {why}", dir.path.display());
            loaded.refused.push(RefusedGate { file: dir.path.clone(), reason, is_of_directory: true });
        }
    }
    loaded.refuse_unanswered(config);
    loaded
}

impl LoadedGates {
    /// Returns the gates if all of them are in force.
    ///
    /// # Errors
    /// At least one is not.
    pub fn all(self) -> Result<Vec<GateComponent>, GatesRefusal> {
        match self.refused.into_iter().next() {
            Some(refused) => Err(GatesRefusal { problem: refused.problem() }),
            None => Ok(self.gates.into_iter().map(|loaded| loaded.gate).collect()),
        }
    }

    fn accept(&mut self, file: &Path, gate: GateComponent) -> Result<(), String> {
        let id = &gate.descriptor().id;
        if let Some(other) = self.gates.iter().find(|other| other.gate.descriptor().id == *id) {
            return Err(format!("its id \"{id}\" is that of the gate {}", other.file.display()));
        }
        self.gates.push(LoadedGate { file: file.to_owned(), gate });
        Ok(())
    }

    /// Refuses settings for a gate that does not exist: the gate is probably missing.
    fn refuse_unanswered(&mut self, config: &Config) {
        let known: Vec<&str> = self.gates.iter().map(|loaded| loaded.gate.descriptor().id.as_str()).collect();
        let missing = config.gates.keys().filter(|id| !known.contains(&id.as_str()));
        let refused: Vec<RefusedGate> = missing
            .map(|id| RefusedGate {
                file: config.gates_dir.path.clone(),
                reason: format!("{} has [gates.{id}], and no gate of that id loads", config.name()),
                is_of_directory: true,
            })
            .collect();
        self.refused.extend(refused);
    }
}

fn files(dir: &Path, is_named: bool) -> io::Result<Vec<PathBuf>> {
    if is_named {
        std::fs::metadata(dir)?;
    }
    wasm_files(dir)
}

async fn load_one(sandbox: &Sandbox, file: &Path, config: &Config) -> Result<GateComponent, String> {
    let gate = sandbox.load_gate(file).await.map_err(|refusal| refusal.to_string())?;
    let written = config.gates.get(&gate.descriptor().id).cloned().unwrap_or_default();
    let id = gate.descriptor().id.clone();
    gate.configured(&written.settings, written.limits)
        .await
        .map_err(|refusal| format!("{refusal} Its settings are [gates.{id}.settings] of {}", config.name()))
}
