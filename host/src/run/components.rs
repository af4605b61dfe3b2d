//! The components that events refer to, so that the store keeps them with the run.

use crate::store::ComponentFile;
use crate::tools::Toolbox;
use tollgate_agent::run::event::ToolVersion;
use tollgate_agent::run::{Event, StoredEvent};

/// Returns the components that these events refer to, without duplicates.
pub(super) fn components_of(events: &[StoredEvent], toolbox: &Toolbox) -> Vec<ComponentFile> {
    let mut files: Vec<ComponentFile> = Vec::new();
    for (tool_name, version) in events.iter().filter_map(|event| version_of(&event.event)) {
        let file = toolbox.runner(tool_name).and_then(|runner| runner.component_file());
        if let Some(file) = file.filter(|file| *file.digest == *version.version)
            && !files.iter().any(|known| known.digest == file.digest)
        {
            files.push(file.clone());
        }
    }
    files
}

/// Returns the tool and the version that a call uses from this event on.
fn version_of(event: &Event) -> Option<(&str, &ToolVersion)> {
    match event {
        Event::CallProposed(proposed) => Some((&proposed.tool_name, proposed.owner.as_ref()?)),
        Event::CallSuspended(suspended) => Some((&suspended.tool_name, suspended.owner.as_ref()?)),
        _ => None,
    }
}
