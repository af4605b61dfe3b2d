//! `[secrets.NAME]`: secrets that the host adds to requests after they have left the tool. The
//! value itself is never in the configuration.

use super::ConfigError;
use super::error::Source;
use super::paths::in_dir;
use super::raw::RawSecret;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tollgate_agent::egress::Origin;
use tollgate_agent::name;
use toml::Spanned;

/// A secret, bound to one host and one header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretConfig {
    /// The location of its value.
    pub source: SecretSource,
    /// Scheme, host and port of the requests to which it is added.
    pub to: Origin,
    /// The header that carries it.
    pub header: String,
    /// The text before it in the header, such as `Bearer `.
    pub prefix: String,
}

/// The location of a secret's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of the host.
    Environment(String),
    /// A file, without the newline at its end.
    File(PathBuf),
}

pub(super) fn check(
    source: &Source<'_>,
    raw: BTreeMap<Spanned<String>, RawSecret>,
    base_dir: &Path,
) -> Result<BTreeMap<String, SecretConfig>, ConfigError> {
    let mut secrets = BTreeMap::new();
    for (id, secret) in raw {
        let span = id.span();
        let wrong = |problem: String| source.wrong(span.clone(), problem);
        if !name::is_id(id.get_ref()) {
            return Err(wrong(
                "a secret's name has only lowercase letters, digits and hyphens, as in [secrets.weather]"
                    .to_owned(),
            ));
        }
        let value = match (secret.env, secret.file) {
            (Some(variable), None) => SecretSource::Environment(variable),
            (None, Some(file)) => SecretSource::File(in_dir(base_dir, &file)),
            _ => {
                let problem = "a secret's value is in one place; write either `env = \"VARIABLE\"` or `file = \"PATH\"`";
                return Err(wrong(problem.to_owned()));
            }
        };
        let to = secret
            .to
            .get_ref()
            .parse()
            .map_err(|why| source.wrong(secret.to.span(), format!("`to`: {why}")))?;
        let config = SecretConfig { source: value, to, header: secret.header, prefix: secret.prefix };
        secrets.insert(id.into_inner(), config);
    }
    Ok(secrets)
}
