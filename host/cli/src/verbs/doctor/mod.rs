//! `tollgate doctor`: checks everything that a first hour depends on.

mod finding;
mod reach;

use crate::globals::Globals;
use crate::project::languages;
use crate::session::data::data_dir;
use crate::session::models::configured_model;
use crate::session::open::notices;
use crate::session::place::user_cache;
use crate::session::{OpenSession, project_data};
use crate::terminal::output::{BAD, BOLD, DIM, GOOD, WAITS};
use crate::terminal::remedy::of_file;
use crate::terminal::text::{shown, shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output, quantity};
use crate::verbs::toolchains::remedy;
use clap::Args;
use finding::{Finding, Findings, State};
#[cfg(feature = "mcp")]
use reach::server_problem;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tollgate::config::{Config, DEFAULT_TOOLS_DIR, SecretSource};
use tollgate_agent::text::one_line;

/// Check compilers, directories, configuration, servers, store, tools and what the system lacks for confinement
///
/// Contacts each model's provider, MCP server, remote agent, registry and database that the configuration
/// names, for a few seconds at most. No model is called.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorVerb {
    /// Contact no server and no database
    #[arg(long)]
    offline: bool,
}

const EXAMPLES: &str = "\
Examples:
  tollgate doctor
  tollgate doctor --offline
  tollgate doctor --json | jq '.[] | select(.state != \"ok\")'

The exit code is 1 if something does not work, and 0 if at most something is missing or advised.";

/// Less free space than this is reported, in bytes.
const LITTLE_SPACE_BYTES: u64 = 1 << 30;
/// The maximum number of files whose sizes are added up for one directory.
const MAX_COUNTED_FILES: usize = 100_000;

/// How long a compiler may take to state its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The maximum length of the line that states a compiler's version, or why it fails, in bytes.
const MAX_VERSION_BYTES: usize = 200;

/// The part about `tollgate.toml` and the variables that it names.
const CONFIGURATION: &str = "configuration";

impl DoctorVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let mut found = Findings::default();
        found.add("program", "tollgate", State::Ok, format!("version {}", env!("CARGO_PKG_VERSION")));
        found.add("program", "system", State::Ok, system());
        directories(globals, &mut found);
        match globals.read_config() {
            Ok(config) => {
                let words = match &config.file {
                    Some(file) => format!("{} is valid", file.display()),
                    None => "there is none; a directory `tools` and the defaults apply".to_owned(),
                };
                found.add(CONFIGURATION, "tollgate.toml", State::Ok, words);
                models(&config, &mut found);
                #[cfg(feature = "mcp")]
                servers(&config, &mut found);
                secrets(&config, &mut found);
                match self.offline {
                    true => found.add(reach::PART, "all", State::Ok, "not contacted (--offline)"),
                    false => {
                        found.0.extend(reach::servers(&config).await?);
                        #[cfg(feature = "postgres")]
                        database(globals, &config, &mut found).await;
                    }
                }
                tools(config, output, &mut found).await;
            }
            Err(why) => found.add(CONFIGURATION, "tollgate.toml", State::Broken, why.to_string()),
        }
        compilers(&mut found).await;
        if output.is_json() {
            output.json(&found.0);
        } else {
            show(&found.0, output);
        }
        let is_broken = found.0.iter().any(|finding| finding.state == State::Broken);
        Ok(if is_broken { Exit::Failed } else { Exit::Done })
    }
}

fn show(found: &[Finding], output: &Output) {
    let mut part = "";
    for finding in found {
        if finding.part != part {
            let gap = if part.is_empty() { "" } else { "\n" };
            part = finding.part;
            output.line(&format!("{gap}{BOLD}{part}{BOLD:#}"));
        }
        let (style, mark) = match finding.state {
            State::Ok => (GOOD, "ok"),
            State::Note => (WAITS, "note"),
            State::Broken => (BAD, "broken"),
        };
        // The configuration is the user's own, and its errors contain lines to add.
        let words = match finding.part {
            CONFIGURATION => shown(&finding.words).replace('\n', "\n    "),
            _ => shown_marked(&finding.words),
        };
        output.line(&format!("  {style}{mark:<7}{style:#} {:<18} {words}", shown_line(&finding.name, 40)));
    }
    let count = |state| found.iter().filter(|finding| finding.state == state).count() as u64;
    let (notes, broken) = (count(State::Note), count(State::Broken));
    output.say(&format!(
        "\n{DIM}{}, {}{DIM:#}",
        quantity::count(broken, "problem"),
        quantity::count(notes, "note")
    ));
}

fn system() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}, {}", std::env::consts::OS, kernel.trim(), std::env::consts::ARCH)
}

fn directories(globals: &Globals, found: &mut Findings) {
    const PART: &str = "directories";
    match data_dir(globals) {
        Err(why) => found.add(PART, "data", State::Broken, why.to_string()),
        Ok(dir) => {
            let what =
                if globals.data.is_some() { "named by --data or TOLLGATE_DATA" } else { "of this project" };
            directory(PART, "data", &dir, what, found);
        }
    }
    if globals.data.is_none()
        && let Some(shared) = project_data::shared_store()
    {
        let words = format!(
            "{} holds runs from before projects had directories of their own; see them with --data {}",
            shared.display(),
            shared.display()
        );
        found.add(PART, "older store", State::Note, words);
    }
    match globals.cache.clone().or_else(user_cache) {
        Some(dir) => match open_to_others(&dir) {
            Some(why) => found.add(PART, "cache", State::Broken, why),
            None => directory(PART, "cache", &dir, "compiled tools", found),
        },
        None => {
            let words = "there is no home directory; every start compiles the tools anew";
            found.add(PART, "cache", State::Note, words);
        }
    }
}

/// Returns why compiled code is not kept in this cache, if other users can read it.
fn open_to_others(dir: &Path) -> Option<String> {
    let mode = fs::metadata(dir).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        let dir = tollgate_agent::text::quoted(&dir.display().to_string());
        format!(
            "every start compiles the tools again: {dir} is open to other users; close it: chmod 700 {dir}"
        )
    })
}

/// Checks that a directory can be written to, and that its disk has space.
fn directory(part: &'static str, name: &str, dir: &Path, what: &str, found: &mut Findings) {
    let dir = &std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let Some(existing) = dir.ancestors().find(|dir| dir.is_dir()) else {
        return found.add(part, name, State::Broken, format!("{} cannot be reached", dir.display()));
    };
    let writable = tempfile::Builder::new().prefix("tollgate.part-").tempfile_in(existing);
    if let Err(e) = writable {
        let why = e.kind();
        let words = match existing == dir {
            true => format!("{} cannot be written to: {why}", dir.display()),
            false => {
                format!(
                    "{} cannot be created: {} cannot be written to: {why}",
                    dir.display(),
                    existing.display()
                )
            }
        };
        return found.add(part, name, State::Broken, words);
    }
    let size = if dir.is_dir() { quantity::bytes(size_of(dir)) } else { "not created yet".to_owned() };
    let free = rustix::fs::statvfs(existing).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let (state, space) = match free {
        Some(free) if free < LITTLE_SPACE_BYTES => (
            State::Note,
            format!(", only {} free; remove old runs with `tollgate prune`", quantity::bytes(free)),
        ),
        Some(free) => (State::Ok, format!(", {} free", quantity::bytes(free))),
        None => (State::Ok, String::new()),
    };
    found.add(part, name, state, format!("{} ({what}): {size}{space}", dir.display()));
}

/// Returns the size of the files of a directory, in bytes.
fn size_of(dir: &Path) -> u64 {
    let (mut total, mut left, mut open) = (0, MAX_COUNTED_FILES, vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(left) {
            left -= 1;
            match entry.metadata() {
                Ok(there) if there.is_dir() => open.push(entry.path()),
                Ok(there) => total += there.len(),
                Err(_) => {}
            }
        }
    }
    total
}

fn models(config: &Config, found: &mut Findings) {
    let ids = config.agents.keys().filter(|id| *id != tollgate::DIRECT_AGENT);
    let models = ids.filter(|id| config.agents[*id].made_of.is_none());
    for id in models {
        match configured_model(id, config) {
            Ok(_) => found.add(CONFIGURATION, &format!("agent {id}"), State::Ok, "its model is configured"),
            Err(why) => {
                found.add(CONFIGURATION, &format!("agent {id}"), State::Note, why.to_string());
            }
        }
    }
}

/// Checks that the programs and variables of MCP servers exist.
#[cfg(feature = "mcp")]
fn servers(config: &Config, found: &mut Findings) {
    for name in config.servers.keys() {
        let (state, words) = match server_problem(name, config) {
            Some(problem) => (State::Broken, problem),
            None => (State::Ok, "configured".to_owned()),
        };
        found.add(CONFIGURATION, &format!("mcp {name}"), state, words);
    }
}

/// Checks that the variables and files of secrets exist.
fn secrets(config: &Config, found: &mut Findings) {
    for (id, secret) in &config.secrets {
        let problem = match &secret.source {
            SecretSource::Environment(variable) => std::env::var_os(variable)
                .is_none()
                .then(|| format!("the environment variable {variable} is not set")),
            SecretSource::File(file) => {
                fs::File::open(file).err().map(|why| format!("{} cannot be read: {why}", file.display()))
            }
        };
        let (state, words) = match problem {
            Some(problem) => (State::Broken, format!("{problem}; correct [secrets.{id}]")),
            None => (State::Ok, "its value is there".to_owned()),
        };
        found.add(CONFIGURATION, &format!("secret {id}"), state, words);
    }
}

/// Checks the database that several hosts share, if the store is one.
#[cfg(feature = "postgres")]
async fn database(globals: &Globals, config: &Config, found: &mut Findings) {
    use crate::session::database::{connect, database, settings};
    const PART: &str = "store";
    let Some(database) = database(globals, config) else { return };
    let check = async {
        let address = settings(&database, None)?.address();
        let store = connect(&database, config.store.limits, None).await?;
        store.check_privileges().await?;
        Ok::<_, Failure>((address, store.warnings().await?))
    };
    match check.await {
        Ok((address, warnings)) => {
            found.add(PART, "database", State::Ok, format!("{address} answers; its schema is current"));
            warnings.into_iter().for_each(|warning| found.add(PART, "database", State::Note, warning));
        }
        Err(why) => found.add(PART, "database", State::Broken, why.to_string()),
    }
}

async fn tools(config: Config, output: &Output, found: &mut Findings) {
    const PART: &str = "tools";
    let dir = config.tools_dir.display().to_string();
    let is_missing = !config.tools_dir.exists();
    let usual = [DEFAULT_TOOLS_DIR.into(), config.base_dir.join(DEFAULT_TOOLS_DIR)];
    let is_named = !usual.contains(&config.tools_dir);
    let opened = match OpenSession::load(config, output).await {
        Ok(opened) => opened,
        Err(why) => return found.add(PART, &dir, State::Broken, why.to_string()),
    };
    let served = quantity::count(opened.loaded.toolbox.catalog().tools().count() as u64, "tool");
    match (is_missing, is_named) {
        (true, true) => {
            let words = format!("the directory {dir} does not exist; correct `dir` in [tools], or create it");
            found.add(PART, "served", State::Broken, words);
        }
        (true, false) => {
            found.add(PART, "served", State::Ok, format!("{served}; there is no directory {dir}"))
        }
        (false, _) => found.add(PART, "served", State::Ok, format!("{served} from {dir}")),
    }
    for refused in opened.loaded.toolbox.refused() {
        let file = refused.file.file_name().unwrap_or_default().to_string_lossy();
        found.add(PART, &file, State::Broken, format!("not served: {}", of_file(refused)));
    }
    for notice in notices(&opened.loaded) {
        found.add(PART, "notice", State::Note, notice);
    }
    for unknown in opened.loaded.unknown_tools {
        let agent = unknown.agent.map(|id| format!("agent {id}"));
        match found.0.iter_mut().find(|finding| Some(&finding.name) == agent.as_ref()) {
            Some(finding) => {
                finding.state = finding.state.max(State::Note);
                finding.words = format!("{}; {}", finding.words, unknown.notice);
            }
            None => found.add(PART, "notice", State::Note, unknown.notice),
        }
    }
    for refused in &opened.gates.refused {
        let file = refused.file.display().to_string();
        found.add("gates", &file, State::Broken, format!("no tool runs: {}", refused.problem()));
    }
    match opened.sandbox.compiler_gaps().await {
        None => found.add("confinement", "compiler", State::Ok, "the system confines it completely"),
        Some(gaps) => found.add("confinement", "compiler", State::Note, gaps),
    }
}

async fn compilers(found: &mut Findings) {
    const PART: &str = "compilers";
    for name in ["cargo", "rustc"] {
        let (state, words) = match version(name, &["--version"], VERSION_LIMIT).await {
            CompilerVersion::Stated(version) => (State::Ok, version),
            CompilerVersion::Missing => {
                (State::Note, "missing; tools in Rust need it: see https://rustup.rs".to_owned())
            }
            CompilerVersion::Failed(how) => {
                (State::Note, format!("fails: {how}; tools in Rust need it: rustup toolchain install stable"))
            }
            CompilerVersion::TimedOut => {
                let words =
                    format!("does not answer within {} s; try it: {name} --version", VERSION_LIMIT.as_secs());
                (State::Broken, words)
            }
        };
        found.add(PART, name, state, words);
    }
    for (language, programs) in languages::toolchains() {
        for program in programs {
            let name = program.names[0];
            match program.find() {
                Some(path) => found.add(PART, name, State::Ok, path.display().to_string()),
                None => {
                    let words =
                        format!("missing; tools in {language} need it: {}", remedy(language, &program));
                    found.add(PART, name, State::Note, words);
                }
            }
        }
    }
}

/// The answer of a program that was asked for its version.
#[derive(Debug, PartialEq, Eq)]
enum CompilerVersion {
    /// The first line that it printed.
    Stated(String),
    /// The program is not installed.
    Missing,
    /// The program fails, or prints nothing. The text is its exit status and the first line of its error.
    Failed(String),
    /// The program had not ended at the limit, and was killed.
    TimedOut,
}

async fn version(program: &str, arguments: &[&str], limit: Duration) -> CompilerVersion {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let said = match tokio::time::timeout(limit, command.output()).await {
        Ok(Ok(said)) => said,
        Ok(Err(why)) if why.kind() == io::ErrorKind::NotFound => return CompilerVersion::Missing,
        Ok(Err(why)) => return CompilerVersion::Failed(why.to_string()),
        Err(_) => return CompilerVersion::TimedOut,
    };
    let first = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        Some(one_line(line, MAX_VERSION_BYTES))
    };
    match first(&said.stdout) {
        Some(version) if said.status.success() => CompilerVersion::Stated(version),
        printed => {
            let words = first(&said.stderr).or(printed);
            CompilerVersion::Failed(
                [Some(said.status.to_string()), words].into_iter().flatten().collect::<Vec<_>>().join(": "),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_has_so_long_to_state_its_version() {
        let long = Duration::from_secs(60);
        assert_eq!(version("sleep", &["60"], Duration::from_millis(20)).await, CompilerVersion::TimedOut);
        assert_eq!(
            version("echo", &["x 1.2\nmore"], long).await,
            CompilerVersion::Stated("x 1.2".to_owned())
        );
        let failed = version("sh", &["-c", "echo >&2; echo no toolchain >&2; exit 3"], long).await;
        assert_eq!(failed, CompilerVersion::Failed("exit status: 3: no toolchain".to_owned()));
        assert_eq!(version("false", &[], long).await, CompilerVersion::Failed("exit status: 1".to_owned()));
        assert_eq!(version("tollgate-has-no-such-program", &[], long).await, CompilerVersion::Missing);
    }
}
