//! The requests in a component's manifest, parsed from untrusted text into the types of grants.

use crate::config::{ComponentGrants, Details, Grant, GrantKind, KINDS, unknown_field};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use tollgate_agent::egress::HttpPattern;
use tollgate_agent::text::clean;
use tollgate_sandbox::FileAccess;

/// The maximum number of requests of one kind.
const MAX_OF_A_KIND: usize = 32;
/// The longest name of a setting, a variable or a directory, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The grants that a component requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedGrants {
    /// The purpose, in the author's words.
    pub why: Option<String>,
    /// The requests. Those of directories and settings have no directory and no value, and those of
    /// agents no keys: the grant determines them.
    pub grants: ComponentGrants,
}

/// A directory that a component requests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedFile {
    guest: String,
    #[serde(default = "read_only")]
    access: FileAccess,
}

impl Serialize for RequestedGrants {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(why) = &self.why {
            map.serialize_entry("why", why)?;
        }
        let files: Vec<_> = self.grants.of(GrantKind::Files).filter_map(RequestedFile::of).collect();
        for row in KINDS.iter().filter(|row| row.kind.is_requestable()) {
            let names: Vec<_> = self.grants.names(row.kind).collect();
            match row.kind {
                _ if names.is_empty() => {}
                GrantKind::Files => map.serialize_entry(row.path[0], &files)?,
                _ => map.serialize_entry(row.path[0], &names)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RequestedGrants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestsVisitor)
    }
}

struct RequestsVisitor;

impl<'de> Visitor<'de> for RequestsVisitor {
    type Value = RequestedGrants;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of requests")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RequestedGrants, M::Error> {
        let (mut why, mut grants, mut seen) = (None, Vec::new(), BTreeSet::new());
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(M::Error::custom(format!("duplicate field `{key}`")));
            }
            if key == "why" {
                why = map.next_value()?;
                continue;
            }
            let requestable = KINDS.iter().filter(|row| row.kind.is_requestable());
            let Some(row) = requestable.clone().find(|row| row.path[0] == key) else {
                let known: Vec<_> = ["why"].into_iter().chain(requestable.map(|row| row.path[0])).collect();
                return Err(M::Error::custom(unknown_field(&key, &known)));
            };
            match row.kind {
                GrantKind::Files => {
                    grants.extend(map.next_value::<Vec<RequestedFile>>()?.iter().map(RequestedFile::request));
                }
                GrantKind::Http => {
                    grants.extend(map.next_value::<Vec<HttpPattern>>()?.into_iter().map(Grant::http));
                }
                kind => {
                    let names = map.next_value::<Vec<String>>()?;
                    grants.extend(names.iter().map(|name| Grant::named(kind, name)));
                }
            }
        }
        Ok(RequestedGrants { why, grants: grants.into_iter().collect() })
    }
}

impl RequestedFile {
    fn of(request: &Grant) -> Option<Self> {
        match request.details {
            Details::Access(access) => Some(Self { guest: request.name.clone(), access }),
            _ => None,
        }
    }

    fn request(&self) -> Grant {
        Grant::new(GrantKind::Files, &self.guest, Details::Access(self.access))
    }
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
    /// It asks for a kind of grants that components cannot request.
    #[error("it asks for {}, which only an operator can grant", .0.power())]
    NotRequestable(GrantKind),
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
        self.grants.each().is_empty()
    }

    /// Checks that the requests are few enough to be read, that components can request their kinds,
    /// and that a grant could have their names.
    ///
    /// # Errors
    /// They are too many, are of a kind that only an operator grants, or have a name that no grant has.
    pub fn check(&self) -> Result<(), ManifestError> {
        if let Some(asked) = self.grants.each().iter().find(|asked| !asked.kind.is_requestable()) {
            return Err(ManifestError::NotRequestable(asked.kind));
        }
        if KINDS.iter().any(|row| self.grants.of(row.kind).count() > MAX_OF_A_KIND) {
            return Err(ManifestError::TooMany);
        }
        let named = self.grants.each().iter().filter(|asked| asked.kind != GrantKind::Http);
        match named.map(|asked| &asked.name).find(|name| !is_plain(name)) {
            Some(name) => Err(ManifestError::Name(name.clone())),
            None => Ok(()),
        }
    }

    /// Returns the grants without those that are not requested. HTTP patterns are compared for
    /// each request when it is made, and stay as they are here.
    #[must_use]
    pub fn narrow(&self, granted: &ComponentGrants) -> ComponentGrants {
        granted.each().iter().filter_map(|grant| self.narrowed(grant)).collect()
    }

    /// Returns the part of a grant that is requested.
    fn narrowed(&self, grant: &Grant) -> Option<Grant> {
        let mut given = grant.clone();
        if grant.kind != GrantKind::Http && grant.kind.is_requestable() {
            let asked = self.grants.of(grant.kind).find(|asked| asked.name == grant.name)?;
            if let (Details::File(file), Details::Access(FileAccess::Read)) =
                (&mut given.details, &asked.details)
            {
                file.access = FileAccess::Read;
            }
        }
        Some(given)
    }

    /// Returns the names of grants that have no effect because they are not requested. A granted HTTP
    /// pattern is only one of them if no HTTP request is requested at all.
    #[must_use]
    pub fn not_requested(&self, granted: &ComponentGrants) -> Vec<String> {
        let has_effect = |grant: &Grant| match grant.kind {
            GrantKind::Http => self.grants.http().next().is_some(),
            _ => self.narrowed(grant).is_some(),
        };
        granted.each().iter().filter(|grant| !has_effect(grant)).map(|grant| grant.name.clone()).collect()
    }

    /// Describes the requests that exceed those of another version.
    #[must_use]
    pub fn excess_over(&self, before: &RequestedGrants) -> Vec<String> {
        self.lacking(&before.grants).into_iter().map(|lack| lack.what).collect()
    }

    /// Returns the requests that were not granted.
    #[must_use]
    pub fn lacking(&self, granted: &ComponentGrants) -> Vec<MissingGrant> {
        let is_missing = |asked: &&Grant| granted.each().iter().all(|given| !given.covers(asked));
        self.grants.each().iter().filter(is_missing).map(MissingGrant::of).collect()
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
}

impl MissingGrant {
    fn of(asked: &Grant) -> Self {
        let (row, name) = (asked.kind.row(), &asked.name);
        let what = match &asked.details {
            Details::Access(FileAccess::ReadWrite) => {
                format!("read, change and delete the files of a directory, as {name}")
            }
            Details::Http(pattern) => format!("{} {name} ({})", row.request, pattern.in_words()),
            _ => format!("{} {name}", row.request),
        };
        let grant = match &asked.details {
            Details::Access(FileAccess::Read) => format!("--read DIRECTORY={name}"),
            Details::Access(FileAccess::ReadWrite) => format!("--write DIRECTORY={name}"),
            // A pattern displays only characters without a special meaning for shells.
            Details::Http(_) => format!("--{} '{name}'", row.flag),
            _ if asked.kind == GrantKind::Settings => format!("--{} {name}=VALUE", row.flag),
            _ => format!("--{} {name}", row.flag),
        };
        Self { kind: asked.kind, what, grant }
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
    use crate::config::{Config, Edit};
    use std::path::Path;
    use tollgate_agent::catalog::CatalogGrants;

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
        let files: Vec<_> = given.files().map(|file| (file.guest.as_str(), file.access)).collect();
        assert_eq!(files, [("/a", FileAccess::Read), ("/b", FileAccess::Read)], "each the lesser of the two");
        assert_eq!(given.settings().collect::<Vec<_>>(), [("x", "1")]);
        assert_eq!(given.each().len(), 3, "nothing else was asked for: {given:?}");
        assert_eq!(given.catalog(), CatalogGrants::default());
    }

    #[test]
    fn agents_are_run_that_are_asked_for_and_granted() {
        let granted = granted(
            "delegates = [{ agent = \"default\", seed = [\"it.brief\"] }, { agent = \"other\" }]\n[agents.default]\n[agents.other]",
        );
        let asks = asks("delegates = [\"default\", \"third\"]");
        let given = asks.narrow(&granted);
        let agents: Vec<_> = given.delegates().map(|(agent, grant)| (agent, grant.seed.len())).collect();
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
    fn each_kind_is_granted_listed_requested_and_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tollgate.toml");
        let before =
            "[secrets.key]\nenv = \"K\"\nto = \"https://a.test\"\nheader = \"x-key\"\n[agents.other]\n";
        for row in KINDS {
            let name = match row.kind {
                GrantKind::Files => "/docs",
                GrantKind::Http => "https://a.test/",
                GrantKind::Addresses => "10.0.0.0/8",
                GrantKind::Secrets => "key",
                GrantKind::Settings | GrantKind::Environment => "LANG",
                GrantKind::StateRead | GrantKind::StateWrite => "notes.items",
                GrantKind::Actions => "transfer",
                GrantKind::Delegates => "other",
            };
            let typed = match row.kind {
                GrantKind::Files => Grant::files(Path::new("docs"), name, FileAccess::Read, None),
                GrantKind::Settings => Grant::setting(name, "1"),
                kind => Grant::named(kind, name),
            };
            std::fs::write(&path, before).unwrap();
            let mut edit = Edit::open(&path).unwrap();
            edit.grant("it", std::slice::from_ref(&typed));
            let granted = edit.save().unwrap().grants_of("it");
            assert_eq!(granted.names(row.kind).collect::<Vec<_>>(), [name], "{granted:?}");
            assert!(granted.to_json().to_string().contains(name), "{granted:?}");
            let asked = match row.kind {
                GrantKind::Files => format!("files = [{{ guest = \"{name}\" }}]"),
                _ => format!("{} = [\"{name}\"]", row.path[0]),
            };
            assert_eq!(toml::from_str::<RequestedGrants>(&asked).is_ok(), row.kind.is_requestable());
            let all = RequestedGrants { why: None, grants: granted.clone() };
            let is_accepted = all.check() != Err(ManifestError::NotRequestable(row.kind));
            assert_eq!(is_accepted, row.kind.is_requestable());
            assert_eq!(serde_json::to_string(&all).unwrap() != "{}", row.kind.is_requestable());
            if row.kind.is_requestable() {
                assert_eq!(row.path.len(), 1, "a request's key is the first part alone");
                let asked = asks(&asked);
                assert_eq!(asked.requests()[0].kind, row.kind);
                assert_eq!((asked.lacking(&granted), asked.narrow(&granted)), (Vec::new(), granted));
            }
            let mut edit = Edit::open(&path).unwrap();
            assert_eq!(edit.revoke("it", &[typed]), [""; 0]);
            assert_eq!(edit.save().unwrap().grants_of("it"), ComponentGrants::default());
        }
    }

    #[test]
    fn requests_are_written_as_they_were_read() {
        let text = "settings = [\"b\", \"a\"]\nhttp = [\"https://a.test\"]\nwhy = \"it\"\nactions = [\"transfer\"]\n\
                    files = [{ guest = \"/b\", access = \"read-write\" }, { guest = \"/a\" }]\n";
        let asked = asks(text);
        assert_eq!(
            serde_json::to_string(&asked).unwrap(),
            "{\"why\":\"it\",\"files\":[{\"guest\":\"/b\",\"access\":\"read-write\"},\
             {\"guest\":\"/a\",\"access\":\"read\"}],\"http\":[\"https://a.test/\"],\
             \"settings\":[\"a\",\"b\"],\"actions\":[\"transfer\"]}"
        );
        assert_eq!(asks(&toml::to_string(&asked).unwrap()), asked);
        assert_eq!(asked.excess_over(&asked), [""; 0]);
        let why = toml::from_str::<RequestedGrants>("state = []").unwrap_err();
        let known = "unknown field `state`, expected one of `why`, `files`, `http`, `secrets`, `settings`, \
                     `environment`, `actions`, `delegates`";
        assert_eq!(why.message(), known);
    }

    #[test]
    fn json_may_have_a_purpose_of_null_and_no_key_twice() {
        let read = |json: &str| serde_json::from_str::<RequestedGrants>(json).map_err(|why| why.to_string());
        assert_eq!(read(r#"{"why": null}"#), Ok(RequestedGrants::default()));
        let twice = read(r#"{"settings": ["a"], "settings": ["b"]}"#).unwrap_err();
        assert!(twice.starts_with("duplicate field `settings`"), "{twice}");
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
