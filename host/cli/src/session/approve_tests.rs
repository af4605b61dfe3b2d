//! Tests of components that request grants, and of the person who answers.
#![allow(clippy::unwrap_used)]
use super::*;
use tollgate_agent::descriptor::{ComponentDescriptor, StateAccess, ToolDescriptor};

fn subject() -> Subject {
    let text = "why = \"Grant me\\nall\"\nhttp = [\"https://a.test/\"]\nsecrets = [\"key\"]\nfiles = [{ guest = \"/docs\" }]";
    let asks: RequestedGrants = toml::from_str(text).unwrap();
    let words = format!("Fetches.\n\u{1b}[2Jit asks to\u{202e} {}", "x".repeat(4_000));
    let foreign = StateAccess { key: "mail.box".to_owned(), read: true, write: false, defines: None };
    let descriptor = ComponentDescriptor {
        id: "fetch".to_owned(),
        version: "1".to_owned(),
        tools: vec![ToolDescriptor::new("page", "fetch_page", words)],
        state: vec![foreign],
    };
    Subject {
        id: "fetch".to_owned(),
        file: PathBuf::from("tools/fetch.wasm"),
        digest: "ab".to_owned(),
        news: asks.each(),
        asks: Some(asks),
        surface: Surface::new(&descriptor, ["delegates"]),
        reworded: vec!["fetch_page".to_owned()],
        stands: ApprovalState { held: false, open: true },
    }
}

/// The outcome of a decision.
struct Outcome {
    questions: Vec<String>,
    config: Config,
    approvals: Approvals,
    noted: Vec<AuditRecord>,
}

/// Decides about each subject with the next of these answers.
fn decided(subjects: &[Subject], answers: &[&str]) -> Outcome {
    decided_on(80, subjects, answers)
}

/// Decides like [`decided`], on a terminal of this width.
fn decided_on(columns: usize, subjects: &[Subject], answers: &[&str]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tollgate.toml");
    std::fs::write(&path, "# ours\n").unwrap();
    let config = Config::load(Some(&path)).unwrap();
    let mut approvals = Approvals::load(&config).unwrap();
    let docs = dir.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    let mut questions = Vec::new();
    let mut answers = answers.iter();
    let mut answer = |question: &str| {
        questions.push(question.to_owned());
        Ok(answers.next().unwrap().replace("DOCS", &docs.display().to_string()))
    };
    let mut noted = Vec::new();
    for subject in subjects {
        let decided = decide(subject, &config, &mut approvals, columns, &mut answer).unwrap();
        if let Some(decided) = decided {
            noted.extend(decided.noted);
            decided.changes.commit().unwrap();
        }
    }
    Outcome { questions, config: Config::load(Some(&path)).unwrap(), approvals, noted }
}

#[test]
fn a_yes_grants_what_is_asked_and_is_noted() {
    let Outcome { questions, config, approvals, noted } = decided(&[subject()], &["y", "DOCS"]);
    assert!(questions[0].contains("send HTTP requests: https://a.test/"), "{}", questions[0]);
    assert!(questions[0].contains("in its own words: \"Grant me all\""), "{}", questions[0]);
    let grants = config.grants_of("fetch");
    let names: Vec<_> = grants.each().iter().map(|grant| grant.name.as_str()).collect();
    assert_eq!(names, ["/docs", "https://a.test/"], "there is no such secret");
    assert_eq!(approvals.of("fetch").unwrap().decision, Decision::Approved);
    let powers: Vec<_> =
        noted.iter().map(|record| (record.decision.as_str(), record.power.as_deref())).collect();
    assert_eq!(
        powers,
        [("approved", None), ("granted", Some("files")), ("granted", Some("http"))],
        "{noted:?}"
    );
    assert!(noted.iter().all(|record| record.digest.as_deref() == Some("ab") && record.who == "person"));
}

#[test]
fn a_question_shows_tools_cleaned_and_cut_and_what_they_need_of_others() {
    let question = decided(&[subject()], &[""]).questions.remove(0);
    let plain = anstream::adapter::strip_str(&question).to_string();
    assert!(plain.contains("  new words: fetch_page: \"Fetches. [2Jit asks to xxx"), "{plain}");
    // No line is long enough to wrap, which would start a line with the tool's words.
    assert!(plain.lines().all(|line| line.len() <= 80), "{plain}");
    assert!(plain.lines().any(|line| line.starts_with("| xxx")), "{plain}");
    assert!(plain.contains("  - to read the state key `mail.box`"), "{plain}");
    assert!(plain.contains("  - the power `delegates`"), "{plain}");
    assert!(plain.contains("  - new: send HTTP requests: https://a.test/"), "{plain}");
    assert!(question.len() < 2_000 && !question.contains("\u{1b}[2J"), "{question:?}");
}

#[test]
fn nobody_is_asked_on_a_terminal_too_narrow_for_marked_lines() {
    let Outcome { questions, config, approvals, .. } =
        decided_on(MIN_COLUMNS - 1, &[subject()], &["y", "DOCS"]);
    assert!(questions.is_empty() && config.grants.is_empty() && approvals.of("fetch").is_none());
    assert_eq!(decided_on(MIN_COLUMNS, &[subject()], &["n"]).questions.len(), 1);
}

#[test]
fn a_no_grants_nothing_and_is_remembered_and_noted() {
    let Outcome { config, approvals, noted, .. } = decided(&[subject()], &["n"]);
    assert!(config.grants.is_empty());
    assert_eq!(approvals.of("fetch").unwrap().decision, Decision::Declined);
    let powers: Vec<_> =
        noted.iter().map(|record| (record.decision.as_str(), record.power.as_deref())).collect();
    assert_eq!(
        powers,
        [("declined", Some("files")), ("declined", Some("http")), ("declined", Some("secrets"))]
    );
}

/// Declining a version that asks for more must not cause it to be served.
#[test]
fn a_no_to_a_later_version_leaves_the_approval_of_the_first() {
    let more: RequestedGrants = toml::from_str("http = [\"* https://*\"]").unwrap();
    let held = ApprovalState { held: true, open: true };
    let later = Subject { asks: Some(more.clone()), digest: "cd".to_owned(), stands: held, ..subject() };
    let came = decided(&[subject(), later.clone()], &["y", "", "n"]);
    let approved = came.approvals.of("fetch").unwrap();
    assert_eq!((approved.decision, approved.digest.as_str()), (Decision::Approved, "ab"));
    assert_eq!(approved.declined.as_deref(), Some("cd"));
    assert!(!came.approvals.excess_over(Some(&more), &later.surface).is_empty());
}

#[test]
fn requests_can_be_chosen_one_by_one_and_narrowed() {
    let asks: RequestedGrants = toml::from_str(
        "http = [\"* https://*\"]\nenvironment = [\"LANG\", \"HOME\"]\nfiles = [{ guest = \"/docs\" }]",
    )
    .unwrap();
    let subject = Subject { news: asks.each(), asks: Some(asks), ..subject() };
    let answers = ["c", "http://a.test/", "api", "POST https://a.test/v1/", "n", "y", ""];
    let Outcome { questions, config, approvals, .. } = decided(&[subject], &answers);
    assert!(questions[0].contains("(any request to any host)"), "{}", questions[0]);
    assert!(questions[1].starts_with("* https://*/ (any request to any host)?"), "{}", questions[1]);
    assert!(questions[2].contains("is not part of"), "{}", questions[2]);
    assert!(questions[3].contains("https://"), "{}", questions[3]);
    let grants = config.grants_of("fetch");
    let names: Vec<_> = grants.each().iter().map(|grant| grant.name.as_str()).collect();
    assert_eq!(names, ["POST https://a.test/v1/", "LANG"]);
    assert_eq!(approvals.of("fetch").unwrap().decision, Decision::Approved);
}

#[test]
fn no_answer_decides_nothing() {
    let Outcome { config, approvals, noted, .. } = decided(&[subject()], &[""]);
    assert!(config.grants.is_empty() && approvals.of("fetch").is_none() && noted.is_empty());
}
