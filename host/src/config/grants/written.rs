//! The grants of a component as written, which the table of kinds describes.

use super::checks::{NameCheck, RawDelegate, RawFileGrant};
use super::kinds::{Form, KINDS, KindRow, unknown_field};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// `[grants.COMPONENT]`: each grant with its kind.
#[derive(Debug)]
pub(in crate::config) struct RawGrants(pub(super) Vec<(&'static KindRow, RawGrant)>);

/// A grant as written.
#[derive(Debug)]
pub(super) enum RawGrant {
    /// A name of a list, with its check.
    Name(NameCheck, Spanned<String>),
    /// A name and its value.
    Value(String, String),
    /// A directory.
    File(RawFileGrant),
    /// An agent.
    Delegate(RawDelegate),
}

impl<'de> Deserialize<'de> for RawGrants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        GrantTable(&[]).deserialize(deserializer).map(Self)
    }
}

/// Reads the table at this path below `[grants.COMPONENT]`, with the tables in it.
struct GrantTable(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for GrantTable {
    type Value = Vec<(&'static KindRow, RawGrant)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for GrantTable {
    type Value = Vec<(&'static KindRow, RawGrant)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of grants")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut all = Vec::new();
        while let Some(row) = map.next_key_seed(GrantKey(self.0))? {
            let path = &row.path[..=self.0.len()];
            if path != row.path {
                all.extend(map.next_value_seed(GrantTable(path))?);
                continue;
            }
            let grants: Vec<RawGrant> = match row.form {
                Form::Names(check) => {
                    let names = map.next_value::<Vec<Spanned<String>>>()?.into_iter();
                    names.map(|name| RawGrant::Name(check, name)).collect()
                }
                Form::Values => {
                    let values = map.next_value::<BTreeMap<String, String>>()?.into_iter();
                    values.map(|(name, value)| RawGrant::Value(name, value)).collect()
                }
                Form::Files => map.next_value::<Vec<_>>()?.into_iter().map(RawGrant::File).collect(),
                Form::Delegates => map.next_value::<Vec<_>>()?.into_iter().map(RawGrant::Delegate).collect(),
            };
            all.extend(grants.into_iter().map(|grant| (row, grant)));
        }
        Ok(all)
    }
}

/// Reads a key of the table at this path, and returns the first kind below it. An error has the place
/// of the key.
struct GrantKey(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for GrantKey {
    type Value = &'static KindRow;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for GrantKey {
    type Value = &'static KindRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kind of grants")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let (path, depth) = (self.0, self.0.len());
        let below = || KINDS.iter().filter(move |row| row.path.starts_with(path));
        below().find(|row| row.path[depth] == key).ok_or_else(|| {
            let mut known: Vec<&str> = below().map(|row| row.path[depth]).collect();
            known.dedup();
            E::custom(unknown_field(key, &known))
        })
    }
}
