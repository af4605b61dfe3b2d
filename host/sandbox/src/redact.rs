//! Removes secrets from a call's output: its result, its errors, its reports, its console output,
//! and its messages to other agents. Responses to the call are redacted as they arrive.

use crate::admission::Slot;
use crate::attempt::Attempt;
use crate::blocking::{LARGE_BYTES, offload};
use crate::grants::Grants;
use crate::report::Report;
use crate::termination::Termination;
use crate::watchdog::CallDeadline;
use std::pin::pin;
use std::sync::Arc;
use tollgate_agent::child::ChildRequest;
use tollgate_agent::content::ContentPart;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::{Action, Fault, Outcome, Ticket, ToolOutput, ToolResult, ToolStatus};
use tollgate_agent::redact::Redactor;

/// Redacts the secrets that are added to a component's requests.
#[derive(Clone, Default)]
pub(crate) struct SecretRedactor(Redactor);

impl SecretRedactor {
    pub(crate) fn for_grants(grants: &Grants) -> Self {
        Self(grants.http().map(|http| http.redactor().clone()).unwrap_or_default())
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

    /// Redacts an outcome of this size within the call's time, and a large one on a thread that
    /// blocks no other call.
    ///
    /// # Errors
    /// Fails if the call's time is over.
    pub(crate) async fn outcome(
        &self,
        mut outcome: Outcome,
        bytes: u64,
        slot: &Arc<Slot>,
        term: &CallDeadline<'_>,
    ) -> Result<Outcome, Termination> {
        if self.0.is_empty() {
            return Ok(outcome);
        }
        if bytes <= LARGE_BYTES {
            self.returned(&mut outcome);
            return Ok(outcome);
        }
        let (redacted, slot) = (self.clone(), Arc::clone(slot));
        let work = offload(move || {
            // The memory of the outcome is in use until the search ends, even after a timeout.
            let _slot = slot;
            redacted.returned(&mut outcome);
            Ok(outcome)
        });
        Box::pin(async { term.attend(pin!(work)).await }).await
    }

    fn returned(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Returned(output) => self.output(output),
            Outcome::Faulted(fault) => self.fault(fault),
        }
    }

    /// Redacts what the host kept besides the outcome, which has small limits, and the host's own
    /// words about a call that failed.
    pub(crate) fn rest(&self, attempt: &mut Attempt) {
        if self.0.is_empty() {
            return;
        }
        if let Outcome::Faulted(fault) = &mut attempt.outcome {
            self.fault(fault);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::admission::Admission;
    use crate::config::SandboxConfig;
    use crate::egress::{HttpGrant, Secret};
    use std::time::{Duration, Instant};
    use tokio_util::sync::CancellationToken;
    use tollgate_agent::egress::Egress;

    #[tokio::test]
    async fn z13_a_large_outcome_is_redacted_within_the_time_of_its_call() {
        let to = "https://api.example.com".parse().unwrap();
        let secret = Secret::new(to, "authorization", "Bearer ", "correct horse battery").unwrap();
        let http = HttpGrant::new(Egress::new(Vec::new(), Vec::new())).with_secrets(vec![secret]);
        let redacted = SecretRedactor::for_grants(&Grants::default().with_http(http));
        let admission = Admission::new(&SandboxConfig::default());
        let slot = Arc::new(admission.take(None, 1, Duration::ZERO).await.unwrap());
        let outcome = |text: String| Outcome::Returned(ToolOutput::from(ToolResult::success(text)));
        let cancel = CancellationToken::new();

        let term = CallDeadline::new(Instant::now(), Duration::from_secs(60), &cancel);
        let space = " ".repeat(200_000);
        let given = outcome(format!("{space}correct horse battery"));
        let blanked = outcome(format!("{space}*********************"));
        assert_eq!(redacted.outcome(given, 200_000, &slot, &term).await, Ok(blanked));

        // Searching this takes longer than noticing that the time is over.
        let long = outcome("&#".repeat(8 << 20));
        let over = CallDeadline::new(Instant::now(), Duration::ZERO, &cancel);
        let ended = redacted.outcome(long, 16 << 20, &slot, &over).await;
        assert_eq!(ended, Err(Termination::Deadline));
        assert_eq!(Arc::strong_count(&slot), 2, "the search keeps the memory of its call");
    }
}
