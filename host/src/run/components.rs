//! Which components events refer to, so that the store keeps them with the run.

use crate::store::ComponentFile;
use crate::tools::Toolbox;
use tollgate_agent::run::event::ToolVersion;
use tollgate_agent::run::{Event, StoredEvent};

/// The components that these events refer to, each once.
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

/// The tool that a call goes on with from this event on, and its version.
fn version_of(event: &Event) -> Option<(&str, &ToolVersion)> {
    match event {
        Event::CallProposed(proposed) => Some((&proposed.tool_name, proposed.owner.as_ref()?)),
        Event::CallSuspended(suspended) => Some((&suspended.tool_name, suspended.owner.as_ref()?)),
        _ => None,
    }
}
