//! `tollgate new` and `tollgate build`: starting a tool and compiling it.

use crate::globals::Globals;
use crate::project::{self, BuildError, Dirs, InstalledComponent, NewProject, Template, WatchedFiles};
use crate::render::example;
use crate::session::open::not_served;
use crate::session::project_data::data_root;
use crate::terminal::output::{BOLD, DIM, GOOD};
use crate::terminal::remedy::of_file;
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program, quantity};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use tollgate::config::Config;
use tollgate::tools::{RefusedFile, directory};
use tollgate_sandbox::Sandbox;

/// Start a tool: create a project with a test, ready to be built
#[derive(Debug, Args)]
#[command(after_help = NEW_EXAMPLES)]
pub(crate) struct NewVerb {
    /// The tool's name, such as word-count; the directory is created in the working directory
    name: String,
    /// Write the tool in this language
    #[arg(long, value_enum, default_value_t = Template::Rust)]
    lang: Template,
    /// Use this SDK: the directory guest-sdk of a checkout of Tollgate [default: the nearest one,
    /// else the one in this program]
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
    /// Add a workflow for GitHub Actions that builds, tests, publishes and attests the tool
    #[arg(long)]
    workflow: bool,
}

const NEW_EXAMPLES: &str = "\
Examples:
  tollgate new hello --lang rust
  tollgate new hello --lang python
  tollgate new hello --lang wat
  tollgate new hello --sdk ~/src/tollgate/guest-sdk
  tollgate new hello --workflow
  tollgate build hello && tollgate call hello '{\"name\": \"Ada\"}'";

/// Compile a tool into the tools directory, and check that it would be served
#[derive(Debug, Args)]
#[command(after_help = BUILD_EXAMPLES)]
pub(crate) struct BuildVerb {
    /// The project's directory; for a workspace, all its tools are built
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Build again whenever a source changes, until interrupted
    #[arg(long)]
    watch: bool,
}

const BUILD_EXAMPLES: &str = "\
Examples:
  tollgate build hello
  cd hello && tollgate build
  tollgate build example-tools
  tollgate build hello --watch                       a running `tollgate mcp` serves each new version

The tools directory is the one of tollgate.toml; without one it is `tools` in the working
directory, or beside the project if the working directory is the project itself.";

impl NewVerb {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let source = self.lang.source();
        let project = NewProject {
            template: self.lang,
            dir: PathBuf::from(&self.name),
            name: self.name,
            sdk: self.sdk,
            workflow: self.workflow,
            data_root: data_root().ok(),
        };
        project.write()?;
        if output.is_json() {
            output.json(&json!({"name": project.name, "dir": project.dir}));
        } else {
            let (name, program) = (&project.name, program());
            output
                .line(&format!("{GOOD}started{GOOD:#} {BOLD}{name}{BOLD:#}: the tool is in {name}/{source}"));
            output.hint(&format!("{DIM}next: {program} build {name}{DIM:#}"));
        }
        Ok(Exit::Done)
    }
}

impl BuildVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        if !self.watch {
            return self.build(globals, output).await;
        }
        let mut watched = WatchedFiles::of(&self.dir);
        loop {
            // The next change may mend what failed.
            if let Err(why) = self.build(globals, output).await {
                output.error(&why);
            }
            output.hint(&format!("{DIM}watching {}; Ctrl-C ends{DIM:#}", self.dir.display()));
            watched = watched.changed(&self.dir).await;
        }
    }

    async fn build(&self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let (tools, gates) =
            (place(&config, &self.dir, &config.tools_dir), place(&config, &self.dir, &config.gates_dir.path));
        let dirs = Dirs { tools: &tools, gates: &gates };
        let dir = self.dir.clone();
        let say = |words: &str| output.hint(words);
        tollgate::grants::check_sources(&project::sources(&dir), &config)?;
        let artifacts = project::compile(&dir, output.is_quiet(), &say)?;
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        let mut installed = Vec::with_capacity(artifacts.len());
        for artifact in &artifacts {
            let tool = project::install(&sandbox, artifact, dirs, &say).await?;
            if !output.is_json() {
                show(&tool, artifact.fresh, output);
            }
            installed.push(tool);
        }
        let refused = match in_project(&config, &self.dir) {
            // The directory above may have a configuration of its own.
            true => Vec::new(),
            false => refused(&sandbox, &config, &installed).await?,
        };
        refused.iter().for_each(|refused| output.warn(&not_served(refused)));
        if output.is_json() {
            output.json(&installed.iter().map(|built| as_json(built, &refused)).collect::<Vec<_>>());
        } else if let Some(tool) = installed.iter().flat_map(|built| &built.tools).next()
            && refused.is_empty()
        {
            let arguments = example::word(&tool.parameters);
            let place = if in_project(&config, &self.dir) { "cd .. && " } else { "" };
            output.hint(&format!("{DIM}next: {place}{} call {} {arguments}{DIM:#}", program(), tool.name));
        }
        Ok(Exit::Done)
    }
}

/// Loads the tools directory as it is now, and returns those of the installed files that are not
/// served: their approval, their owner or their place in the lock file may be missing.
async fn refused(
    sandbox: &Sandbox,
    config: &Config,
    installed: &[InstalledComponent],
) -> Result<Vec<RefusedFile>, Failure> {
    let loaded = directory::load(sandbox, config, &|_, _, _| ()).await?;
    let all = loaded.toolbox.refused();
    Ok(installed.iter().filter_map(|built| refusal(built, all)).cloned().collect())
}

/// Returns the refusal of this file, which the tools directory may name by another path.
fn refusal<'a>(built: &InstalledComponent, refused: &'a [RefusedFile]) -> Option<&'a RefusedFile> {
    refused.iter().find(|refused| refused.file.file_name() == built.file.file_name())
}

/// Returns the directory for the component. If the working directory is the project, the tools
/// directory is beside the project, not inside it.
fn place(config: &Config, dir: &Path, home: &Path) -> PathBuf {
    if in_project(config, dir) { Path::new("..").join(home) } else { home.to_owned() }
}

/// Returns whether the working directory is the project and the configuration names no tools
/// directory.
fn in_project(config: &Config, dir: &Path) -> bool {
    let here = Path::new(".").canonicalize();
    config.file.is_none()
        && !config.tools_dir.exists()
        && here.is_ok_and(|here| dir.canonicalize().is_ok_and(|dir| dir == here))
}

fn show(built: &InstalledComponent, fresh: bool, output: &Output) {
    let what = match (built.unchanged, fresh) {
        (true, _) => "unchanged",
        (false, true) => "installed",
        (false, false) => "built",
    };
    let names: Vec<&str> = built.tools.iter().map(|tool| tool.name.as_str()).collect();
    let brings = if names.is_empty() { "a gate".to_owned() } else { names.join(", ") };
    output.line(&format!(
        "{GOOD}{what}{GOOD:#} {BOLD}{}{BOLD:#} ({}) in {}: {}",
        built.id,
        quantity::bytes(built.bytes),
        shown_line(&built.file.display().to_string(), 200),
        brings
    ));
}

fn as_json(built: &InstalledComponent, refused: &[RefusedFile]) -> serde_json::Value {
    json!({
        "not_served": refusal(built, refused).map(of_file),
        "id": built.id,
        "file": built.file,
        "bytes": built.bytes,
        "unchanged": built.unchanged,
        "tools": built.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
    })
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match &error {
            BuildError::Usage(_) => Self::usage(error.to_string()),
            BuildError::Failed(_) | BuildError::File { .. } => Self::failed(error.to_string()),
        }
    }
}
