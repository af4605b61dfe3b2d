//! The kinds of grants, and a table of their names in the configuration, on the command line, in
//! the audit and in words.
//!
//! To add a power, add a variant to [`GrantKind`] and its row to [`KINDS`]. The row is all that the
//! configuration, its editor, manifests, `grant` and `revoke`, listings and the audit need. The
//! code that gives the power to a component finds its grants with
//! [`ComponentGrants::of`](super::ComponentGrants::of). A test of the requests in
//! manifests grants, lists, requests and revokes each kind.
//!
//! A row needs more only if its grants are written as no others are, or consist of more than a name
//! and text: then it needs a [`Form`] or [`Details`](super::Details) of its own.

use super::checks::{self, NameCheck};
use tollgate_sandbox::{Import, Power};

/// A kind of grants. Its names are in its row of [`KINDS`], whose rows are in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantKind {
    /// Directories of the host.
    Files,
    /// HTTP requests.
    Http,
    /// Address ranges that HTTP requests may reach although they are not global.
    Addresses,
    /// Secrets that are added to HTTP requests.
    Secrets,
    /// Settings with their values.
    Settings,
    /// Variables of the host's environment.
    Environment,
    /// State keys of other components, to read.
    StateRead,
    /// State keys of other components, to write.
    StateWrite,
    /// Actions of the agent loop.
    Actions,
    /// Agents that its tools may run.
    Delegates,
}

/// The names of a kind of grants.
#[derive(Debug)]
pub struct KindRow {
    /// The kind.
    pub kind: GrantKind,
    /// The key in `[grants.COMPONENT]`, as a path. A request's key in the manifest is the first part.
    pub(crate) path: &'static [&'static str],
    /// The notation under that key.
    pub(in crate::config) form: Form,
    /// The imports without which a component cannot use it.
    pub(super) needs: RequiredImports,
    /// The option of `tollgate grant` and `tollgate revoke`, without its dashes.
    pub flag: &'static str,
    /// The name of the option's value in help texts.
    pub value_name: &'static str,
    /// The option's help; `None` if the two commands have options of their own.
    pub help: Option<&'static str>,
    /// The words before a grant's name in listings.
    pub granted: &'static str,
    /// The words before a request's name, to follow "it asks to"; empty if components cannot request
    /// it.
    pub request: &'static str,
}

/// The notation of the grants of one kind.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) enum Form {
    /// A list of names, each of which is checked.
    Names(NameCheck),
    /// A table of values by name.
    Values,
    /// A list of directories.
    Files,
    /// A list of agents, with their keys.
    Delegates,
}

impl Form {
    /// Returns the key of the name, if the grants are a list of tables.
    pub(in crate::config) fn name_key(self) -> Option<&'static str> {
        match self {
            Self::Names(_) | Self::Values => None,
            Self::Files => Some("guest"),
            Self::Delegates => Some("agent"),
        }
    }
}

/// The imports without which a kind of grants has no effect.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequiredImports {
    /// None.
    Nothing,
    /// An import that uses this power.
    Power(Power),
    /// An interface whose name starts with this text.
    Interface(&'static str),
}

/// All kinds, in the order of listings.
pub static KINDS: &[KindRow] = &[
    KindRow {
        kind: GrantKind::Files,
        path: &["files"],
        form: Form::Files,
        needs: RequiredImports::Power(Power::Files),
        flag: "files",
        request: "read the files of a directory, as",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Http,
        path: &["http"],
        form: Form::Names(checks::http),
        needs: RequiredImports::Power(Power::Http),
        flag: "http",
        value_name: "PATTERN",
        help: Some("HTTP requests, such as 'GET,POST https://api.example.com/v1/'"),
        granted: "http ",
        request: "send HTTP requests:",
    },
    KindRow {
        kind: GrantKind::Addresses,
        path: &["addresses"],
        form: Form::Names(checks::addresses),
        flag: "address",
        value_name: "RANGE",
        help: Some("A range of addresses that its requests may reach although it is not global"),
        granted: "addresses ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Secrets,
        path: &["secrets"],
        form: Form::Names(checks::secret),
        needs: RequiredImports::Power(Power::Http),
        flag: "secret",
        value_name: "NAME",
        help: Some("A secret of [secrets.NAME] to add to its requests"),
        granted: "secret ",
        request: "add a secret to its requests:",
    },
    KindRow {
        kind: GrantKind::Settings,
        path: &["settings"],
        needs: RequiredImports::Power(Power::Settings),
        flag: "setting",
        granted: "setting ",
        request: "read the setting",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Environment,
        path: &["environment"],
        form: Form::Names(checks::variable),
        needs: RequiredImports::Interface("wasi:cli/environment@"),
        flag: "env",
        value_name: "NAME",
        help: Some("A variable of the host's environment"),
        granted: "variable ",
        request: "see the variable of the environment",
    },
    KindRow {
        kind: GrantKind::StateRead,
        path: &["state", "read"],
        form: Form::Names(checks::state_key),
        flag: "read-state",
        value_name: "KEY",
        help: Some("Another component's state key, to read"),
        granted: "reads ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::StateWrite,
        path: &["state", "write"],
        form: Form::Names(checks::state_key),
        flag: "write-state",
        value_name: "KEY",
        help: Some("Another component's state key, to write"),
        granted: "writes ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Actions,
        path: &["actions"],
        form: Form::Names(checks::action),
        flag: "action",
        value_name: "ACTION",
        help: Some("An action of the agent loop, such as add-context"),
        request: "request in the agent loop:",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Delegates,
        path: &["delegates"],
        form: Form::Delegates,
        needs: RequiredImports::Power(Power::Delegates),
        flag: "delegate",
        value_name: "AGENT",
        help: Some("An agent of the configuration that its tools may run"),
        granted: "runs the agent ",
        request: "run the agent",
    },
];

const BLANK: KindRow = KindRow {
    kind: GrantKind::Files,
    path: &[],
    form: Form::Values,
    needs: RequiredImports::Nothing,
    flag: "",
    value_name: "",
    help: None,
    granted: "",
    request: "",
};

impl GrantKind {
    /// Returns the names of this kind.
    #[must_use]
    pub fn row(self) -> &'static KindRow {
        &KINDS[self as usize]
    }

    /// Returns the power's name in the audit, such as `state-read`.
    #[must_use]
    pub fn power(self) -> String {
        self.row().path.join("-")
    }

    /// Returns whether a component can request grants of this kind.
    #[must_use]
    pub fn is_requestable(self) -> bool {
        !self.row().request.is_empty()
    }
}

impl KindRow {
    /// Returns the name of the power that a component with these imports lacks to use such a grant;
    /// `None` if it can use it.
    pub(super) fn unusable(&self, imports: &[Import]) -> Option<&'static str> {
        let (name, is_usable) = match self.needs {
            RequiredImports::Nothing => return None,
            RequiredImports::Power(power) => {
                (power.as_str(), imports.iter().any(|import| import.power == Some(power)))
            }
            RequiredImports::Interface(start) => {
                (self.path[0], imports.iter().any(|import| import.interface.starts_with(start)))
            }
        };
        (!is_usable).then_some(name)
    }
}

/// Returns the error for an unknown key of grants or requests, in serde's words.
pub(crate) fn unknown_field(key: &str, known: &[&str]) -> String {
    let (one_of, between) = if known.len() == 2 { ("", "` or `") } else { ("one of ", "`, `") };
    format!("unknown field `{key}`, expected {one_of}`{}`", known.join(between))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_their_kinds() {
        for (index, row) in KINDS.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{row:?}");
        }
    }
}
