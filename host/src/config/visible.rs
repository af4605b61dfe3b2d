//! `[state]`: the keys whose values clients and subscribers receive.

use super::ConfigError;
use super::error::Source;
use tollgate_agent::{name, text};
use toml::Spanned;

pub(super) fn check(source: &Source<'_>, patterns: Vec<Spanned<String>>) -> Result<Vec<String>, ConfigError> {
    let meant = |pattern: &str| match pattern.split_once('.') {
        Some((owner, key)) => {
            name::is_id(owner) && !key.is_empty() && !key.trim_end_matches('*').contains('*')
        }
        None => pattern == "*",
    };
    if let Some(wrong) = patterns.iter().find(|pattern| !meant(pattern.get_ref())) {
        let shown = text::clean(wrong.get_ref(), 100);
        let problem = format!(
            "`{shown}` is not a state key; write `notes.items` for one key, `notes.*` for all of a component, or `*`"
        );
        return Err(source.wrong(wrong.span(), problem));
    }
    Ok(patterns.into_iter().map(Spanned::into_inner).collect())
}
