//! The parts of the tour: the prompt, the agent, its grants, and a gate.

use crate::terminal::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tollgate::config::{AgentConfig, ComponentGrants, Config, GatesDir, Grant};
use tollgate::models::ScriptedModel;
use tollgate::{Gate, ProposedCall, Verdict, async_trait};
#[cfg(feature = "mcp")]
use tollgate_agent::gate::permissions::{DefaultRule, Permissions, RuleError, RuleSpec};
use tollgate_sandbox::FileAccess;

/// The agent's id.
pub(super) const AGENT: &str = "tour";

/// The agent's prompt.
pub(super) const PROMPT: &str = "What do this repository's documents say about gates, and how long are the ones that I should read first?";

/// An explanation shown before the tour.
pub(super) const EXPLANATION: &str = "The model's replies were recorded earlier; every result is computed now, \
in a fresh sandbox for each call. The tools see this checkout read-only, as /repo, and nothing else.";

/// The recorded turns of the model.
pub(super) const TURNS: &str = include_str!("turns.toml");

/// The id of the agent whose run waits for a decision in the console.
#[cfg(feature = "mcp")]
pub(super) const WRITER: &str = "writer";

/// The prompt of the agent that waits.
#[cfg(feature = "mcp")]
pub(super) const WRITER_PROMPT: &str = "Measure the README and write the figures to /files/figures.md.";

/// The recorded turns of the agent that waits.
#[cfg(feature = "mcp")]
pub(super) const WRITER_TURNS: &str = include_str!("writer.toml");

/// The components that may read the checkout.
const READERS: [&str; 4] = ["find-in-files", "word-count", "markdown-outline", "slow-report"];

/// The configuration of the tour.
pub(super) fn config(repository: &Path, tools_dir: &Path) -> Config {
    // The directories that the tools see contain nothing of the host's own.
    let gates_dir = GatesDir { path: tools_dir.join("gates"), is_named: false };
    let (tools_dir, base_dir) = (tools_dir.to_owned(), tools_dir.to_owned());
    let mut config = Config { tools_dir, gates_dir, base_dir, ..Config::default() };
    let agent = AgentConfig {
        instructions: "Answer from the documents, with figures that a tool computed.".to_owned(),
        description: Some("Shows what Tollgate does.".to_owned()),
        tools: vec!["*".to_owned()],
        ..AgentConfig::default()
    };
    config.agents = BTreeMap::from([(AGENT.to_owned(), agent)]);
    let files = Grant::files(repository, "/repo", FileAccess::Read, None);
    let grants = ComponentGrants::from_iter([files]);
    config.grants = READERS.iter().map(|id| ((*id).to_owned(), grants.clone())).collect();
    config
}

/// Adds what the console of the tour shows beyond it: an agent that wants to write a file in
/// `files`, and a rule that a person is asked about it.
#[cfg(feature = "mcp")]
pub(super) fn with_writer(mut config: Config, files: &Path) -> Result<Config, RuleError> {
    let writer = AgentConfig {
        instructions: "Write down figures that a tool computed.".to_owned(),
        description: Some("Writes a file, if a person allows it.".to_owned()),
        tools: vec!["word_count".to_owned(), "write_file".to_owned(), "read_file".to_owned()],
        ..AgentConfig::default()
    };
    config.agents.insert(WRITER.to_owned(), writer);
    let files = Grant::files(files, "/files", FileAccess::ReadWrite, None);
    config.grants.insert("file-edit".to_owned(), ComponentGrants::from_iter([files]));
    let rules = Permissions::new(DefaultRule::Allow);
    config.permissions = Some(
        ["write_file", "edit_file"]
            .into_iter()
            .try_fold(rules, |rules, tool| rules.ask(RuleSpec::of_tool(tool)))?,
    );
    Ok(config)
}

/// The tour's own gate, which denies deleting notes.
pub(super) struct KeepNotes;

#[async_trait]
impl Gate for KeepNotes {
    fn id(&self) -> &'static str {
        "keep-notes"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        match call.tool.descriptor.name.as_str() {
            "delete_note" => Verdict::Deny("Notes are kept in this tour.".to_owned()),
            _ => Verdict::Allow,
        }
    }
}

/// Writes a recording to a file and opens it.
pub(super) fn recorded(place: &Path, name: &str, turns: &str) -> Result<ScriptedModel, Failure> {
    let file = place.join(name);
    fs::write(&file, turns).map_err(|e| unwritable(&file, &e))?;
    ScriptedModel::open(&file).map_err(|e| Failure::failed(e.to_string()))
}

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}
