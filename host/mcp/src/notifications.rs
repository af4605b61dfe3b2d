//! Notifications of progress and log messages during a call, if the client asked for them.

#![expect(deprecated, reason = "the protocol will remove logging, but its current versions have it")]

use super::writer::Backpressure;
use rmcp::RoleServer;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Value, json};
use tollgate::run::{EventStream, LiveContent, LiveUpdate, RunUpdate};
use tollgate_sandbox::{Level, ProgressStatus, Report};

/// The maximum length of a progress token in bytes. Each of a call's notifications repeats it, so a
/// call with a longer one gets none.
pub const MAX_TOKEN_BYTES: usize = 1_024;

/// The notifications to one client about one call.
pub(super) struct Notices {
    peer: Peer<RoleServer>,
    room: Backpressure,
    tool_name: String,
    token: Option<ProgressToken>,
    level: Option<LoggingLevel>,
    reported: f64,
}

impl Notices {
    /// Returns the notifications that the request asked for; `None` if it asked for none. `level`
    /// is the session's log level.
    pub(super) fn wanted(
        context: &RequestContext<RoleServer>,
        level: Option<LoggingLevel>,
        room: &Backpressure,
        tool_name: &str,
    ) -> Option<Self> {
        let (token, level) = (context.meta.get_progress_token(), context.meta.log_level().or(level));
        let token = token.filter(is_short);
        (token.is_some() || level.is_some()).then(|| Self {
            peer: context.peer.clone(),
            room: room.clone(),
            tool_name: tool_name.to_owned(),
            token,
            level,
            reported: 0.0,
        })
    }

    /// Sends notifications until the call has ended. A client that reads too slowly misses some
    /// of them, but never the answer.
    pub(super) async fn forward_all(&mut self, events: &mut EventStream) {
        while let Some(update) = events.next().await {
            if let RunUpdate::Live(LiveUpdate { piece, .. }) = update
                && self.room.is_there()
            {
                self.forward(piece).await;
            }
        }
    }

    async fn forward(&mut self, piece: LiveContent) {
        match piece {
            LiveContent::CallReport { report: Report::Log { level, message }, .. } => {
                self.log(level_of(level), "", Value::String(message)).await;
            }
            LiveContent::CallConsole { console, .. } => {
                let data = json!({"text": console.text, "dropped_bytes": console.dropped_bytes});
                self.log(LoggingLevel::Debug, "/console", data).await;
            }
            LiveContent::CallReport { report: Report::Progress { status, message, progress }, .. } => {
                self.progress(progress, with_status(status, message)).await;
            }
            LiveContent::CallReport { report: Report::Activity { kind, content }, .. } => {
                self.progress(None, Some(format!("{kind}: {content}"))).await;
            }
            LiveContent::CallReport { report: Report::Output(text), .. }
            | LiveContent::TextDelta { text } => {
                self.progress(None, Some(text)).await;
            }
            LiveContent::CallReport { report: Report::ActivityDelta { kind, patch }, .. } => {
                self.progress(None, Some(format!("{kind}: {patch}"))).await;
                self.log(LoggingLevel::Info, "/activity", json!({"kind": kind, "patch": patch})).await;
            }
            LiveContent::CallReport { report: Report::ChildError { agent_id, message }, .. } => {
                self.progress(None, Some(format!("error: the agent '{agent_id}' {message}"))).await;
                self.log(LoggingLevel::Error, "/child", json!({"agent": agent_id, "error": message})).await;
            }
            LiveContent::CallDenied { .. }
            | LiveContent::TextSoFar { .. }
            | LiveContent::ReasoningDelta { .. }
            | LiveContent::ReplyRestarted { .. } => {}
        }
    }

    /// Sends progress. The protocol requires increasing numbers, so if a report's number does not
    /// increase, the smallest larger one is sent instead. A number beyond the whole has no total.
    async fn progress(&mut self, fraction: Option<f64>, message: Option<String>) {
        let Some(token) = self.token.clone() else { return };
        self.reported =
            fraction.filter(|fraction| *fraction > self.reported).unwrap_or_else(|| self.reported.next_up());
        let mut progress = ProgressNotificationParam::new(token, self.reported);
        progress.total = (self.reported <= 1.0).then_some(1.0);
        progress.message = message;
        // A disconnected client is noticed elsewhere.
        let _ = self.peer.notify_progress(progress).await;
    }

    async fn log(&self, level: LoggingLevel, part: &str, data: Value) {
        if self.level.is_none_or(|least| gravity(level) < gravity(least)) {
            return;
        }
        let logger = format!("{}{part}", self.tool_name);
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(logger);
        let _ = self.peer.notify_logging_message(message).await;
    }
}

fn is_short(token: &ProgressToken) -> bool {
    match &token.0 {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.len() <= MAX_TOKEN_BYTES,
    }
}

/// Puts the phase of a call before its message, unless the call simply runs.
fn with_status(status: ProgressStatus, message: Option<String>) -> Option<String> {
    let phase = match status {
        ProgressStatus::Running => return message,
        ProgressStatus::Pending => "pending",
        ProgressStatus::Done => "done",
        ProgressStatus::Failed => "failed",
        ProgressStatus::Cancelled => "cancelled",
    };
    Some(message.map_or_else(|| phase.to_owned(), |message| format!("{phase}: {message}")))
}

fn level_of(level: Level) -> LoggingLevel {
    match level {
        Level::Trace | Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Warn => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
    }
}

fn gravity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
