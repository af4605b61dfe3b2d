//! Grants in words for people.

use crate::terminal::program;
use crate::terminal::text::shown_line;
use std::collections::BTreeSet;
use tollgate::config::{ComponentGrants, Details, Grant};
use tollgate::grants::{MissingGrant, RequestedGrants};
use tollgate_agent::egress::HttpPattern;
use tollgate_agent::name;
use tollgate_agent::text::quoted;
use tollgate_sandbox::{DEFAULT_QUOTA_BYTES, FileAccess, Import, Power};

/// Returns the grants in words, one phrase each.
pub(crate) fn in_words(grants: &ComponentGrants) -> Vec<String> {
    grants.each().iter().map(phrase).collect()
}

/// Returns a grant in words.
pub(crate) fn phrase(grant: &Grant) -> String {
    let name = shown_line(&grant.name, 60);
    match &grant.details {
        Details::File(file) => {
            let access = match file.access {
                FileAccess::Read => "read".to_owned(),
                FileAccess::ReadWrite => match file.quota_bytes.unwrap_or(DEFAULT_QUOTA_BYTES) {
                    DEFAULT_QUOTA_BYTES => "read-write".to_owned(),
                    quota_bytes => format!("read-write, {quota_bytes} bytes"),
                },
            };
            format!("{name} is {} ({access})", shown_line(&file.host.display().to_string(), 60))
        }
        Details::Value(value) => format!("{name} = {}", shown_line(value, 60)),
        Details::Http(pattern) => format!("http {pattern} ({})", pattern.in_words()),
        _ => format!("{}{}", grant.kind.row().granted, shown_line(&grant.name, 200)),
    }
}

/// Returns the command that grants a component a power that one of its calls was refused. `refused` is
/// the power as the record of refusals describes it. `None` if no option of `tollgate grant` fits.
pub(crate) fn command_to_grant(component_id: &str, refused: &str) -> Option<String> {
    let option = if let Some(request) = refused.strip_prefix("http ") {
        // This does not parse if the request was refused for another reason, which then follows it.
        let pattern = request.parse::<HttpPattern>().ok()?;
        format!("--http {}", quoted(&pattern.to_string()))
    } else {
        let agent = refused.strip_prefix("delegates: ").filter(|agent| name::is_id(agent))?;
        format!("--delegate {agent}")
    };
    Some(format!("{} grant {component_id} {option}", program()))
}

/// Returns the powers that a component imports and could be granted, but was not. If it has a manifest,
/// use [`asked_and_lacking`] instead: toolchains import powers that tools never use.
pub(crate) fn lacking(imports: &[Import], grants: &ComponentGrants) -> Vec<&'static str> {
    let powers: BTreeSet<Power> = imports.iter().filter_map(|import| import.power).collect();
    // There is no grant for sockets.
    let has = |power: &Power| {
        *power == Power::Sockets || grants.each().iter().any(|grant| grant.kind.power() == power.as_str())
    };
    powers.into_iter().filter(|power| !has(power)).map(Power::as_str).collect()
}

/// Returns the requests of the manifest that were not granted; none without a manifest.
pub(crate) fn asked_and_lacking(
    asks: Option<&RequestedGrants>,
    grants: &ComponentGrants,
) -> Vec<MissingGrant> {
    asks.map(|asks| asks.lacking(grants)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_granted_by_a_command_that_can_be_typed() {
        let command = |refused| command_to_grant("desk", refused);
        for (refused, option) in [
            ("http GET https://localhost:1/", "--http 'GET https://localhost:1/'"),
            ("http POST https://a.test/v1/b", "--http 'POST https://a.test/v1/b'"),
            ("delegates: helper", "--delegate helper"),
        ] {
            let shown = command(refused);
            assert!(
                shown.as_ref().is_some_and(|line| line.ends_with(&format!(" grant desk {option}"))),
                "{shown:?}"
            );
        }
        for refused in [
            "http GET https://a.test/: the limit is http_requests = 3",
            "http GET https://a.test/a [cut]",
            "http GET https://a.test/\u{27}; rm",
            "delegates: notes.items",
            "sockets: a TCP socket",
            "files: open /docs",
        ] {
            assert_eq!(command(refused), None, "{refused}");
        }
    }
}
