//! The kinds of grants, and a table of their names in the configuration, on the command line, in
//! the audit and in words.

use super::{ComponentGrants, FileGrantConfig};
use serde_json::json;
use std::path::Path;
use tollgate_agent::child::DelegateGrant;
use tollgate_agent::egress::HttpPattern;
use tollgate_sandbox::{FileAccess, Import, Power};
use toml_edit::Value;

/// A kind of grants. Its names are in its row of [`KINDS`], whose rows are in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The key in `[grants.COMPONENT]`, as a path.
    pub(super) path: &'static [&'static str],
    /// The notation under that key.
    pub(super) form: Form,
    /// The option of `tollgate grant` and `tollgate revoke`, without its dashes.
    pub flag: &'static str,
    /// The name of the option's value in help texts.
    pub value_name: &'static str,
    /// The option's help; `None` if the two commands have options of their own.
    pub help: Option<&'static str>,
    /// The words before a grant's name in listings.
    pub granted: &'static str,
    /// The words before a request's name, to follow "it asks to".
    pub request: &'static str,
}

/// The notation of the grants of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// A list of names.
    Names,
    /// A table of values by name.
    Values,
    /// A list of tables, which this key names.
    Tables(&'static str),
}

/// All kinds, in the order of listings.
pub static KINDS: [KindRow; 10] = [
    KindRow { kind: GrantKind::Files, path: &["files"], form: Form::Tables("guest"), flag: "files", ..BLANK },
    KindRow {
        kind: GrantKind::Http,
        path: &["http"],
        form: Form::Names,
        flag: "http",
        value_name: "PATTERN",
        help: Some("HTTP requests, such as 'GET,POST https://api.example.com/v1/'"),
        granted: "http ",
        request: "send HTTP requests:",
    },
    KindRow {
        kind: GrantKind::Addresses,
        path: &["addresses"],
        form: Form::Names,
        flag: "address",
        value_name: "RANGE",
        help: Some("A range of addresses that its requests may reach although it is not global"),
        granted: "addresses ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Secrets,
        path: &["secrets"],
        form: Form::Names,
        flag: "secret",
        value_name: "NAME",
        help: Some("A secret of [secrets.NAME] to add to its requests"),
        granted: "secret ",
        request: "add a secret to its requests:",
    },
    KindRow {
        kind: GrantKind::Settings,
        path: &["settings"],
        form: Form::Values,
        flag: "setting",
        granted: "setting ",
        request: "read the setting",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Environment,
        path: &["environment"],
        form: Form::Names,
        flag: "env",
        value_name: "NAME",
        help: Some("A variable of the host's environment"),
        granted: "variable ",
        request: "see the variable of the environment",
    },
    KindRow {
        kind: GrantKind::StateRead,
        path: &["state", "read"],
        form: Form::Names,
        flag: "read-state",
        value_name: "KEY",
        help: Some("Another component's state key, to read"),
        granted: "reads ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::StateWrite,
        path: &["state", "write"],
        form: Form::Names,
        flag: "write-state",
        value_name: "KEY",
        help: Some("Another component's state key, to write"),
        granted: "writes ",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Actions,
        path: &["actions"],
        form: Form::Names,
        flag: "action",
        value_name: "ACTION",
        help: Some("An action of the agent loop, such as add-context"),
        request: "request in the agent loop:",
        ..BLANK
    },
    KindRow {
        kind: GrantKind::Delegates,
        path: &["delegates"],
        form: Form::Tables("agent"),
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
    form: Form::Names,
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
}

/// A grant, as it is typed.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The kind.
    pub kind: GrantKind,
    /// The name: a directory's path in the component, an HTTP pattern, a setting, an agent.
    pub name: String,
    /// The values that the configuration stores with it, by key.
    pub(super) values: Vec<(&'static str, Value)>,
}

impl Grant {
    /// Creates a grant that has a name only. This is enough to revoke any grant.
    #[must_use]
    pub fn named(kind: GrantKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), values: Vec::new() }
    }

    /// Creates a grant of a setting.
    #[must_use]
    pub fn setting(name: &str, value: &str) -> Self {
        Self { values: vec![("", value.into())], ..Self::named(GrantKind::Settings, name) }
    }

    /// Creates a grant of a host directory, which the component sees at `guest`. Without a
    /// quota, the existing one or the default applies.
    #[must_use]
    pub fn files(host: &Path, guest: &str, access: FileAccess, quota_bytes: Option<u64>) -> Self {
        let access = if access == FileAccess::Read { "read" } else { "read-write" };
        let host = host.to_string_lossy().into_owned();
        let mut values = vec![("host", host.into()), ("guest", guest.into()), ("access", access.into())];
        // The largest integer of TOML is more than any disk holds.
        let quota = quota_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        values.extend(quota.map(|bytes| ("quota_bytes", bytes.into())));
        Self { values, ..Self::named(GrantKind::Files, guest) }
    }
}

/// A grant of a configuration, for listings and comparisons.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredGrant<'a> {
    /// The kind.
    pub kind: GrantKind,
    /// The name, as in [`Grant`].
    pub name: String,
    /// The details, if the kind has any.
    pub details: Details<'a>,
}

/// The details of a grant beyond its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Details<'a> {
    /// It has only a name.
    None,
    /// A directory.
    File(&'a FileGrantConfig),
    /// The parsed pattern of HTTP requests.
    Http(&'a HttpPattern),
    /// The value of a setting.
    Value(&'a str),
    /// The keys that are passed to and from an agent.
    Delegate(&'a DelegateGrant),
}

impl ComponentGrants {
    /// Returns all grants, in the order of [`KINDS`].
    #[must_use]
    pub fn each(&self) -> Vec<ConfiguredGrant<'_>> {
        use GrantKind::*;
        let plain = |kind, name: &dyn ToString| ConfiguredGrant {
            kind,
            name: name.to_string(),
            details: Details::None,
        };
        let with = |kind, name: &dyn ToString, details| ConfiguredGrant { details, ..plain(kind, name) };
        let catalog = &self.catalog;
        let mut all = Vec::new();
        all.extend(self.files.iter().map(|file| with(Files, &file.guest, Details::File(file))));
        all.extend(self.http.iter().map(|pattern| with(Http, pattern, Details::Http(pattern))));
        all.extend(self.addresses.iter().map(|range| plain(Addresses, range)));
        all.extend(self.secrets.iter().map(|name| plain(Secrets, name)));
        all.extend(self.settings.iter().map(|(name, value)| with(Settings, name, Details::Value(value))));
        all.extend(self.environment.iter().map(|name| plain(Environment, name)));
        all.extend(catalog.reads.iter().map(|key| plain(StateRead, key)));
        all.extend(catalog.writes.iter().map(|key| plain(StateWrite, key)));
        all.extend(catalog.actions.names().map(|name| plain(Actions, &name)));
        all.extend(self.delegates().map(|(agent, grant)| with(Delegates, agent, Details::Delegate(grant))));
        all
    }

    /// Returns the kinds of grants that a component with these imports can never use.
    pub fn unusable(&self, imports: &[Import]) -> Vec<&'static str> {
        let is_imported = |power: Power| imports.iter().any(|import| import.power == Some(power));
        let mut unusable = Vec::new();
        for grant in self.each() {
            let (name, is_usable) = match grant.kind {
                GrantKind::Files => ("files", is_imported(Power::Files)),
                GrantKind::Http | GrantKind::Secrets => ("http", is_imported(Power::Http)),
                GrantKind::Settings => ("settings", is_imported(Power::Settings)),
                GrantKind::Delegates => ("delegates", is_imported(Power::Delegates)),
                GrantKind::Environment => (
                    "environment",
                    imports.iter().any(|import| import.interface.starts_with("wasi:cli/environment@")),
                ),
                // Requests have the ranges, and any component may have state and actions.
                GrantKind::Addresses | GrantKind::StateRead | GrantKind::StateWrite | GrantKind::Actions => {
                    continue;
                }
            };
            if !is_usable && !unusable.contains(&name) {
                unusable.push(name);
            }
        }
        unusable
    }

    /// Returns the grants as the configuration writes them.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let (all, mut written) = (self.each(), serde_json::Value::Null);
        for row in &KINDS {
            let granted = all.iter().filter(|grant| grant.kind == row.kind);
            let place = row.path.iter().fold(&mut written, |table, key| &mut table[*key]);
            *place = match row.form {
                Form::Values | Form::Tables("agent") => {
                    granted.map(|grant| (grant.name.clone(), grant.details.to_json(&grant.name))).collect()
                }
                Form::Names | Form::Tables(_) => {
                    granted.map(|grant| grant.details.to_json(&grant.name)).collect()
                }
            };
        }
        written
    }
}

impl Details<'_> {
    /// Returns the details, or the name of a grant without any, as the configuration writes them.
    fn to_json(self, name: &str) -> serde_json::Value {
        match self {
            Details::None | Details::Http(_) => name.into(),
            Details::File(file) => json!(file),
            Details::Value(value) => value.into(),
            Details::Delegate(grant) => json!(grant),
        }
    }
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
