//! The audit: one record for each load, grant, refusal, call and denial. It shows afterwards who
//! did what, with which bytes, with whose permission and at what cost.
//!
//! A call's result is recorded in the commit that ends it, so it is neither lost nor recorded
//! twice. The same records show which tools trap: see [`ToolHealth`].

use super::StoreError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::code::Code;
use tollgate_agent::health::{HealthSign, traps_after};
use tollgate_agent::json::written_bytes;
use tollgate_agent::outcome::Usage;
use tollgate_agent::text::clean;

/// The maximum length of a detail, in bytes.
const MAX_DETAIL_BYTES: usize = 1_000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of an audit record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum AuditKind { $($(#[$doc])* $variant,)* }

        impl AuditKind {
            /// Every kind.
            pub const ALL: &'static [AuditKind] = &[$(AuditKind::$variant,)*];

            /// Returns the kind as listings spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(AuditKind::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    /// A component is served from now on. Recorded only if it differs from the previous one.
    Load = "load",
    /// A file cannot be served, or not in its new version.
    Refusal = "refusal",
    /// A component is no longer served.
    Removal = "removal",
    /// A call ended.
    Call = "call",
    /// A call was not allowed, or a power was not granted.
    Denial = "denial",
    /// A person granted a power.
    Grant = "grant",
    /// A person revoked a power.
    Revocation = "revocation",
    /// A person enabled a tool again.
    Enabling = "enabling",
    /// A principal answered a question.
    Decision = "decision",
    /// A link to sign in was made, a session began, or a session was ended.
    SignIn = "sign_in",
    /// A key was made or revoked.
    Key = "key",
}

/// An audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The kind of the record.
    pub kind: AuditKind,
    /// The actor: `host`, `person`, `person NAME`, `key NAME`, `agent ID`, or `agent ID for NAME`.
    pub who: SmolStr,
    /// The decision: `served`, `refused`, `granted`, ...; for a call, `success` or the code with
    /// which it ended.
    pub decision: SmolStr,
    /// The file, if something was loaded from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The component, or another provider of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_id: Option<SmolStr>,
    /// The version; for a component, the SHA-256 of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<SmolStr>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<SmolStr>,
    /// The power that was used, granted or refused, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// The reason, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The run's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Arc<str>>,
    /// The call's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<SmolStr>,
    /// The model whose reply asked for the call, as the record of the run names it. `None` if no model
    /// asked for it, and in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SmolStr>,
    /// The resources used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl AuditRecord {
    /// Returns the agent if an agent is the actor.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        let agent = self.who.strip_prefix("agent ")?;
        Some(agent.split_once(" for ").map_or(agent, |(agent, _)| agent))
    }

    /// Creates a record of something that happened now.
    #[must_use]
    pub fn new(kind: AuditKind, who: impl Into<SmolStr>, decision: impl Into<SmolStr>) -> Self {
        Self::at(super::now_ms(), kind, who, decision)
    }

    /// Creates a record of something that happened at this time, in milliseconds since the Unix
    /// epoch.
    #[must_use]
    pub fn at(at_ms: u64, kind: AuditKind, who: impl Into<SmolStr>, decision: impl Into<SmolStr>) -> Self {
        Self {
            at_ms,
            kind,
            who: who.into(),
            decision: decision.into(),
            file: None,
            component_id: None,
            digest: None,
            tool_name: None,
            power: None,
            detail: None,
            run_id: None,
            call_id: None,
            model: None,
            usage: None,
        }
    }

    /// Sets the file.
    #[must_use]
    pub fn of_file(mut self, file: &Path) -> Self {
        self.file = Some(clean(&file.display().to_string(), MAX_DETAIL_BYTES));
        self
    }

    /// Sets the component, and its version if known.
    #[must_use]
    pub fn of_component(mut self, id: impl Into<SmolStr>, digest: Option<SmolStr>) -> Self {
        self.component_id = Some(id.into());
        self.digest = digest;
        self
    }

    /// Sets the tool.
    #[must_use]
    pub fn of_tool(mut self, name: impl Into<SmolStr>) -> Self {
        self.tool_name = Some(name.into());
        self
    }

    /// Sets the power.
    #[must_use]
    pub fn of_power(mut self, power: impl Into<String>) -> Self {
        self.power = Some(power.into());
        self
    }

    /// Sets the reason, sanitized and truncated.
    #[must_use]
    pub fn because(mut self, detail: &str) -> Self {
        self.detail = Some(clean(detail, MAX_DETAIL_BYTES));
        self
    }

    /// Returns whether the record differs from the last one about the same file.
    #[must_use]
    pub fn is_news_after(&self, last: Option<&Self>) -> bool {
        let of_files = [AuditKind::Load, AuditKind::Refusal, AuditKind::Removal];
        !of_files.contains(&self.kind)
            || last.is_none_or(|last| {
                (last.kind, &last.digest, &last.detail) != (self.kind, &self.digest, &self.detail)
            })
    }

    /// Returns the length of the record in bytes, for which the thread of the run and the component are
    /// charged. `None` if it belongs to no run.
    #[must_use]
    pub fn charged_bytes(&self) -> Option<usize> {
        self.run_id.is_some().then(|| written_bytes(self))
    }

    /// Returns the evidence that the record gives about its tool's health.
    #[must_use]
    pub fn health_sign(&self) -> HealthSign {
        match self.kind {
            AuditKind::Enabling => HealthSign::Healthy,
            AuditKind::Call => {
                let is_code = |code: &&Code| code.as_str() == self.decision;
                // Most calls succeed, and `success` is not a code.
                let code = if self.decision == "success" { None } else { Code::ALL.iter().find(is_code) };
                HealthSign::of(code.copied())
            }
            _ => HealthSign::Neutral,
        }
    }
}

/// A filter for audit records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only records of this kind.
    pub kind: Option<AuditKind>,
    /// Only records of this component.
    pub component_id: Option<String>,
    /// Only records of this tool.
    pub tool_name: Option<String>,
    /// Only records of runs whose id starts with this prefix.
    pub run_id_prefix: Option<String>,
    /// Only records with this decision.
    pub decision: Option<String>,
    /// Only records about this power.
    pub power: Option<String>,
    /// Only records since then, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Only records before then, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// Leaves out this many of the newest matching records, for the next page.
    pub skip: usize,
    /// The maximum number of results.
    pub limit: usize,
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self {
            kind: None,
            component_id: None,
            tool_name: None,
            run_id_prefix: None,
            decision: None,
            power: None,
            since_ms: 0,
            until_ms: u64::MAX,
            skip: 0,
            limit: 100,
        }
    }
}

impl AuditFilter {
    pub(super) fn matches(&self, record: &AuditRecord) -> bool {
        let is = |wanted: &Option<String>, has: Option<&str>| wanted.is_none() || wanted.as_deref() == has;
        self.kind.is_none_or(|kind| kind == record.kind)
            && is(&self.component_id, record.component_id.as_deref())
            && is(&self.tool_name, record.tool_name.as_deref())
            && is(&self.decision, Some(&record.decision))
            && is(&self.power, record.power.as_deref())
            && record.at_ms >= self.since_ms
            && record.at_ms < self.until_ms
            && self.run_id_prefix.as_deref().is_none_or(|prefix| {
                record.run_id.as_deref().is_some_and(|run_id| run_id.starts_with(prefix))
            })
    }
}

/// The number of consecutive traps of a tool, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolHealth {
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The tool's provider.
    pub component_id: SmolStr,
    /// The tool's version.
    pub digest: SmolStr,
    /// The number of consecutive traps, at least one.
    pub traps: u32,
}

impl ToolHealth {
    /// Returns a tool's health after another record; `None` if it is healthy. A version starts from
    /// zero with its first record that gives evidence.
    #[must_use]
    pub fn after(before: Option<&Self>, record: &AuditRecord) -> Option<Self> {
        let sign = record.health_sign();
        if sign == HealthSign::Neutral {
            return before.cloned();
        }
        let component_id = record.component_id.clone().unwrap_or_default();
        let digest = record.digest.clone().unwrap_or_default();
        let same = |before: &&Self| before.component_id == component_id && before.digest == digest;
        let traps = traps_after(before.filter(same).map_or(0, |before| before.traps), sign);
        (traps > 0).then(|| Self {
            tool_name: record.tool_name.clone().unwrap_or_default(),
            component_id,
            digest,
            traps,
        })
    }
}

/// The audit, and what it shows about the health of tools. [Commits](super::RunStore::commit) write
/// audit records too.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds audit records that are not part of a run's commit, and that no thread or component is
    /// charged for. A record of a file is skipped if it repeats the file's last record.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError>;

    /// Returns audit records, newest first. Of records of the same time, the one that was stored last is
    /// first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError>;

    /// Returns the tools whose last calls trapped.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(decision: &str, digest: &str) -> AuditRecord {
        AuditRecord::new(AuditKind::Call, "agent direct", decision)
            .of_component("x", Some(digest.into()))
            .of_tool("x")
    }

    #[test]
    fn traps_in_a_row_are_counted_for_one_version() {
        let traps = |records: &[AuditRecord]| {
            let after = records
                .iter()
                .fold(None, |before: Option<ToolHealth>, record| ToolHealth::after(before.as_ref(), record));
            after.map_or(0, |health| health.traps)
        };
        let trapped = || call("trapped", "1");
        assert_eq!(traps(&[trapped(), trapped()]), 2);
        assert_eq!(traps(&[trapped(), call("success", "1")]), 0);
        assert_eq!(traps(&[trapped(), call("trapped", "2")]), 1);
        let late = call("cancelled", "0");
        assert_eq!(traps(&[trapped(), trapped(), late]), 2, "a late call of another version shows nothing");
        let enabled = AuditRecord::new(AuditKind::Enabling, "person", "enabled").of_tool("x");
        assert_eq!(traps(&[trapped(), enabled]), 0);
    }

    #[test]
    fn a_file_is_noted_when_something_about_it_changed() {
        let load = |digest: &str| {
            AuditRecord::new(AuditKind::Load, "host", "served")
                .of_file(Path::new("a.wasm"))
                .of_component("a", Some(digest.into()))
        };
        assert!(load("1").is_news_after(None));
        assert!(!load("1").is_news_after(Some(&load("1"))));
        assert!(load("2").is_news_after(Some(&load("1"))));
        assert!(call("success", "1").is_news_after(Some(&call("success", "1"))));
    }
}
