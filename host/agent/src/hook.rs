//! Hooks' answers. A hook is code of the embedding program that is asked before and after
//! calls and turns of the model, and may add to them.
//!
//! Hooks are asked as an effect, like gates, and their answers are recorded. A run that is
//! folded from its record asks no hook a second time.

use crate::message::ModelReply;
use crate::outcome::{Action, ActionGrants, ToolResult};
use crate::state::{Access, PendingMutation};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most custom events of one answer.
pub const MAX_CUSTOM_EVENTS: usize = 16;
/// The most bytes of one custom event's data, as JSON.
pub const MAX_CUSTOM_EVENT_BYTES: usize = 16 * 1024;
/// The most bytes of one answer's actions, as JSON.
pub const MAX_ACTIONS_BYTES: usize = 256 * 1024;
/// The longest reason of a hook that failed, in bytes; a longer one is cut.
pub const MAX_FAILURE_BYTES: usize = 2 * 1024;

/// The side of a call on which hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// After the gates let the call through, before its first attempt.
    Before,
    /// Once the call's outcome is known.
    After,
}

/// The recorded answer of one plugin's hook about a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// The plugin.
    pub plugin: String,
    /// The state updates, which commit with the call's end or with its question to a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<PendingMutation>,
    /// The actions requested from the loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// The events that subscribers receive as `custom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<CustomEvent>,
    /// The text that the model reads in place of the call's result; only after a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<ToolResult>>,
    /// Why the hook failed, for the operator; the rest of its answer is then ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl HookAnswer {
    /// Creates an answer of this plugin that changes nothing.
    #[must_use]
    pub fn new(plugin: impl Into<String>) -> Self {
        Self { plugin: plugin.into(), ..Self::default() }
    }

    /// Creates the answer of a hook of this plugin that failed for this reason.
    #[must_use]
    pub fn failed(plugin: impl Into<String>, why: &str) -> Self {
        let why = crate::text::clean(why, MAX_FAILURE_BYTES);
        Self { failed: Some(why), ..Self::new(plugin) }
    }
}

/// A plugin's own event: stored with the call, and sent to subscribers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomEvent {
    /// Its name, chosen by the plugin; at most 64 bytes.
    pub name: String,
    /// Its data; at most 16 KiB as JSON.
    #[serde(default)]
    pub data: Value,
}

/// The recorded effects of hooks on one turn of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelHooked {
    /// The plugins whose hooks changed the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_changed_by: Vec<String>,
    /// Tools that were hidden from the model in this turn.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden: BTreeSet<String>,
    /// Notes that the model read in this turn, marked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The plugin that answered in place of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// The plugins whose hooks changed the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reply_changed_by: Vec<String>,
    /// The reply before it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_reply: Option<Arc<ModelReply>>,
    /// Plugins whose hooks failed, each with the reason, for the operator. The turn
    /// continued without them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
}

/// The points at which a plugin's hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookPoints {
    /// Before each call.
    pub before_call: bool,
    /// After each call. This costs one more commit per call.
    pub after_call: bool,
    /// Before each turn of the model.
    pub before_model: bool,
    /// After each turn of the model.
    pub after_model: bool,
}

impl HookPoints {
    /// All points.
    pub const ALL: Self = Self { before_call: true, after_call: true, before_model: true, after_model: true };
    /// No points; a start for `HookPoints { before_call: true, ..HookPoints::NONE }`.
    pub const NONE: Self =
        Self { before_call: false, after_call: false, before_model: false, after_model: false };
}

/// A plugin whose hooks are asked about calls, as the catalog knows it.
#[derive(Debug, Clone)]
pub struct HookOwner {
    /// The points at which they are asked.
    pub points: HookPoints,
    /// The state that they may read and write.
    pub access: Arc<Access>,
    /// The actions that they may request.
    pub actions: ActionGrants,
}
