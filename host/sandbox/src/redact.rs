//! Removes secrets from a call's output: its result, its errors, its reports, its console output,
//! and its messages to other agents. Responses to the call are redacted as they arrive.

use crate::attempt::Attempt;
use crate::grants::Grants;
use crate::report::Report;
use std::sync::Arc;
use tollgate_agent::child::ChildRequest;
use tollgate_agent::content::ContentPart;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::{Action, Fault, Outcome, Ticket, ToolOutput, ToolResult, ToolStatus};
use tollgate_agent::redact::Redactor;

/// Redacts the secrets that are added to a component's requests.
#[derive(Clone, Default)]
pub(crate) struct Redacted(Redactor);

impl Redacted {
    pub(crate) fn for_grants(grants: &Grants) -> Self {
        Self(grants.http().map(|http| http.blanks().clone()).unwrap_or_default())
    }

    pub(crate) fn report(&self, report: &mut Report) {
        if self.0.is_empty() {
            return;
        }
        match report {
            Report::Activity { kind, content } => {
                self.0.in_place(kind);
                self.0.in_place(content);
            }
            Report::ActivityDelta { kind, patch } => {
                self.0.in_place(kind);
                self.0.value(patch);
            }
            Report::Progress { message, .. } => self.some(message.as_mut()),
            Report::Output(text)
            | Report::Log { message: text, .. }
            | Report::ChildError { message: text, .. } => self.0.in_place(text),
        }
    }

    pub(crate) fn attempt(&self, attempt: &mut Attempt) {
        if self.0.is_empty() {
            return;
        }
        match &mut attempt.outcome {
            Outcome::Returned(output) => self.output(output),
            Outcome::Faulted(fault) => self.fault(fault),
        }
        self.0.in_place(&mut attempt.console.text);
        attempt.denied.iter_mut().for_each(|denied| self.0.in_place(denied));
    }

    /// A request to a child reaches the child's model and its record.
    pub(crate) fn child(&self, request: &mut ChildRequest) {
        if self.0.is_empty() {
            return;
        }
        request.messages.iter_mut().for_each(|message| self.message(message));
        request.seed.iter_mut().for_each(|(_, value)| self.0.value(value));
    }

    pub(crate) fn fault(&self, fault: &mut Fault) {
        self.0.in_place(&mut fault.message);
        self.some(fault.detail.as_mut());
    }

    fn output(&self, output: &mut ToolOutput) {
        let ToolOutput { result, mutations, actions } = output;
        let ToolResult { status, data, message, content } = Arc::make_mut(result);
        content.iter_mut().for_each(|part| self.part(part));
        data.change(|value| self.0.value(value));
        self.some(message.as_mut());
        if let ToolStatus::Pending(Some(ticket)) = status {
            self.ticket(ticket);
        }
        mutations.iter_mut().for_each(|mutation| self.0.value(&mut mutation.update));
        for action in actions {
            match action {
                Action::TransferToAgent(text) | Action::AddContext(text) => self.0.in_place(text),
                Action::ScheduleContext(later) => self.0.in_place(&mut later.note),
                Action::FilterTools(_) | Action::Escalate => {}
            }
        }
    }

    /// Binary data stays as it is: a guest never sees a secret, so it cannot have encoded one.
    fn part(&self, part: &mut ContentPart) {
        match part {
            ContentPart::Image { .. } | ContentPart::Audio { .. } => {}
            ContentPart::TextFile { uri, text, .. } => {
                self.0.in_place(uri);
                *text = self.0.text(text).into();
            }
            ContentPart::BinaryFile { uri, .. } => self.0.in_place(uri),
            ContentPart::Link { uri, name, title, description, .. } => {
                self.0.in_place(uri);
                self.0.in_place(name);
                self.some(title.as_mut());
                self.some(description.as_mut());
            }
        }
    }

    /// A guest's messages contain only text, no tool calls or answers to them.
    fn message(&self, message: &mut Message) {
        match message {
            Message::User(text) | Message::Note(text) => self.0.in_place(text),
            Message::Assistant(said) => self.0.in_place(&mut said.text),
            Message::Answer(_) => {}
        }
    }

    fn ticket(&self, ticket: &mut Ticket) {
        self.0.in_place(&mut ticket.action);
        self.0.in_place(&mut ticket.message);
        self.0.value(&mut ticket.parameters);
        if let Some(schema) = &mut ticket.response_schema {
            self.0.value(schema);
        }
    }

    fn some(&self, text: Option<&mut String>) {
        if let Some(text) = text {
            self.0.in_place(text);
        }
    }
}
