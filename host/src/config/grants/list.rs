//! A component's grants or requests, as a list of entries of one type.

use super::details::{Details, FileGrantConfig};
use super::kinds::{Form, GrantKind, KINDS};
use std::collections::BTreeMap;
use std::path::Path;
use tollgate_agent::catalog::CatalogGrants;
use tollgate_agent::child::{DelegateGrant, Delegates};
use tollgate_agent::egress::{AddressRange, HttpPattern};
use tollgate_agent::outcome::ActionGrants;
use tollgate_sandbox::{FileAccess, Import};

/// A grant of the configuration, a grant as it is typed, or a request of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The kind.
    pub kind: GrantKind,
    /// The name: a directory's path in the component, an HTTP pattern, a setting, an agent.
    pub name: String,
    /// The details, if the kind has any.
    pub details: Details,
}

impl Grant {
    /// Creates a grant.
    #[must_use]
    pub fn new(kind: GrantKind, name: &str, details: Details) -> Self {
        let name = match &details {
            Details::Http(pattern) => pattern.to_string(),
            Details::Addresses(range) => range.to_string(),
            _ => name.to_owned(),
        };
        Self { kind, name, details }
    }

    /// Creates a grant that has a name only. This is enough to revoke any grant.
    #[must_use]
    pub fn named(kind: GrantKind, name: &str) -> Self {
        Self::new(kind, name, Details::None)
    }

    /// Creates a grant or a request of HTTP requests.
    #[must_use]
    pub fn http(pattern: HttpPattern) -> Self {
        Self::new(GrantKind::Http, "", Details::Http(pattern))
    }

    /// Creates a grant of a setting.
    #[must_use]
    pub fn setting(name: &str, value: &str) -> Self {
        Self::new(GrantKind::Settings, name, Details::Value(value.to_owned()))
    }

    /// Creates a grant of a host directory, which the component sees at `guest`. Without a
    /// quota, the existing one or the default applies.
    #[must_use]
    pub fn files(host: &Path, guest: &str, access: FileAccess, quota_bytes: Option<u64>) -> Self {
        let file = FileGrantConfig { host: host.to_owned(), guest: guest.to_owned(), access, quota_bytes };
        Self::new(GrantKind::Files, guest, Details::File(file))
    }

    /// Returns whether this grants or requests everything that `asked` requests.
    #[must_use]
    pub fn covers(&self, asked: &Grant) -> bool {
        if let (Details::Http(granted), Details::Http(asked)) = (&self.details, &asked.details) {
            return granted.covers(asked);
        }
        let is_same = (self.kind, &self.name) == (asked.kind, &asked.name);
        is_same
            && (self.details.access() == FileAccess::ReadWrite || asked.details.access() == FileAccess::Read)
    }

    /// Returns the sort key for listings. Lists that people order keep their order.
    fn sort_key(&self) -> (GrantKind, &str) {
        let keeps_order = matches!(self.kind, GrantKind::Files | GrantKind::Http | GrantKind::Addresses);
        (self.kind, if keeps_order { "" } else { self.name.as_str() })
    }
}

/// Iterates over the grants with one kind of details.
macro_rules! matching {
    ($grants:ident, $grant:ident, $details:pat => $result:expr) => {
        $grants.0.iter().filter_map(|$grant| match &$grant.details {
            $details => Some($result),
            _ => None,
        })
    };
}

/// The grants or requests of one component, in the order of [`KINDS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentGrants(Vec<Grant>);

impl FromIterator<Grant> for ComponentGrants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut all: Vec<Grant> = grants.into_iter().collect();
        all.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        all.dedup();
        Self(all)
    }
}

impl ComponentGrants {
    /// Returns all grants, in the order of [`KINDS`].
    #[must_use]
    pub fn each(&self) -> &[Grant] {
        &self.0
    }

    /// Returns the grants of one kind.
    pub fn of(&self, kind: GrantKind) -> impl Iterator<Item = &Grant> {
        self.0.iter().filter(move |grant| grant.kind == kind)
    }

    /// Returns the names of the grants of one kind.
    pub fn names(&self, kind: GrantKind) -> impl Iterator<Item = &str> {
        self.of(kind).map(|grant| grant.name.as_str())
    }

    /// Returns whether there is a grant of this kind and name.
    #[must_use]
    pub fn has(&self, kind: GrantKind, name: &str) -> bool {
        self.names(kind).any(|known| known == name)
    }

    /// Returns the directories of the host.
    pub fn files(&self) -> impl Iterator<Item = &FileGrantConfig> {
        matching!(self, grant, Details::File(file) => file)
    }

    /// Returns the HTTP requests that it may send, or requests.
    pub fn http(&self) -> impl Iterator<Item = &HttpPattern> {
        matching!(self, grant, Details::Http(pattern) => pattern)
    }

    /// Returns the address ranges that its requests may reach although they are not global.
    pub fn addresses(&self) -> impl Iterator<Item = &AddressRange> {
        matching!(self, grant, Details::Addresses(range) => range)
    }

    /// Returns the settings that it reads, with their values.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        matching!(self, grant, Details::Value(value) => (grant.name.as_str(), value.as_str()))
    }

    /// Returns the agents that its tools may run, with the keys that are passed along.
    pub fn delegates(&self) -> impl Iterator<Item = (&str, &DelegateGrant)> {
        matching!(self, grant, Details::Delegate(keys) => (grant.name.as_str(), keys))
    }

    /// Returns the grants that the catalog enforces: state keys, actions and agents.
    #[must_use]
    pub fn catalog(&self) -> CatalogGrants {
        let names = |kind| self.names(kind).map(str::to_owned).collect();
        let may = |action| self.has(GrantKind::Actions, action);
        let agents: BTreeMap<String, DelegateGrant> =
            self.delegates().map(|(agent, keys)| (agent.to_owned(), keys.clone())).collect();
        CatalogGrants {
            reads: names(GrantKind::StateRead),
            writes: names(GrantKind::StateWrite),
            actions: ActionGrants {
                add_context: may("add-context"),
                transfer: may("transfer"),
                escalate: may("escalate"),
                ..ActionGrants::default()
            },
            delegates: if agents.is_empty() { Delegates::None } else { Delegates::Granted(agents) },
        }
    }

    /// Returns the kinds of grants that a component with these imports can never use.
    pub fn unusable(&self, imports: &[Import]) -> Vec<&'static str> {
        let mut unusable: Vec<_> =
            self.0.iter().filter_map(|grant| grant.kind.row().unusable(imports)).collect();
        unusable.dedup();
        unusable
    }

    /// Returns the grants as the configuration writes them.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut written = serde_json::Value::Null;
        for row in KINDS {
            let granted = self.of(row.kind).map(|grant| (&grant.name, grant.details.to_json(&grant.name)));
            let place = row.path.iter().fold(&mut written, |table, key| &mut table[*key]);
            *place = match row.form {
                Form::Values | Form::Delegates => granted.map(|(name, json)| (name.clone(), json)).collect(),
                Form::Names(_) | Form::Files => granted.map(|(_, json)| json).collect(),
            };
        }
        written
    }
}
