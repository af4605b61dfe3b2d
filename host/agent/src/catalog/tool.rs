//! One tool of a catalog, and how its versions are distinguished.

use super::{Owner, OwnerKind};
use crate::child::Delegates;
use crate::descriptor::ToolDescriptor;
use crate::digest::digest;
use crate::outcome::ActionGrants;
use crate::schema::Schema;
use crate::state::Access;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;

/// A checked tool, with everything that the host needs to judge its calls.
#[derive(Debug)]
pub struct Tool {
    /// Its own description, cleaned.
    pub descriptor: ToolDescriptor,
    /// The compiled schema of its arguments.
    pub arguments: Schema,
    /// Its owner.
    pub owner: Arc<Owner>,
    /// The state that it may read and write.
    pub access: Arc<Access>,
    /// The actions that it may request besides its result.
    pub actions: ActionGrants,
    /// The agents that it may run.
    pub delegates: Arc<Delegates>,
}

impl Tool {
    /// Returns a digest that differs between versions of the tool: the version of its owner,
    /// such as a component's digest. For a tool of a remote server it is the SHA-256 of the
    /// tool's name, description and parameters.
    #[must_use]
    pub fn digest(&self) -> Cow<'_, str> {
        if self.owner.kind != OwnerKind::Mcp {
            return Cow::Borrowed(self.owner.version.as_str());
        }
        let ToolDescriptor { name, description, parameters, .. } = &self.descriptor;
        let text = serde_json::json!([name, description, parameters]).to_string();
        Cow::Owned(digest(text.as_bytes()))
    }
}

/// A version of a tool's owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolVersion {
    /// The owner's id.
    pub id: SmolStr,
    /// The owner's version, such as a component's digest.
    pub version: SmolStr,
}
