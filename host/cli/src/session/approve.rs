//! Asking a person to approve a component's requests. The host words the request itself; the
//! component's own words are cleaned, cut, and marked as such.

use crate::globals::Globals;
use crate::session::ask::can_ask;
use crate::session::data::open_store;
use crate::session::grant_audit::AuditSubject;
use crate::session::grants;
use crate::terminal::output::{BOLD, DIM, WAITS};
use crate::terminal::table::terminal_width;
use crate::terminal::text::shown_line;
use crate::terminal::{Failure, Output, program};
use std::fmt::Display;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use tollgate::config::{Changes, ComponentGrants, Config, Details, Edit, Grant, GrantKind, granted_path};
use tollgate::grants::{Approvals, ComponentApproval, Decision, MissingGrant, RequestedGrants};
use tollgate::store::{AuditRecord, AuditStore};
use tollgate::tools::LoadedTools;
use tollgate::tools::directory::PendingComponent;
use tollgate_agent::egress::HttpPattern;
use tollgate_agent::question::{MIN_COLUMNS, continued};
use tollgate_agent::surface::Surface;
use tollgate_agent::text::quoted;

/// The longest description that is shown with a question, in characters.
const MAX_SHOWN_DESCRIPTION: usize = 240;

/// The maximum number of columns that the host's own words take before a stranger's.
const INDENT: usize = 16;

/// The component under decision.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) id: String,
    file: PathBuf,
    digest: String,
    /// `None` if it has no manifest; it then requests whatever it is granted.
    pub(crate) asks: Option<RequestedGrants>,
    surface: Surface,
    /// Requests and needs that are not approved yet.
    news: Vec<String>,
    /// Tools whose descriptions differ from the approved ones.
    reworded: Vec<String>,
    stands: ApprovalState,
}

/// The approval state of a component before anyone is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ApprovalState {
    /// It is not served because it requests more than was approved.
    held: bool,
    /// A person is to be asked about it.
    open: bool,
}

/// Returns the component with this id, whether or not it is served.
///
/// # Errors
/// Several files claim the id, and no decision says which one has it.
pub(crate) fn subject(loaded: &LoadedTools, id: &str) -> Result<Option<Subject>, Failure> {
    let found = subjects(loaded).into_iter().find(|subject| subject.id == id);
    let contested = contested(loaded).find(|subject| subject.id == id);
    match (found, contested) {
        (None, Some(contested)) => Err(Failure::usage(format!(
            "several files claim the id {id}; choose one: {} grant {id} --asked --file {}",
            program(),
            quoted(&shown_line(&contested.file.display().to_string(), 300))
        ))),
        (found, _) => Ok(found),
    }
}

/// Returns the component with this id in this file, whether or not it is served.
///
/// # Errors
/// The file does not contain this component.
pub(crate) fn subject_in(loaded: &LoadedTools, id: &str, file: &Path) -> Result<Subject, Failure> {
    let same = |subject: &Subject| {
        let is_file = match (subject.file.canonicalize(), file.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => subject.file == file,
        };
        is_file && subject.id == id
    };
    subjects(loaded).into_iter().chain(contested(loaded)).find(same).ok_or_else(|| {
        Failure::usage(format!(
            "{} is not a file of the tools directory with the component {id}; see `{} tools`",
            shown_line(&file.display().to_string(), 300),
            program()
        ))
    })
}

/// Asks about every undecided component if a person is there to answer, on a terminal with room for
/// marked lines. Returns whether anything changed.
pub(crate) async fn ask_all(
    loaded: &LoadedTools,
    config: &Config,
    globals: &Globals,
    output: &Output,
) -> Result<bool, Failure> {
    let open: Vec<_> = subjects(loaded).into_iter().filter(|subject| subject.stands.open).collect();
    if open.is_empty() || !can_ask(output) {
        return Ok(false);
    }
    let columns = terminal_width();
    if columns < MIN_COLUMNS {
        output.warn(&format!(
            "components wait for approval, but the terminal has {columns} columns; make it at least \
             {MIN_COLUMNS} wide to be asked"
        ));
        return Ok(false);
    }
    // No decision without a record: open the store first.
    let store = open_store(globals)?;
    let mut approvals = loaded.approvals.clone();
    let mut changed = false;
    for subject in open {
        let mut answer = |question: &str| {
            output.say(question);
            read_line()
        };
        if let Some(decided) = decide(&subject, config, &mut approvals, columns, &mut answer)? {
            settle(&*store, subject.audit_subject(), decided.noted, decided.changes).await?;
            changed = true;
        }
    }
    Ok(changed)
}

/// A person's decision before it takes effect.
struct PersonDecision {
    noted: Vec<AuditRecord>,
    changes: Changes,
}

/// Shows the requests of one component on a terminal of `columns` and prepares the person's decision;
/// `None` if nothing was decided, or the terminal is too narrow for marked lines.
fn decide(
    subject: &Subject,
    config: &Config,
    approvals: &mut Approvals,
    columns: usize,
    answer: &mut dyn FnMut(&str) -> Result<String, Failure>,
) -> Result<Option<PersonDecision>, Failure> {
    if columns < MIN_COLUMNS {
        return Ok(None);
    }
    let question = format!(
        "{}\ngrant this? [y]es, [c]hoose one by one, [n]o for good, or nothing for later:",
        subject.question(columns)
    );
    let typed = answer(&question)?.to_ascii_lowercase();
    let decision = match typed.as_str() {
        "y" | "yes" | "c" | "choose" => Decision::Approved,
        "n" | "no" => Decision::Declined,
        _ => return Ok(None),
    };
    let path = grants::file_of(config);
    let begin = || Changes::begin(&path).map_err(|e| not_written(&e));
    if decision == Decision::Declined {
        let mut changes = begin()?;
        record(approvals, &mut changes, subject, decision)?;
        let noted = subject.audit_subject().declined(subject.asks.as_ref(), &subject.news);
        return Ok(Some(PersonDecision { noted, changes }));
    }
    let before = config.grants_of(&subject.id);
    let edit = match subject.asks.as_ref().filter(|asks| !asks.is_empty()) {
        Some(asks) if typed.starts_with('c') => {
            Some(granted_by_answers(subject, &chosen(asks, answer)?, config, answer)?)
        }
        Some(asks) => Some(granted_by_answers(subject, &asks.grants, config, answer)?),
        None => None,
    };
    let mut changes = begin()?;
    record(approvals, &mut changes, subject, decision)?;
    let mut noted = vec![subject.approval()];
    if let Some(edit) = edit {
        let after = edit.prepare(&mut changes).map_err(|e| not_written(&e))?.grants_of(&subject.id);
        if before != after {
            noted.extend(subject.audit_subject().granted(&before, &after));
        }
    }
    Ok(Some(PersonDecision { noted, changes }))
}

/// Returns the grants for a yes, with the directories that the person names.
fn granted_by_answers(
    subject: &Subject,
    asks: &ComponentGrants,
    config: &Config,
    answer: &mut dyn FnMut(&str) -> Result<String, Failure>,
) -> Result<Edit, Failure> {
    let mut edit = Edit::open(&grants::file_of(config))?;
    grant_requested(&mut edit, &subject.id, asks);
    let before = config.grants_of(&subject.id);
    let mut files = Vec::new();
    for asked in asks.each().iter().filter(|asked| !before.has(asked.kind, &asked.name)) {
        let Details::Access(access) = asked.details else { continue };
        let guest = shown_line(&asked.name, 200);
        let typed = answer(&format!("which directory should it see at {guest}? (empty: none)"))?;
        if !typed.is_empty() {
            let host = granted_path(&PathBuf::from(typed), &config.base_dir);
            files.push(Grant::files(&host, &asked.name, access, None));
        }
    }
    edit.grant(&subject.id, &files);
    grants::check(&edit, &subject.id, &files, config)?;
    Ok(edit)
}

/// Returns the requests that the person chooses, one by one. Directories are asked about later.
fn chosen(
    asks: &RequestedGrants,
    answer: &mut dyn FnMut(&str) -> Result<String, Failure>,
) -> Result<ComponentGrants, Failure> {
    let mut chosen = Vec::new();
    for asked in asks.grants.each() {
        match &asked.details {
            Details::Access(_) => chosen.push(asked.clone()),
            Details::Http(pattern) => chosen.extend(chosen_pattern(pattern, answer)?.map(Grant::http)),
            _ => {
                let (request, name) = (asked.kind.row().request, shown_line(&asked.name, 200));
                let typed = answer(&format!("{request} {name}? [y]es or [n]o:"))?;
                if matches!(typed.to_ascii_lowercase().as_str(), "y" | "yes") {
                    chosen.push(asked.clone());
                }
            }
        }
    }
    Ok(chosen.into_iter().collect())
}

/// Returns the HTTP pattern that the person chooses: the requested one, a narrower one, or none.
fn chosen_pattern(
    asked: &HttpPattern,
    answer: &mut dyn FnMut(&str) -> Result<String, Failure>,
) -> Result<Option<HttpPattern>, Failure> {
    let mut question = format!(
        "{} ({})? [y]es, [n]o, or a narrower pattern such as 'https://api.example.com/':",
        shown_line(&asked.to_string(), 300),
        shown_line(&asked.in_words(), 300)
    );
    loop {
        let typed = answer(&question)?;
        let why = match (typed.to_ascii_lowercase().as_str(), typed.parse::<HttpPattern>()) {
            ("y" | "yes", _) => return Ok(Some(asked.clone())),
            ("n" | "no" | "", _) => return Ok(None),
            (_, Ok(narrower)) if asked.covers(&narrower) => return Ok(Some(narrower)),
            (_, Ok(other)) => format!("{other} is not part of {asked}"),
            (_, Err(why)) => why.to_string(),
        };
        question = format!("{why}; [y]es, [n]o, or a narrower pattern:");
    }
}

/// Records the decision, then applies it. If applying fails, the audit says so.
pub(crate) async fn settle(
    store: &dyn AuditStore,
    audit_subject: AuditSubject<'_>,
    noted: Vec<AuditRecord>,
    changes: Changes,
) -> Result<(), Failure> {
    store.record_audit(noted).await.map_err(|e| not_recorded(&e))?;
    if let Err(why) = changes.commit() {
        store.record_audit(vec![audit_subject.not_written(&why)]).await?;
        return Err(not_written(&why));
    }
    Ok(())
}

/// The failure for a configuration that could not be changed.
pub(crate) fn not_written(why: &dyn Display) -> Failure {
    Failure::usage(format!("nothing was changed: {why}"))
}

/// The failure for a decision that could not be recorded.
fn not_recorded(why: &dyn Display) -> Failure {
    Failure::failed(format!("nothing was changed: {why}"))
}

/// Grants everything that needs no further questions: requests, existing secrets, variables,
/// actions, existing agents.
pub(crate) fn grant_asked(edit: &mut Edit, subject: &Subject) {
    if let Some(asks) = &subject.asks {
        grant_requested(edit, &subject.id, &asks.grants);
    }
}

fn grant_requested(edit: &mut Edit, id: &str, asks: &ComponentGrants) {
    let is_ready = |asked: &&Grant| match asked.kind {
        GrantKind::Secrets => edit.has_secret(&asked.name),
        GrantKind::Delegates => edit.has_agent(&asked.name),
        // The manifest does not say which directory it is, or which value a setting has.
        GrantKind::Files | GrantKind::Settings => false,
        _ => true,
    };
    let grants: Vec<Grant> = asks.each().iter().filter(is_ready).cloned().collect();
    edit.grant(id, &grants);
}

/// Prepares the record of the decision. A grant on the command line does not decide about a version
/// that waits for approval, and does not withdraw an approval. Declining a later version leaves the
/// earlier approval in force.
pub(crate) fn record(
    approvals: &mut Approvals,
    changes: &mut Changes,
    subject: &Subject,
    decision: Decision,
) -> Result<(), Failure> {
    let before = approvals.of(&subject.id).map(|before| before.decision);
    let is_approved = matches!(before, Some(Decision::Approved | Decision::Declined));
    let recorded = match decision {
        Decision::Granted if subject.stands.held || is_approved => return Ok(()),
        Decision::Declined if subject.stands.held => {
            approvals.prepare_decline(changes, &subject.id, &subject.digest)
        }
        _ => {
            let asks = subject.asks.clone();
            let approved = ComponentApproval::now(decision, &subject.digest, asks, &subject.surface);
            approvals.prepare(changes, &subject.id, approved)
        }
    };
    recorded.map_err(|e| not_recorded(&format!("the record of approvals cannot be written: {e}")))
}

/// Prints the commands that grant what a component requests and lacks.
pub(crate) fn say_lacking(id: &str, lacking: &[MissingGrant], output: &Output) {
    for lack in lacking {
        let what = shown_line(&lack.what, 300);
        output.say(&format!(
            "{DIM}{id} also asks to {what}:{DIM:#} {} grant {id} {}",
            program(),
            shown_line(&lack.grant, 2_000)
        ));
    }
}

fn subjects(loaded: &LoadedTools) -> Vec<Subject> {
    let approvals = &loaded.approvals;
    let served = loaded.components.iter().map(|component| {
        let asks = component.asks.clone();
        let decided = approvals.of(&component.id).map(|approved| approved.decision);
        let news: Vec<_> = match (decided, &asks) {
            (None | Some(Decision::Granted), Some(asks)) => {
                asks.lacking(&component.grants).into_iter().map(|lack| lack.what).collect()
            }
            _ => Vec::new(),
        };
        let asks_something = asks.as_ref().is_some_and(|asks| !asks.is_empty());
        let open = if decided.is_none() { asks_something } else { !news.is_empty() };
        Subject {
            id: component.id.clone(),
            file: component.file.clone(),
            digest: component.digest.clone(),
            asks,
            surface: component.surface.clone(),
            news,
            reworded: component.reworded.clone(),
            stands: ApprovalState { held: false, open },
        }
    });
    let others = loaded.pending.iter().map(|pending| (pending, true));
    let others = others.chain(loaded.unopened.iter().map(|unopened| (unopened, false)));
    let others = others.map(|(found, held)| {
        let declined = approvals.of(&found.id).and_then(|approved| approved.declined.as_ref());
        Subject::of(found, approvals, ApprovalState { held, open: held && declined != Some(&found.digest) })
    });
    served.chain(others).collect()
}

/// Returns the components whose id several files claim. No one is asked about them: a person looks
/// at the files first.
fn contested(loaded: &LoadedTools) -> impl Iterator<Item = Subject> {
    let stands = ApprovalState { held: true, open: false };
    loaded.contested.iter().map(move |found| Subject::of(found, &loaded.approvals, stands))
}

impl Subject {
    fn of(found: &PendingComponent, approvals: &Approvals, stands: ApprovalState) -> Self {
        Self {
            id: found.id.clone(),
            file: found.file.clone(),
            digest: found.digest.clone(),
            asks: found.asks.clone(),
            surface: found.surface.clone(),
            news: approvals.excess_over(found.asks.as_ref(), &found.surface),
            reworded: approvals.reworded(&found.surface),
            stands,
        }
    }

    /// Returns the component as the audit names it.
    pub(crate) fn audit_subject(&self) -> AuditSubject<'_> {
        AuditSubject { id: &self.id, digest: Some(&self.digest) }
    }

    /// Returns the audit record of the approval.
    pub(crate) fn approval(&self) -> AuditRecord {
        let asks = self.asks.as_ref().map(RequestedGrants::each).unwrap_or_default();
        self.audit_subject().approved(&[asks, self.surface.needs().each()].concat())
    }

    /// Returns the question, with the requests last, next to where the answer is typed.
    fn question(&self, columns: usize) -> String {
        let mut lines = vec![format!("{WAITS}the component {}{WAITS:#} describes its tools", self.id)];
        lines.extend(self.surface.tools.iter().map(|tool| {
            let mark = mark("new words: ", self.reworded.contains(&tool.name));
            let (name, said) =
                (shown_line(&tool.name, 64), shown_line(&tool.description, MAX_SHOWN_DESCRIPTION));
            format!("  {mark}{name}: {}", continued(&format!("\"{said}\""), name.len() + INDENT, columns))
        }));
        let file = quoted(&shown_line(&self.file.display().to_string(), 200));
        let inspect = continued(&format!("{} inspect {file}", program()), INDENT, columns);
        lines.push(format!("{DIM}everything: {inspect}{DIM:#}"));
        let listed = |what: &String| {
            format!("  - {}{}", mark("new: ", self.news.contains(what)), continued(what, INDENT, columns))
        };
        let needs = self.surface.needs().each();
        let asked = self.asks.as_ref().map(RequestedGrants::each).unwrap_or_default();
        let others: Vec<_> =
            self.news.iter().filter(|what| !needs.contains(what) && !asked.contains(what)).collect();
        if !others.is_empty() {
            lines.push("it would take".to_owned());
            lines.extend(others.into_iter().map(listed));
        }
        if !needs.is_empty() {
            lines.push("it can use, if granted".to_owned());
            lines.extend(needs.iter().map(listed));
        }
        lines.push(format!("{WAITS}it asks to{WAITS:#}"));
        match &self.asks {
            Some(_) => lines.extend(asked.iter().map(listed)),
            None => lines.push("  - do whatever it is granted: it has no manifest".to_owned()),
        }
        if let Some(why) = self.asks.as_ref().and_then(|asks| asks.why.as_ref()) {
            let why = continued(&format!("\"{}\"", shown_line(why, 500)), INDENT + 18, columns);
            lines.push(format!("{DIM}in its own words: {why}{DIM:#}"));
        }
        lines.push(format!("{DIM}sha256:{}{DIM:#}", self.digest));
        lines.join("\n")
    }
}

fn mark(words: &str, is_so: bool) -> String {
    if is_so { format!("{BOLD}{words}{BOLD:#}") } else { String::new() }
}

pub(crate) fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))?;
    Ok(line.trim().to_owned())
}

#[cfg(test)]
#[path = "approve_tests.rs"]
mod tests;
