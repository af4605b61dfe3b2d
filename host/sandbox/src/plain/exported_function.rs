//! The names of exported functions.

use tollgate_agent::text::clean;

/// The maximum length of a function's name in a sentence, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 200;

/// An exported function, as its component names it.
pub(super) struct ExportedFunction {
    /// Its interface, with package and version; `None` if the world exports it.
    pub(super) interface: Option<String>,
    pub(super) function: String,
}

impl ExportedFunction {
    /// Returns the interface's own name, without package and version.
    pub(super) fn short_interface(&self) -> Option<&str> {
        let interface = self.interface.as_deref()?;
        let unversioned = interface.split_once('@').map_or(interface, |(name, _)| name);
        Some(unversioned.rsplit_once('/').map_or(unversioned, |(_, name)| name))
    }

    /// Returns the interface without its version, and the version, which may be empty.
    pub(super) fn split_version(&self) -> (Option<String>, String) {
        let Some(interface) = &self.interface else { return (None, String::new()) };
        let (interface, version) = interface.split_once('@').unwrap_or((interface, ""));
        (Some(interface.to_owned()), version.to_owned())
    }

    /// Returns the name for a sentence.
    pub(super) fn full_name(&self) -> String {
        let full = match &self.interface {
            Some(interface) => format!("{interface}#{}", self.function),
            None => self.function.clone(),
        };
        clean(&full, MAX_NAME_BYTES)
    }

    /// Returns the tool's name: `interface-function`, or `function`.
    pub(super) fn tool_name(&self) -> String {
        match self.short_interface() {
            Some(interface) => format!("{interface}-{}", self.function),
            None => self.function.clone(),
        }
    }

    /// Returns why it cannot be a tool regardless of its type.
    pub(super) fn why_not_a_tool(&self) -> Option<&'static str> {
        let interface = self.interface.as_deref().unwrap_or_default();
        if self.function.starts_with('[') {
            return Some(
                "it belongs to a resource, which would end with the call: each call has an instance of its own",
            );
        }
        if interface.starts_with("wasi:cli/run") {
            return Some(
                "it is a program's start, not a function: build a library (in Rust, crate-type = [\"cdylib\"])",
            );
        }
        if interface.starts_with("wasi:") || interface.starts_with("tollgate:") {
            return Some("its interface is for hosts of another kind");
        }
        None
    }
}
