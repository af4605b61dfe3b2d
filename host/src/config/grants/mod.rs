//! `[grants.COMPONENT]`: the only source of a component's permissions.

mod checks;
mod details;
mod kinds;
mod list;
mod written;

pub use details::{Details, FileGrantConfig};
pub(super) use kinds::Form;
pub(crate) use kinds::unknown_field;
pub use kinds::{GrantKind, KINDS, KindRow};
pub use list::{ComponentGrants, Grant};
pub(super) use written::RawGrants;

use super::error::Source;
use super::{Config, ConfigError};
use std::collections::BTreeMap;
use tollgate_agent::name;
use tollgate_agent::text::clean;
use toml::Spanned;
use written::RawGrant;

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawGrants>,
    config: &Config,
) -> Result<BTreeMap<String, ComponentGrants>, ConfigError> {
    let mut grants = BTreeMap::new();
    for (id, granted) in raw {
        if !name::is_id(id.get_ref()) {
            let problem = format!(
                "`{}` is not a component id; grants belong to a component, such as [grants.notes]",
                clean(id.get_ref(), 100)
            );
            return Err(source.wrong(id.span(), problem));
        }
        grants.insert(id.into_inner(), check_one(source, granted, config)?);
    }
    Ok(grants)
}

fn check_one(source: &Source<'_>, raw: RawGrants, config: &Config) -> Result<ComponentGrants, ConfigError> {
    // By the lower-case name: on a case-insensitive file system, paths that differ only in case are
    // the same directory.
    let mut seen = BTreeMap::new();
    let mut grants = Vec::new();
    for (row, raw) in raw.0 {
        let (name, details, span) = match raw {
            RawGrant::Name(check, name) => {
                let details = checks::name(source, &name, check, config)?;
                (name.into_inner(), details, None)
            }
            RawGrant::Value(name, value) => (name, Details::Value(value), None),
            RawGrant::File(file) => {
                let span = file.guest.span();
                let file = checks::file(source, file, &config.base_dir)?;
                (file.guest.clone(), Details::File(file), Some(span))
            }
            RawGrant::Delegate(delegate) => {
                let span = delegate.agent.span();
                let (agent, keys) = checks::delegate(source, delegate, config)?;
                (agent, Details::Delegate(keys), Some(span))
            }
        };
        if let Some(span) = span
            && let Some(other) = seen.insert((row.flag, name.to_lowercase()), name.clone())
        {
            return Err(source.wrong(span, checks::duplicate(&details, &name, &other)));
        }
        grants.push(Grant::new(row.kind, &name, details));
    }
    Ok(grants.into_iter().collect())
}
