//! The needs of components that are no longer served. A version that returns is compared with them.

use super::super::loaded::LoadedComponent;
use std::collections::BTreeMap;

/// The maximum number of remembered components.
const MAX_RETIRED: usize = 1_000;

/// The last served versions of components that are no longer served, the oldest first, without their
/// descriptions.
#[derive(Default)]
pub(super) struct RetiredComponents(Vec<LoadedComponent>);

impl RetiredComponents {
    /// Remembers the needs and requests of a version. Beyond the maximum, the oldest component without
    /// grants is forgotten: one with grants could return with more needs under the same grants.
    pub(super) fn remember(&mut self, mut retired: LoadedComponent, has_grants: impl Fn(&str) -> bool) {
        (retired.imports, retired.left_out, retired.reworded) = (Vec::new(), Vec::new(), Vec::new());
        (retired.surface.tools, retired.limits) = (Vec::new(), BTreeMap::new());
        retired.surface.state.iter_mut().for_each(|key| key.defines = None);
        self.forget(&retired.id);
        if self.0.len() >= MAX_RETIRED
            && let Some(oldest) = self.0.iter().position(|known| !has_grants(&known.id))
        {
            self.0.remove(oldest);
        }
        self.0.push(retired);
    }

    /// Returns what is remembered of a component.
    pub(super) fn get(&self, id: &str) -> Option<&LoadedComponent> {
        self.0.iter().find(|known| known.id == id)
    }

    /// Forgets a component, which is served again.
    pub(super) fn forget(&mut self, id: &str) {
        self.0.retain(|known| known.id != id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::ComponentGrants;
    use serde_json::json;
    use std::path::PathBuf;
    use std::sync::Arc;
    use tollgate_agent::descriptor::{ComponentDescriptor, StateAccess, StateKey, ToolDescriptor};
    use tollgate_agent::state::{KeyScope, Reducer};
    use tollgate_agent::surface::Surface;

    fn component(id: &str) -> LoadedComponent {
        let defines = StateKey {
            initial: Arc::new(json!("x".repeat(1_000))),
            schema: Some(Arc::new(json!({"type": "string"}))),
            reducer: Reducer::Replace,
            scope: KeyScope::Thread,
            persistent: false,
        };
        let key =
            |key: String, defines: Option<StateKey>| StateAccess { key, read: true, write: true, defines };
        let descriptor = ComponentDescriptor {
            id: id.to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new("add", "add", "Adds.")],
            state: vec![key(format!("{id}.items"), Some(defines)), key("mail.box".to_owned(), None)],
        };
        LoadedComponent {
            file: PathBuf::from(format!("{id}.wasm")),
            id: id.to_owned(),
            version: "1".to_owned(),
            digest: String::new(),
            imports: Vec::new(),
            left_out: Vec::new(),
            grants: ComponentGrants::default(),
            asks: None,
            limits: BTreeMap::new(),
            surface: Surface::new(&descriptor, ["files"]),
            reworded: Vec::new(),
        }
    }

    #[test]
    fn z4_what_is_remembered_of_removed_components_is_their_needs_alone() {
        let mut retired = RetiredComponents::default();
        let has_grants = |id: &str| id == "granted";
        retired.remember(component("granted"), has_grants);
        retired.remember(component("z-oldest"), has_grants);
        let known = retired.get("granted").unwrap();
        assert!(known.surface.tools.is_empty());
        assert!(known.surface.state.iter().all(|key| key.defines.is_none()));
        assert_eq!(known.surface.needs(), component("granted").surface.needs());
        for n in 0..MAX_RETIRED {
            retired.remember(component(&format!("c{n}")), has_grants);
        }
        assert_eq!(retired.0.len(), MAX_RETIRED);
        let is_known = |id: &str| retired.get(id).is_some();
        assert!(is_known("granted") && is_known("c1") && is_known("c999"));
        assert!(!is_known("z-oldest") && !is_known("c0"), "the oldest, whatever their names");
        retired.forget("granted");
        assert!(retired.get("granted").is_none());
    }
}
