//! What was loaded, granted, refused, called and denied: one record for each, so that
//! somebody can read afterwards who did what, with which bytes, by whose leave and at
//! what cost.
//!
//! What a call came to is noted in the commit that ends it, and so is neither lost nor
//! noted twice. From the same records follows which tools trap: see [`ToolHealth`].

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::code::Code;
use tollgate_agent::health::{Sign, traps_after};
use tollgate_agent::outcome::Usage;
use tollgate_agent::text::clean;

/// The longest detail that is kept, in bytes.
const MAX_DETAIL_BYTES: usize = 1_000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum AuditKind { $($(#[$doc])* $variant,)* }

        impl AuditKind {
            /// Every kind.
            pub const ALL: &'static [AuditKind] = &[$(AuditKind::$variant,)*];

            /// The kind as listings spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(AuditKind::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    /// A component is served from now on. Noted when it is another than before.
    Load = "load",
    /// A file cannot be served, or not in its new version.
    Refusal = "refusal",
    /// A component is not served any more.
    Removal = "removal",
    /// A call ended.
    Call = "call",
    /// A call was not let through, or a power not given.
    Denial = "denial",
    /// A person gave a power.
    Grant = "grant",
    /// A person took a power back.
    Revocation = "revocation",
    /// A person took a tool back into use.
    Enabling = "enabling",
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What happened.
    pub kind: AuditKind,
    /// Who did it: `host`, `person`, or `agent ID`.
    pub who: SmolStr,
    /// What came of it: `served`, `refused`, `granted`, or of a call `success` or the
    /// code with which it ended.
    pub decision: SmolStr,
    /// The file, of what is loaded from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The component, or whoever else brings the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_id: Option<SmolStr>,
    /// Its version; of a component, the SHA-256 of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<SmolStr>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<SmolStr>,
    /// The power, where one was used, given or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// The reason, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Arc<str>>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<SmolStr>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl AuditRecord {
    /// A record of what somebody did now.
    #[must_use]
    pub fn new(kind: AuditKind, who: impl Into<SmolStr>, decision: impl Into<SmolStr>) -> Self {
        Self::at(crate::run::now_ms(), kind, who, decision)
    }

    /// The same at that moment, in milliseconds since the Unix epoch.
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
            usage: None,
        }
    }

    /// About this file.
    #[must_use]
    pub fn of_file(mut self, file: &Path) -> Self {
        self.file = Some(clean(&file.display().to_string(), MAX_DETAIL_BYTES));
        self
    }

    /// About this component, in this version where it is known.
    #[must_use]
    pub fn of_component(mut self, id: impl Into<SmolStr>, digest: Option<SmolStr>) -> Self {
        self.component_id = Some(id.into());
        self.digest = digest;
        self
    }

    /// About this tool.
    #[must_use]
    pub fn of_tool(mut self, name: impl Into<SmolStr>) -> Self {
        self.tool_name = Some(name.into());
        self
    }

    /// About this power.
    #[must_use]
    pub fn of_power(mut self, power: impl Into<String>) -> Self {
        self.power = Some(power.into());
        self
    }

    /// For this reason, which is cleaned and cut.
    #[must_use]
    pub fn because(mut self, detail: &str) -> Self {
        self.detail = Some(clean(detail, MAX_DETAIL_BYTES));
        self
    }

    /// Whether it says of a file what the last such record says already.
    pub(super) fn is_news_after(&self, last: Option<&Self>) -> bool {
        let of_files = [AuditKind::Load, AuditKind::Refusal, AuditKind::Removal];
        !of_files.contains(&self.kind)
            || last.is_none_or(|last| {
                (last.kind, &last.digest, &last.detail) != (self.kind, &self.digest, &self.detail)
            })
    }

    /// What it says about its tool's health.
    pub(crate) fn sign(&self) -> Sign {
        match self.kind {
            AuditKind::Enabling => Sign::Well,
            AuditKind::Call => {
                let is_code = |code: &&Code| code.as_str() == self.decision;
                // Most calls succeed, and that is no code.
                let code = if self.decision == "success" { None } else { Code::ALL.iter().find(is_code) };
                Sign::of(code.copied())
            }
            _ => Sign::Nothing,
        }
    }
}

/// Which records are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of this kind.
    pub kind: Option<AuditKind>,
    /// Of this component.
    pub component_id: Option<String>,
    /// Of this tool.
    pub tool_name: Option<String>,
    /// Of the run whose id begins so.
    pub run_id_prefix: Option<String>,
    /// With this decision.
    pub decision: Option<String>,
    /// About this power.
    pub power: Option<String>,
    /// Since then, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// At most so many.
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
            limit: 100,
        }
    }
}

impl AuditFilter {
    pub(super) fn wants(&self, record: &AuditRecord) -> bool {
        let is = |wanted: &Option<String>, has: Option<&str>| wanted.is_none() || wanted.as_deref() == has;
        self.kind.is_none_or(|kind| kind == record.kind)
            && is(&self.component_id, record.component_id.as_deref())
            && is(&self.tool_name, record.tool_name.as_deref())
            && is(&self.decision, Some(&record.decision))
            && is(&self.power, record.power.as_deref())
            && record.at_ms >= self.since_ms
            && self.run_id_prefix.as_deref().is_none_or(|prefix| {
                record.run_id.as_deref().is_some_and(|run_id| run_id.starts_with(prefix))
            })
    }
}

/// How often a tool trapped in a row, in one version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolHealth {
    /// The tool's name.
    pub tool_name: SmolStr,
    /// Who brings it.
    pub component_id: SmolStr,
    /// In which version.
    pub digest: SmolStr,
    /// Traps in a row, one at least.
    pub traps: u32,
}

impl ToolHealth {
    /// How a tool stands after one more record of it; none where it is well. Another
    /// version begins anew.
    pub(super) fn after(before: Option<&Self>, record: &AuditRecord) -> Option<Self> {
        let sign = record.sign();
        if before.is_none() && sign != Sign::Trapped {
            return None;
        }
        if !matches!(record.kind, AuditKind::Call | AuditKind::Enabling) {
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
