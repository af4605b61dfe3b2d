//! A question as a card: the host's own view first, then the words of the tool or gate that asks,
//! then the forms that answer it.

use super::cache::Question;
use super::form::{Entries, EntryError, Form};
use super::form_fields::{self, Context};
use super::layout;
use super::text;
use super::viewer::{Viewer, owner_and_id};
use crate::Scope;
use maud::{Markup, html};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tollgate::store::RunSummary;
use tollgate_agent::gate::permissions::asks_to_permit;
use tollgate_agent::outcome::ResumeMode;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::question::action;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer, Event, StoredEvent};

/// The maximum size of a question in a list, in bytes of its texts. A longer one has a page of its
/// own.
const MAX_LISTED_BYTES: usize = 6 * 1024;
/// The maximum size of a question that can be answered in the browser. A person sees the whole
/// question before answering.
const MAX_SHOWN_BYTES: usize = 48 * 1024;

/// A question with its run.
pub(super) struct Card<'a> {
    /// The id of the element, unique on the page.
    pub(super) id: String,
    run: &'a RunSummary,
    /// Whether the person may answer it.
    is_answerable: bool,
    asked: &'a SuspendedCall,
    at_ms: u64,
    now_ms: u64,
    max_bytes: usize,
    /// The page to return to.
    back: String,
}

impl<'a> Card<'a> {
    pub(super) fn new(run: &'a RunSummary, question: &'a Question, now_ms: u64) -> Self {
        Self {
            id: element_id(&run.run_id, &question.asked.suspension_id),
            run,
            is_answerable: false,
            asked: &question.asked,
            at_ms: question.at_ms,
            now_ms,
            max_bytes: MAX_SHOWN_BYTES,
            back: "waiting".to_owned(),
        }
    }

    /// Shows the forms that answer it, if the person may.
    pub(super) fn answerable(mut self, is_answerable: bool) -> Self {
        self.is_answerable = is_answerable;
        self
    }

    /// Makes it a card of a list, which shows long questions on their own pages.
    pub(super) fn in_list(mut self) -> Self {
        self.max_bytes = MAX_LISTED_BYTES;
        self
    }

    /// Makes its forms return to the page of the run, or of the playground.
    pub(super) fn back_to(mut self, page: impl Into<String>) -> Self {
        self.back = page.into();
        self
    }

    /// Renders the open question.
    pub(super) fn open(&self, entries: &Entries, errors: &[EntryError], viewer: &Viewer) -> Markup {
        let is_shown = size(self.asked) <= self.max_bytes;
        html! {
            article.card.question id=(self.id) tabindex="-1" aria-labelledby={ (self.id) "-title" } {
                (self.head(html! { (layout::badge("waiting")) span { "asked " (text::ago(self.at_ms, self.now_ms)) } }))
                @if is_shown {
                    @let arguments = self.asked.asking_arguments().map(Arguments::to_value);
                    (self.host_view(arguments.as_deref()))
                    (self.words(arguments.as_deref()))
                    @if self.is_answerable { (self.forms(entries, errors, viewer)) }
                    @else { p.muted { "You may read this question, but not answer it." } }
                } @else { (self.too_long()) }
            }
        }
    }

    fn head(&self, right: Markup) -> Markup {
        html! {
            header {
                h2 id={ (self.id) "-title" } { span.tool { (text::line(self.tool_name(), 64)) } " " span.action { (action(self.asked)) } }
                div.aside { (right) }
            }
        }
    }

    fn tool_name(&self) -> &str {
        self.asked.child.as_ref().map_or(self.asked.tool_name.as_str(), |child| child.tool_name.as_str())
    }

    /// Renders the facts that the host itself stamped on the call.
    fn host_view(&self, arguments: Option<&Value>) -> Markup {
        let asked = self.asked;
        let (owner, thread) = owner_and_id(&self.run.thread_id);
        html! {
            div.hostview {
                h3 { "The call, as the host sees it" }
                dl.facts {
                    div { dt { "Agent" } dd {
                        (text::line(&self.run.agent_id, 64))
                        @if let Some(child) = &asked.child { " → " (text::line(&child.agent_id, 64)) }
                    } }
                    div { dt { "For" } dd { (text::line(owner.unwrap_or("–"), 64)) ", thread " (text::line(thread, 64)) } }
                    @if let Some(version) = &asked.owner {
                        div { dt { "Provided by" } dd { (text::line(&version.id, 64)) " " code.digest { (text::line(&version.version, 80)) } } }
                    }
                    // The page of the run has its title above.
                    @if self.back != "run" {
                        div.wide { dt { "Run" } dd { (layout::run_link(&self.run.run_id, text::line(&self.run.title, 120))) } }
                    }
                }
                h4 { "Arguments" }
                @match arguments { Some(arguments) => (value_list(arguments)), None => p.muted { "none" } }
            }
        }
    }

    /// Renders the words of the tool or gate, marked as such.
    fn words(&self, arguments: Option<&Value>) -> Markup {
        let ticket = &self.asked.ticket;
        let about = Some(&ticket.parameters).filter(|about| !about.is_null() && Some(*about) != arguments);
        html! {
            figure.words {
                figcaption { (speaker(self.asked)) " asks" }
                blockquote { (text::lines(&ticket.message, usize::MAX)) }
                @if let Some(about) = about { pre { (text::body(&text::json(about))) } }
            }
        }
    }

    fn forms(&self, entries: &Entries, errors: &[EntryError], viewer: &Viewer) -> Markup {
        let form = Form::of(self.asked);
        let permits = asks_to_permit(self.asked);
        html! {
            div.reply {
                @if permits { (self.permission_form(viewer)) } @else { (self.answer_form(&form, entries, errors)) }
                (self.refusal_form(entries))
            }
        }
    }

    fn action_path(&self) -> String {
        format!("/console/runs/{}/decide", layout::segment(&self.run.run_id))
    }

    fn hidden(&self) -> Markup {
        html! {
            input type="hidden" name="s" value=(self.asked.suspension_id);
            input type="hidden" name="back" value=(self.back);
        }
    }

    fn answer_form(&self, form: &Form, entries: &Entries, errors: &[EntryError]) -> Markup {
        let context = Context { id: &self.id, entries, errors };
        let general: Vec<&EntryError> = errors.iter().filter(|error| error.pointer.is_empty()).collect();
        let shows_general = !matches!(form, Form::Json | Form::Single(_));
        let says = match self.asked.ticket.resume_mode {
            ResumeMode::ReplayToolCall if *form == Form::Anything => "Yes, go on",
            ResumeMode::PassDecisionToTool => "Run with this",
            _ => "Answer",
        };
        html! {
            form.yes method="post" action=(self.action_path()) data-swap=(self.id) {
                (self.hidden())
                @if !errors.is_empty() { p.error role="alert" { "The answer does not fit. Change it and send it again." } }
                @if shows_general { @for error in general { p.error { (text::line(&error.problem, 400)) } } }
                (form_fields::of_form(form, &context))
                @if let Some(schema) = self.asked.ticket.response_schema.as_ref().filter(|_| *form == Form::Json) {
                    details { summary { "Schema of the answer" } pre { (text::body(&text::json(schema))) } }
                }
                @if *form == Form::Anything {
                    details { summary { "Answer with a value instead" } (form_fields::json_field(&context)) }
                }
                button.primary type="submit" name="do" value="answer" { (says) }
            }
        }
    }

    fn permission_form(&self, viewer: &Viewer) -> Markup {
        let choices = [
            ("once", "Allow once"),
            ("run", "For this run"),
            ("thread", "For this thread"),
            ("always", "Always"),
        ];
        html! {
            form.permit method="post" action=(self.action_path()) data-swap=(self.id) {
                (self.hidden())
                fieldset.choice {
                    legend { "Longer permissions hold for" }
                    div.options {
                        label.option { input type="radio" name="for" value="arguments" checked; span { "these arguments" } }
                        label.option { input type="radio" name="for" value="tool"; span { "the whole tool" } }
                    }
                }
                div.buttons role="group" aria-label="Allow" {
                    @for (value, words) in choices {
                        @if value != "always" || (viewer.data.keeps_rules() && viewer.has(Scope::Operate)) {
                            button.primary[value == "once"] type="submit" name="permit" value=(value) { (words) }
                        }
                    }
                }
            }
        }
    }

    fn refusal_form(&self, entries: &Entries) -> Markup {
        let id = format!("{}-reason", self.id);
        html! {
            form.no method="post" action=(self.action_path()) data-swap=(self.id) {
                (self.hidden())
                div.field {
                    label for=(id) { "Reason" span.optional { " optional" } }
                    input id=(id) name="reason" type="text" maxlength="1000" value=(entries.get("reason").unwrap_or_default());
                }
                button.danger type="submit" name="do" value="no" { "No" }
            }
        }
    }

    fn too_long(&self) -> Markup {
        let bytes = text::bytes(size(self.asked) as u64);
        let query = [("s", self.asked.suspension_id.as_str())];
        let href = text::href(&format!("/console/waiting/{}", layout::segment(&self.run.run_id)), &query);
        html! {
            @if self.max_bytes < MAX_SHOWN_BYTES {
                p { "This question has " (bytes) ". " a.button href=(href) { "Read it whole and answer" } }
            } @else {
                p { "This question has " (bytes) ", which is more than a page shows. Read and answer it on the command line: "
                    code { "tollgate show " (text::line(&self.run.run_id, 64)) " --json" } "." }
            }
        }
    }
}

/// Renders the answer to a question of a run; `None` if there is none.
pub(super) fn answered(
    run: &RunSummary,
    events: &[Arc<StoredEvent>],
    suspension: &str,
    now_ms: u64,
) -> Option<Markup> {
    let mut found: Option<Question> = None;
    let mut decided: Option<(&Decision, u64)> = None;
    let mut is_over = false;
    let is_about = |found: &Option<Question>, call_id: &str| {
        found.as_ref().is_some_and(|it| it.asked.call_id == call_id)
    };
    for event in events {
        match &event.event {
            Event::CallSuspended(asked) if asked.suspension_id == suspension => {
                found = Some(Question { asked: Arc::new((**asked).clone()), at_ms: event.at_ms });
            }
            Event::CallDecided { call_id, decision, .. } if !is_over && is_about(&found, call_id) => {
                decided = Some((decision.as_ref(), event.at_ms));
                is_over = true;
            }
            Event::CallFinished(finished) => is_over |= is_about(&found, &finished.call_id),
            Event::RunFinished { .. } => is_over = true,
            _ => {}
        }
    }
    let question = found?;
    let card = Card::new(run, &question, now_ms);
    is_over.then(|| html! {
        article.card.question.answered id=(card.id) tabindex="-1" aria-labelledby={ (card.id) "-title" } {
            (card.head(html! {
                @match decided { Some((decision, _)) => (verdict(decision)), None => (layout::badge("superseded")) }
            }))
            p.outcome {
                @match decided {
                    Some((decision, at_ms)) => { (answer_words(decision)) " · " (text::moment(at_ms, now_ms)) },
                    None => "It was not answered: the run went on without it.",
                }
            }
            p { (layout::run_link(&run.run_id, text::line(&run.title, 120))) }
        }
    })
}

fn verdict(decision: &Decision) -> Markup {
    match decision.answer {
        DecisionAnswer::Resume(_) => {
            html! { span.badge.good { span.sign aria-hidden="true" { "✓" } "answered" } }
        }
        DecisionAnswer::Cancel => {
            html! { span.badge.quiet { span.sign aria-hidden="true" { "–" } "declined" } }
        }
    }
}

/// Returns a decision in words, with the name of the person or key.
pub(super) fn answer_words(decision: &Decision) -> Markup {
    let by = decision.by.as_deref().unwrap_or("A person");
    html! {
        @if decision.by_key { "The key " }
        (text::line(by, 64))
        @match &decision.answer {
            DecisionAnswer::Cancel => " said no",
            DecisionAnswer::Resume(Value::Bool(true)) => " said yes",
            DecisionAnswer::Resume(value) => { @match remembered(value) {
                Some(words) => { " said yes, " (words) },
                None => { " answered " code { (text::short_json(value, 400)) } },
            } },
        }
        @if let Some(reason) = &decision.reason { ": “" (text::line(reason, 400)) "”" }
    }
}

/// Returns the words for a yes to the permission rules that covers later calls; `None` for any other
/// answer.
fn remembered(value: &Value) -> Option<String> {
    let scope = match value["remember"].as_str()? {
        "run" => "for this run",
        "thread" => "for this thread",
        "always" => "always",
        _ => return None,
    };
    let about = match value["for"].as_str() {
        Some("tool") => "for every call of the tool",
        _ => "for these arguments",
    };
    Some(format!("{scope}, {about}"))
}

/// Names the speaker of a question's words.
fn speaker(asked: &SuspendedCall) -> Markup {
    html! {
        @match (&asked.gate, &asked.child) {
            (Some(gate), _) => { "The gate " code { (text::line(gate, 64)) } },
            (None, Some(child)) => {
                "The tool " code { (text::line(&child.tool_name, 64)) } " of the agent " code { (text::line(&child.agent_id, 64)) }
            },
            (None, None) => { "The tool " code { (text::line(&asked.tool_name, 64)) } },
        }
    }
}

/// Renders a value whole: the members of an object one by one, anything else as JSON.
pub(super) fn value_list(value: &Value) -> Markup {
    let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
        return html! { pre { (text::body(&text::json(value))) } };
    };
    html! {
        dl.values { @for (name, value) in members {
            dt { code { (text::exact(name)) } }
            dd { @match value {
                Value::String(text) => span.string { (text::exact(text)) },
                Value::Array(_) | Value::Object(_) => pre { (text::body(&text::json(value))) },
                value => code { (value.to_string()) },
            } }
        } }
    }
}

/// Returns the size of a question's texts in bytes. Arguments that are too long to be shown are not parsed,
/// because their value takes many times their memory.
pub(super) fn size(asked: &SuspendedCall) -> usize {
    let ticket = &asked.ticket;
    let json = |value: &Value| if value.is_null() { 0 } else { text::json(value).len() };
    let schema = ticket.response_schema.as_ref().map_or(0, json);
    let arguments = asked.asking_arguments().map_or(0, |arguments| match arguments.text().len() {
        bytes if bytes > MAX_SHOWN_BYTES => bytes,
        _ => json(&arguments.to_value()),
    });
    ticket.message.len() + json(&ticket.parameters) + arguments + schema
}

/// Returns the id of a question's element: letters and digits, whatever the ids contain.
pub(super) fn element_id(run_id: &str, suspension: &str) -> String {
    let digest = Sha256::digest(format!("{run_id}\n{suspension}").as_bytes());
    let hex: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("q-{hex}")
}
