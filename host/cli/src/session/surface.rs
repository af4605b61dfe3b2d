//! The surface of a loaded component.

use tollgate_agent::surface::Surface;
use tollgate_sandbox::{Component, Power};

/// Returns the tools, state and powers of a component.
pub(crate) fn surface_of(component: &Component) -> Surface {
    let powers = component.imports().iter().filter_map(|import| import.power).map(Power::as_str);
    Surface::new(component.descriptor(), powers)
}
