//! `tollgate grant` and `tollgate revoke`: a person's commands. They change `tollgate.toml` and
//! keep its comments.

use crate::globals::Globals;
use crate::render::powers;
use crate::session::OpenSession;
use crate::session::approve::{self, Subject};
use crate::session::data::open_store;
use crate::session::grant_audit::AuditSubject;
use crate::session::grants::{check, file_of};
use crate::terminal::output::{DIM, GOOD};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;
use std::path::{Path, PathBuf};
use tollgate::config::{Changes, Config, Edit, Grant, GrantKind, KINDS, KindRow, granted_path};
use tollgate::grants::Decision;
use tollgate::tools::LoadedTools;
use tollgate::tools::directory::without_effect;
use tollgate_agent::name::{self, did_you_mean};
use tollgate_sandbox::FileAccess;

/// Grant a component more powers
#[derive(Debug, Args)]
#[command(after_help = GRANT_EXAMPLES)]
pub(crate) struct GrantVerb {
    /// The component's id, as `tollgate tools` shows it
    component: String,
    /// Let it read the files of a directory, which it sees at /PATH
    #[arg(long, visible_alias = "files", value_name = "DIRECTORY=/PATH", value_parser = directory)]
    read: Vec<(PathBuf, String)>,
    /// Let it read, change and delete the files of a directory
    #[arg(long, value_name = "DIRECTORY=/PATH", value_parser = directory)]
    write: Vec<(PathBuf, String)>,
    /// Limit the bytes that it may write to the directories of `--write` until the tools are
    /// reloaded
    #[arg(long, value_name = "BYTES", requires = "write")]
    quota: Option<u64>,
    /// Set a setting that it reads
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    setting: Vec<(String, String)>,
    #[command(flatten)]
    lists: GrantOptions,
    /// Grant what its manifest asks for, if it has one, and approve the present version
    #[arg(long)]
    asked: bool,
    /// Approve the version in this file, if several files claim the component's id
    #[arg(long, value_name = "FILE", requires = "asked")]
    file: Option<PathBuf>,
}

/// Revoke grants of a component
#[derive(Debug, Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(crate) struct RevokeVerb {
    /// The component's id
    component: String,
    /// Revoke a directory, named by the path at which the component sees it
    #[arg(long, visible_aliases = ["read", "write"], value_name = "/PATH")]
    files: Vec<String>,
    /// Revoke a setting
    #[arg(long, value_name = "NAME")]
    setting: Vec<String>,
    #[command(flatten)]
    lists: GrantOptions,
    /// Revoke everything that it was granted
    #[arg(long)]
    all: bool,
}

/// Options that `grant` and `revoke` share: those of each kind of grants.
#[derive(Debug)]
struct GrantOptions(Vec<Grant>);

impl Args for GrantOptions {
    fn augment_args(command: Command) -> Command {
        command.args(KINDS.iter().filter_map(option_of))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for GrantOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = KINDS.iter().filter(|row| row.help.is_some()).flat_map(|row| {
            let names = matches.get_many::<String>(row.flag).into_iter().flatten();
            names.map(|name| Grant::named(row.kind, name))
        });
        Ok(Self(typed.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn option_of(row: &KindRow) -> Option<Arg> {
    let option = Arg::new(row.flag).long(row.flag).value_name(row.value_name).help(row.help?);
    Some(option.action(ArgAction::Append))
}

const GRANT_EXAMPLES: &str = "\
Examples:
  tollgate grant find-in-files --read docs=/docs
  tollgate grant fetch --http 'https://*.example.com/' --http 'POST https://api.example.com/v1/'
  tollgate grant weather --secret weather-key --setting units=metric
  tollgate grant file-edit --write notes=/files --quota 10000000
  tollgate grant panel --delegate reviewer
  tollgate grant fetch --asked
  tollgate grant fetch --asked --file tools/fetch.wasm    of several files that claim the id";

const REVOKE_EXAMPLES: &str = "\
Examples:
  tollgate revoke find-in-files --files /docs
  tollgate revoke fetch --http 'POST https://api.example.com/v1/'
  tollgate revoke panel --delegate reviewer
  tollgate revoke fetch --all";

impl GrantVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let id = checked_id(&self.component)?;
        let config = globals.read_config()?;
        let path = file_of(&config);
        let GrantOptions(mut given) = self.lists;
        for (typed, access) in [(self.read, FileAccess::Read), (self.write, FileAccess::ReadWrite)] {
            let quota = self.quota.filter(|_| access == FileAccess::ReadWrite);
            given.extend(typed.iter().map(|(host, guest)| {
                Grant::files(&granted_path(host, &config.base_dir), guest, access, quota)
            }));
        }
        given.extend(self.setting.iter().map(|(name, value)| Grant::setting(name, value)));
        if given.is_empty() && !self.asked {
            return Err(Failure::usage("no grant is named; see `tollgate grant --help`"));
        }
        let mut edit = Edit::open(&path)?;
        edit.grant(&id, &given);
        let before = config.grants_of(&id);
        // No grant without a record: open the store first.
        let store = open_store(globals)?;
        let mut opened = OpenSession::load(config, output).await?;
        let subject = match &self.file {
            Some(file) => Some(approve::subject_in(&opened.loaded, &id, file)?),
            None => approve::subject(&opened.loaded, &id)?,
        };
        if self.asked {
            approve::grant_asked(&mut edit, subject.as_ref().ok_or_else(|| absent(&id, &opened.config))?);
        }
        if subject.is_none() {
            let known = opened.loaded.components.iter().map(|component| component.id.as_str());
            let near = did_you_mean(&id, known).unwrap_or_default();
            output.warn(&format!(
                "no component `{id}` is in {}{near}",
                shown_line(&opened.config.tools_dir.display().to_string(), 200)
            ));
        }
        check(&edit, &id, &given, &opened.config)?;
        let audit_subject =
            subject.as_ref().map_or(AuditSubject { id: &id, digest: None }, Subject::audit_subject);
        let mut changes = Changes::begin(&path).map_err(|e| approve::not_written(&e))?;
        let mut noted = Vec::new();
        if let Some(subject) = &subject {
            let decision = if self.asked { Decision::Approved } else { Decision::Granted };
            approve::record(&mut opened.loaded.approvals, &mut changes, subject, decision)?;
            noted.extend(self.asked.then(|| subject.approval()));
        }
        let config = edit.prepare(&mut changes).map_err(|e| approve::not_written(&e))?;
        noted.extend(audit_subject.granted(&before, &config.grants_of(&id)));
        approve::settle(&*store, audit_subject, noted, changes).await?;
        show(&id, &config, subject.as_ref().filter(|_| self.asked), output);
        warn_without_effect(&id, &config, &opened.loaded, output);
        if !self.asked && opened.loaded.pending.iter().any(|pending| pending.id == id) {
            output.warn(&format!(
                "{id} is not served yet: its version asks for more than was approved; approve it: {} grant {id} --asked",
                program()
            ));
        }
        Ok(Exit::Done)
    }
}

impl RevokeVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let id = checked_id(&self.component)?;
        let config = globals.read_config()?;
        let (path, before) = (file_of(&config), config.grants_of(&id));
        let GrantOptions(mut taken) = self.lists;
        taken.extend(self.files.iter().map(|guest| Grant::named(GrantKind::Files, guest)));
        taken.extend(self.setting.iter().map(|name| Grant::named(GrantKind::Settings, name)));
        if taken.is_empty() != self.all {
            return Err(Failure::usage("name what to revoke, or --all; see `tollgate revoke --help`"));
        }
        let mut edit = Edit::open(&path)?;
        let absent = match self.all {
            true => (!edit.revoke_all(&id)).then(|| format!("nothing was granted to {id}")),
            false => edit.revoke(&id, &taken).first().map(|what| format!("{what} was not granted to {id}")),
        };
        if let Some(why) = absent {
            let line = format!("{} grants {id}", program());
            return Err(Failure::usage(format!("{why}; nothing was changed. See: {line}")));
        }
        let store = open_store(globals)?;
        // Revoke the power even if the tools fail to load.
        let loaded = OpenSession::load(config, output).await.ok().map(|opened| opened.loaded);
        let subject = loaded.and_then(|loaded| approve::subject(&loaded, &id).ok().flatten());
        let config = edit.save()?;
        let audit_subject =
            subject.as_ref().map_or(AuditSubject { id: &id, digest: None }, Subject::audit_subject);
        store.record_audit(audit_subject.revoked(&before, &config.grants_of(&id))).await.map_err(|why| {
            Failure::failed(format!("{id} has lost these powers, but the audit does not say so: {why}"))
        })?;
        show(&id, &config, None, output);
        Ok(Exit::Done)
    }
}

fn absent(id: &str, config: &Config) -> Failure {
    Failure::usage(format!(
        "there is no loadable component {id} in {}; see `{} tools`",
        config.tools_dir.display(),
        program()
    ))
}

/// Shows the component's grants, and what it requests beyond them.
fn show(id: &str, config: &Config, subject: Option<&Subject>, output: &Output) {
    let grants = config.grants_of(id);
    let asks = subject.and_then(|subject| subject.asks.as_ref());
    let lacking = powers::asked_and_lacking(asks, &grants);
    if output.is_json() {
        output.json(&json!({"component": id, "grants": grants.to_json(), "lacking": lacking}));
        return;
    }
    let words = powers::in_words(&grants);
    let words = if words.is_empty() { "nothing".to_owned() } else { words.join("; ") };
    output.line(&format!("{GOOD}{id} has:{GOOD:#} {words}"));
    approve::say_lacking(id, &lacking, output);
    output
        .hint(&format!("{DIM}written to {}; a running host picks it up automatically{DIM:#}", config.name()));
}

/// Warns of grants that have no effect on the component as it is now.
fn warn_without_effect(id: &str, config: &Config, loaded: &LoadedTools, output: &Output) {
    let Some(component) = loaded.components.iter().find(|component| component.id == id) else { return };
    without_effect(component, &config.grants_of(id)).iter().for_each(|notice| output.warn(notice));
}

fn checked_id(typed: &str) -> Result<String, Failure> {
    if name::is_id(typed) {
        return Ok(typed.to_owned());
    }
    let shown = shown_line(typed, 80);
    Err(Failure::usage(format!(
        "{shown} is not a component id; use lower-case letters, digits and hyphens, or see `{} tools`",
        program()
    )))
}

fn directory(typed: &str) -> Result<(PathBuf, String), String> {
    let (host, guest) = typed
        .rsplit_once('=')
        .filter(|(host, guest)| !host.is_empty() && guest.starts_with('/'))
        .ok_or("write the directory and the path at which the tool sees it, such as docs=/docs")?;
    Ok((Path::new(host).to_owned(), guest.to_owned()))
}

fn setting(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once('=').ok_or("write its name and its value, such as units=metric")?;
    Ok((name.to_owned(), value.to_owned()))
}
