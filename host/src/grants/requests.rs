//! The requests in a component's manifest, parsed from untrusted text into the types of grants.

use crate::config::{ComponentGrants, ConfiguredGrant, GrantKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tollgate_agent::child::Delegates;
use tollgate_agent::egress::HttpPattern;
use tollgate_agent::text::clean;
use tollgate_sandbox::FileAccess;

/// The maximum number of requests of one kind.
const MAX_OF_A_KIND: usize = 32;
/// The longest name of a setting, a variable or a directory, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The grants that a component requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestedGrants {
    /// The purpose, in the author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Directories, by the guest's path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileAsk>,
    /// HTTP requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpPattern>,
    /// Secrets to add to its requests, by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// Settings, by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub settings: BTreeSet<String>,
    /// Variables of the host's environment, by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub environment: BTreeSet<String>,
    /// Actions of the agent loop.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub actions: BTreeSet<String>,
    /// Agents of the configuration that its tools run, by id. The grant determines the keys
    /// that are passed along.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub delegates: BTreeSet<String>,
}

/// A directory that a component requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileAsk {
    /// The path at which the component expects it.
    pub guest: String,
    /// The requested access.
    #[serde(default = "read_only")]
    pub access: FileAccess,
}

/// A request that was not granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingGrant {
    /// Its kind.
    #[serde(skip)]
    pub kind: GrantKind,
    /// Its description for a person, cleaned.
    pub what: String,
    /// The arguments of `tollgate grant COMPONENT` that grant it.
    pub grant: String,
}

/// The reason why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It makes too many requests.
    #[error("it makes more than {MAX_OF_A_KIND} requests of one kind")]
    TooMany,
    /// It asks for a name that no grant can have.
    #[error("it asks for \"{}\", which is not a plain name", clean(.0, 60))]
    Name(String),
    /// Its text is not a manifest, for the reason that the parser gives.
    #[error("{0}")]
    Syntax(String),
    /// The file cannot be read, or its content is refused.
    #[error(
        "its manifest {} is refused: {}; correct it, or use another release of the tool",
        .file.display(),
        clean(.why, 1_000)
    )]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
}

impl RequestedGrants {
    /// Returns whether nothing is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.each().is_empty()
    }

    /// Checks that the requests are few enough to be read, and that a grant could have their
    /// names.
    ///
    /// # Errors
    /// They are too many, or have a name that no grant has.
    pub fn check(&self) -> Result<(), ManifestError> {
        let names = self.names().map(|(_, names)| names);
        let most = names.iter().map(|names| names.len()).chain([self.files.len(), self.http.len()]).max();
        if most.is_some_and(|most| most > MAX_OF_A_KIND) {
            return Err(ManifestError::TooMany);
        }
        let guests = self.files.iter().map(|file| &file.guest);
        let odd = names.into_iter().flatten().chain(guests).find(|name| !is_plain(name));
        match odd {
            Some(name) => Err(ManifestError::Name(name.clone())),
            None => Ok(()),
        }
    }

    /// Returns the grants without those that are not requested. HTTP patterns are compared for
    /// each request when it is made, and stay as they are here.
    #[must_use]
    pub fn narrow(&self, granted: &ComponentGrants) -> ComponentGrants {
        let mut given = granted.clone();
        given.files.retain_mut(|file| {
            let asked = self.files.iter().find(|asked| asked.guest == file.guest);
            if asked.is_some_and(|asked| asked.access == FileAccess::Read) {
                file.access = FileAccess::Read;
            }
            asked.is_some()
        });
        given.secrets.retain(|name| self.secrets.contains(name));
        given.settings.retain(|name, _| self.settings.contains(name));
        given.environment.retain(|name| self.environment.contains(name));
        let actions = &mut given.catalog.actions;
        actions.add_context &= self.actions.contains("add-context");
        actions.transfer &= self.actions.contains("transfer");
        actions.escalate &= self.actions.contains("escalate");
        if let Delegates::Granted(agents) = &mut given.catalog.delegates {
            agents.retain(|agent, _| self.delegates.contains(agent));
            if agents.is_empty() {
                given.catalog.delegates = Delegates::None;
            }
        }
        given
    }

    /// Returns the names of grants that have no effect because they are not requested. A granted HTTP
    /// pattern is only one of them if no HTTP request is requested at all.
    #[must_use]
    pub fn not_requested(&self, granted: &ComponentGrants) -> Vec<String> {
        let mut given = self.narrow(granted);
        if self.http.is_empty() {
            given.http.clear();
        }
        let given = given.each();
        let has_effect = |grant: &ConfiguredGrant<'_>| {
            given.iter().any(|given| given.kind == grant.kind && given.name == grant.name)
        };
        granted.each().into_iter().filter(|grant| !has_effect(grant)).map(|grant| grant.name).collect()
    }

    /// Describes the requests that exceed those of another version.
    #[must_use]
    pub fn excess_over(&self, before: &RequestedGrants) -> Vec<String> {
        let allows = |file: &FileAsk| {
            before.files.iter().any(|known| known.guest == file.guest && known.allows(file.access))
        };
        let covers = |pattern: &HttpPattern| before.http.iter().any(|known| known.covers(pattern));
        let known = before.names();
        let has =
            |kind, name: &str| known.iter().any(|(known, names)| *known == kind && names.contains(name));
        self.without(allows, covers, has).into_iter().map(|lack| lack.what).collect()
    }

    /// Returns the requests that were not granted.
    #[must_use]
    pub fn lacking(&self, granted: &ComponentGrants) -> Vec<MissingGrant> {
        let allows = |file: &FileAsk| {
            granted.files.iter().any(|given| {
                given.guest == file.guest
                    && (given.access == FileAccess::ReadWrite || file.access == FileAccess::Read)
            })
        };
        let covers = |pattern: &HttpPattern| granted.http.iter().any(|given| given.covers(pattern));
        let each = granted.each();
        let has = |kind, name: &str| each.iter().any(|given| given.kind == kind && given.name == name);
        self.without(allows, covers, has)
    }

    /// Returns all requests.
    #[must_use]
    pub fn requests(&self) -> Vec<MissingGrant> {
        self.lacking(&ComponentGrants::default())
    }

    /// Describes all requests for a person.
    #[must_use]
    pub fn each(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.what).collect()
    }

    /// Returns the requests without those that are known.
    fn without(
        &self,
        allows: impl Fn(&FileAsk) -> bool,
        covers: impl Fn(&HttpPattern) -> bool,
        has: impl Fn(GrantKind, &str) -> bool,
    ) -> Vec<MissingGrant> {
        let files = self.files.iter().filter(|file| !allows(file)).map(FileAsk::lack);
        let http = self.http.iter().filter(|pattern| !covers(pattern)).map(http_lack);
        let names = self.names().into_iter().flat_map(|(kind, names)| {
            let missing = names.iter().filter(|name| !has(kind, name));
            missing.map(|name| named_lack(kind, name)).collect::<Vec<_>>()
        });
        files.chain(http).chain(names).collect()
    }

    /// Returns the requests that consist of a name, by kind.
    #[must_use]
    pub fn names(&self) -> [(GrantKind, &BTreeSet<String>); 5] {
        [
            (GrantKind::Secrets, &self.secrets),
            (GrantKind::Settings, &self.settings),
            (GrantKind::Environment, &self.environment),
            (GrantKind::Actions, &self.actions),
            (GrantKind::Delegates, &self.delegates),
        ]
    }

    /// Removes the requests by name that are not to be kept.
    ///
    /// # Errors
    /// The error of `keep`.
    pub fn retain_names<E>(
        &mut self,
        mut keep: impl FnMut(GrantKind, &str) -> Result<bool, E>,
    ) -> Result<(), E> {
        let kinds = self.names().map(|(kind, _)| kind);
        let sets = [
            &mut self.secrets,
            &mut self.settings,
            &mut self.environment,
            &mut self.actions,
            &mut self.delegates,
        ];
        for (kind, names) in kinds.into_iter().zip(sets) {
            for name in std::mem::take(names) {
                if keep(kind, &name)? {
                    names.insert(name);
                }
            }
        }
        Ok(())
    }
}

impl FileAsk {
    fn allows(&self, access: FileAccess) -> bool {
        self.access == FileAccess::ReadWrite || access == FileAccess::Read
    }

    fn lack(&self) -> MissingGrant {
        let (what, flag) = match self.access {
            FileAccess::Read => ("read the files of a directory, as", "--read"),
            FileAccess::ReadWrite => ("read, change and delete the files of a directory, as", "--write"),
        };
        MissingGrant {
            kind: GrantKind::Files,
            what: format!("{what} {}", self.guest),
            grant: format!("{flag} DIRECTORY={}", self.guest),
        }
    }
}

fn http_lack(pattern: &HttpPattern) -> MissingGrant {
    // A pattern displays only characters without a special meaning for shells.
    let what = format!("{} {pattern} ({})", GrantKind::Http.row().request, pattern.in_words());
    MissingGrant { kind: GrantKind::Http, what, grant: format!("--http '{pattern}'") }
}

fn named_lack(kind: GrantKind, name: &str) -> MissingGrant {
    let row = kind.row();
    let value = if kind == GrantKind::Settings { "=VALUE" } else { "" };
    MissingGrant {
        kind,
        what: format!("{} {name}", row.request),
        grant: format!("--{} {name}{value}", row.flag),
    }
}

/// Returns whether a name can be shown and typed as it is.
fn is_plain(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
        && !name.starts_with('-')
        && !name.contains("..")
}

fn read_only() -> FileAccess {
    FileAccess::Read
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn asks(text: &str) -> RequestedGrants {
        toml::from_str(text).unwrap()
    }

    fn granted(text: &str) -> ComponentGrants {
        let text = format!(
            "[secrets.key]\nenv = \"K\"\nto = \"https://a.test\"\nheader = \"x-key\"\n[grants.it]\n{text}"
        );
        Config::parse(Path::new("tollgate.toml"), &text).unwrap().grants_of("it")
    }

    #[test]
    fn a_component_gets_what_is_asked_and_granted() {
        let asks = asks(
            "files = [{ guest = \"/a\" }, { guest = \"/b\", access = \"read-write\" }]\nsettings = [\"x\"]",
        );
        let given = asks.narrow(&granted(
            "files = [{ host = \"h\", guest = \"/a\", access = \"read-write\" }, { host = \"h\", guest = \"/b\" }, \
             { host = \"h\", guest = \"/c\" }]\nsettings = { x = \"1\", y = \"2\" }\nenvironment = [\"PATH\"]\n\
             secrets = [\"key\"]\nactions = [\"add-context\"]\ndelegates = [{ agent = \"default\" }]",
        ));
        let files: Vec<_> = given.files.iter().map(|file| (file.guest.as_str(), file.access)).collect();
        assert_eq!(files, [("/a", FileAccess::Read), ("/b", FileAccess::Read)], "each the lesser of the two");
        assert_eq!(given.settings.into_iter().collect::<Vec<_>>(), [("x".to_owned(), "1".to_owned())]);
        assert!(given.environment.is_empty() && given.secrets.is_empty());
        assert!(!given.catalog.actions.add_context);
        assert_eq!(given.catalog.delegates, Delegates::None, "no agent was asked for");
    }

    #[test]
    fn agents_are_run_that_are_asked_for_and_granted() {
        let granted = granted(
            "delegates = [{ agent = \"default\", seed = [\"it.brief\"] }, { agent = \"other\" }]\n[agents.default]\n[agents.other]",
        );
        let asks = asks("delegates = [\"default\", \"third\"]");
        let given = asks.narrow(&granted);
        let agents: Vec<_> =
            given.delegates().map(|(agent, grant)| (agent.as_str(), grant.seed.len())).collect();
        assert_eq!(agents, [("default", 1)], "with the keys that were granted");
        let lacking: Vec<_> = asks.lacking(&granted).into_iter().map(|lack| lack.grant).collect();
        assert_eq!(lacking, ["--delegate third"]);
        assert_eq!(
            asks.excess_over(&RequestedGrants::default()),
            ["run the agent default", "run the agent third"]
        );
    }

    #[test]
    fn what_is_lacking_can_be_typed() {
        let asks = asks(
            "files = [{ guest = \"/a\", access = \"read-write\" }]\nhttp = [\"https://a.test/v1\", \"https://b.test/\"]\n\
             secrets = [\"key\"]\nsettings = [\"units\"]\nenvironment = [\"LANG\"]\nactions = [\"add-context\"]",
        );
        let lacking = asks
            .lacking(&granted("http = [\"https://a.test/\"]\nfiles = [{ host = \"h\", guest = \"/a\" }]"));
        let typed: Vec<_> = lacking.iter().map(|lack| lack.grant.as_str()).collect();
        assert_eq!(
            typed,
            [
                "--write DIRECTORY=/a",
                "--http 'https://b.test/'",
                "--secret key",
                "--setting units=VALUE",
                "--env LANG",
                "--action add-context"
            ]
        );
    }

    #[test]
    fn a_version_that_asks_for_more_is_noticed_and_one_that_asks_for_less_is_not() {
        let before = asks("http = [\"https://a.test/\"]\nfiles = [{ guest = \"/a\" }]");
        let less = asks("http = [\"https://a.test/v1\"]");
        assert!(less.excess_over(&before).is_empty());
        let more =
            asks("http = [\"POST https://a.test/\"]\nfiles = [{ guest = \"/a\", access = \"read-write\" }]");
        assert_eq!(more.excess_over(&before).len(), 2);
        let also = asks("secrets = [\"key\"]");
        assert_eq!(also.excess_over(&before), ["add a secret to its requests: key"]);
    }

    #[test]
    fn names_that_could_not_be_typed_are_refused() {
        for text in [
            "settings = [\"a b\"]",
            "environment = [\"$(reboot)\"]",
            "secrets = [\"\"]",
            "files = [{ guest = \"/a/../b\" }]",
            "actions = [\"--all\"]",
            "settings = [\"\\u202Etxt\"]",
        ] {
            assert!(asks(text).check().is_err(), "{text}");
        }
        let many: Vec<String> = (0..33).map(|number| format!("\"v{number}\"")).collect();
        assert!(asks(&format!("settings = [{}]", many.join(","))).check().is_err());
        assert!(asks("settings = [\"units\"]").check().is_ok());
    }
}
