//! A component that asks for something, and a person who decides. What is asked is
//! shown as the host understands it, not in the component's own words; those are
//! cleaned, and marked as its own.

use super::output::{BOLD, DIM, WAITS, shown_line};
use super::{Failure, Opened, Output, grant, program};
use std::io::{self, BufRead as _};
use std::path::PathBuf;
use tollgate::config::{Config, Edit, FileValue, Powers, granted_path};
use tollgate::powers::{Approvals, Approved, Asks, Decision, Lack};

/// The component that is decided about.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) id: String,
    digest: String,
    pub(super) asks: Asks,
    /// What it asks for that was not approved yet.
    news: Vec<String>,
}

/// The component of this id, whether it is served or waits for approval.
pub(super) fn subject(opened: &Opened, id: &str) -> Result<Subject, Failure> {
    let known = subjects(opened).into_iter().find(|subject| subject.id == id);
    known.ok_or_else(|| {
        Failure::usage(format!(
            "no component {id} with a manifest is in {}; without one nothing is asked, so name what to grant",
            opened.config.tools_dir.display()
        ))
    })
}

/// Asks about everything that nobody has decided about. Whether anything changed.
pub(super) fn ask_all(opened: &Opened, output: &Output) -> Result<bool, Failure> {
    let mut approvals = opened.loaded.approvals.clone();
    let mut changed = false;
    for subject in subjects(opened).into_iter().filter(|subject| !subject.news.is_empty()) {
        let mut answer = |question: &str| {
            output.say(question);
            read_line()
        };
        changed |= decide(&subject, &opened.config, &mut approvals, &mut answer)?;
    }
    Ok(changed)
}

/// Shows what one component asks for and does as the person says.
fn decide(
    subject: &Subject,
    config: &Config,
    approvals: &mut Approvals,
    answer: &mut dyn FnMut(&str) -> Result<String, Failure>,
) -> Result<bool, Failure> {
    let question = format!(
        "{}\ngrant this? [y]es, [n]o and do not ask again, or nothing to decide later:",
        subject.question()
    );
    let decision = match answer(&question)?.to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Approved,
        "n" | "no" => Decision::Declined,
        _ => return Ok(false),
    };
    if decision == Decision::Approved {
        let mut edit = Edit::open(&grant::file_of(config)).map_err(Failure::usage)?;
        grant_asked(&mut edit, subject);
        for file in &subject.asks.files {
            let known = config.grants_of(&subject.id).files.iter().any(|given| given.guest == file.guest);
            let typed = if known {
                String::new()
            } else {
                answer(&format!("which directory shall it see at {}? (nothing: none)", file.guest))?
            };
            if !typed.is_empty() {
                let host = granted_path(&PathBuf::from(typed), &config.base_dir);
                let value =
                    FileValue { host, guest: file.guest.clone(), access: file.access, quota_bytes: None };
                edit.grant(&subject.id, &Powers { files: vec![value], ..Powers::default() });
            }
        }
        edit.save().map_err(Failure::usage)?;
    }
    record(approvals, subject, decision)?;
    Ok(true)
}

/// Grants what can be granted without asking more: requests, secrets that are there,
/// variables, actions, agents that are there.
pub(super) fn grant_asked(edit: &mut Edit, subject: &Subject) {
    let asks = &subject.asks;
    let http = asks.http.iter().map(|pattern| ("http", pattern.to_string()));
    let secrets = asks.secrets.iter().filter(|name| edit.has_secret(name));
    let secrets: Vec<_> = secrets.map(|name| ("secrets", name.clone())).collect();
    let variables = asks.environment.iter().map(|name| ("environment", name.clone()));
    let actions = asks.actions.iter().map(|name| ("actions", name.clone()));
    let lists = http.chain(secrets).chain(variables).chain(actions).collect();
    let delegates = asks.delegates.iter().filter(|agent| edit.has_agent(agent)).cloned().collect();
    edit.grant(&subject.id, &Powers { lists, delegates, ..Powers::default() });
}

/// Notes how it was decided.
pub(super) fn record(
    approvals: &mut Approvals,
    subject: &Subject,
    decision: Decision,
) -> Result<(), Failure> {
    let approved = Approved {
        decision,
        at: jiff::Timestamp::now().to_string(),
        digest: subject.digest.clone(),
        asks: subject.asks.clone(),
    };
    approvals
        .decide(&subject.id, approved)
        .map_err(|e| Failure::failed(format!("the record of approvals cannot be written: {e}")))
}

/// The lines that grant what a component asks for and lacks.
pub(super) fn say_lacking(id: &str, lacking: &[Lack], output: &Output) {
    for lack in lacking {
        let what = shown_line(&lack.what, 300);
        output.say(&format!("{DIM}{id} also asks to {what}:{DIM:#} {} grant {id} {}", program(), lack.grant));
    }
}

fn subjects(opened: &Opened) -> Vec<Subject> {
    let loaded = &opened.loaded;
    let served = loaded.components.iter().filter_map(|component| {
        let asks = component.asks.clone().filter(|asks| !asks.is_empty())?;
        let news = match loaded.approvals.of(&component.id) {
            Some(_) => Vec::new(),
            None => asks.lacking(&component.grants).into_iter().map(|lack| lack.what).collect(),
        };
        Some(Subject { id: component.id.clone(), digest: component.digest.clone(), asks, news })
    });
    let held = loaded.held.iter().map(|held| Subject {
        id: held.id.clone(),
        digest: held.digest.clone(),
        news: loaded.approvals.beyond(&held.id, &held.asks),
        asks: held.asks.clone(),
    });
    served.chain(held).collect()
}

impl Subject {
    fn question(&self) -> String {
        let mut lines = vec![format!("{WAITS}the component {} asks to{WAITS:#}", self.id)];
        lines.extend(self.asks.each().iter().map(|what| {
            let mark = if self.news.contains(what) { format!("{BOLD}new:{BOLD:#} ") } else { String::new() };
            format!("  - {mark}{}", shown_line(what, 300))
        }));
        if let Some(why) = &self.asks.why {
            lines.push(format!("{DIM}in its own words: \"{}\"{DIM:#}", shown_line(why, 500)));
        }
        lines.push(format!("{DIM}sha256:{}{DIM:#}", self.digest));
        lines.join("\n")
    }
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|e| Failure::failed(format!("the terminal cannot be read: {e}")))?;
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn subject() -> Subject {
        let text = "why = \"Grant me\\nall\"\nhttp = [\"https://a.test/\"]\nsecrets = [\"key\"]\nfiles = [{ guest = \"/docs\" }]";
        let asks: Asks = toml::from_str(text).unwrap();
        Subject { id: "fetch".to_owned(), digest: "ab".to_owned(), news: asks.each(), asks }
    }

    /// Decides with these answers; gives the questions, and the configuration.
    fn decided(answers: &[&str]) -> (Vec<String>, Config, Approvals) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, "# ours\n").unwrap();
        let config = Config::load(Some(&path)).unwrap();
        let mut approvals = Approvals::load(&config).unwrap();
        let mut questions = Vec::new();
        let mut answers = answers.iter();
        let mut answer = |question: &str| {
            questions.push(question.to_owned());
            Ok((*answers.next().unwrap()).to_owned())
        };
        decide(&subject(), &config, &mut approvals, &mut answer).unwrap();
        (questions, Config::load(Some(&path)).unwrap(), approvals)
    }

    #[test]
    fn a_yes_grants_what_is_asked() {
        let (questions, config, approvals) = decided(&["y", "docs"]);
        assert!(questions[0].contains("send HTTP requests: https://a.test/"), "{}", questions[0]);
        assert!(questions[0].contains("in its own words: \"Grant me all\""), "{}", questions[0]);
        let grants = config.grants_of("fetch");
        assert_eq!(grants.http.len(), 1);
        assert_eq!(grants.files[0].guest, "/docs");
        assert!(grants.secrets.is_empty(), "there is no such secret");
        assert_eq!(approvals.of("fetch").unwrap().decision, Decision::Approved);
    }

    #[test]
    fn a_no_grants_nothing_and_is_remembered() {
        let (_, config, approvals) = decided(&["n"]);
        assert!(config.grants.is_empty());
        assert_eq!(approvals.of("fetch").unwrap().decision, Decision::Declined);
    }

    #[test]
    fn no_answer_decides_nothing() {
        let (_, config, approvals) = decided(&[""]);
        assert!(config.grants.is_empty() && approvals.of("fetch").is_none());
    }
}
