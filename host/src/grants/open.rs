//! Turns grants into the resources of calls: opens directories, and reads secrets and
//! variables, once, when the component is loaded.

use super::{RequestedGrants, check_files};
use crate::config::{ComponentGrants, Config, GrantKind, SecretSource, holds};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use tollgate_agent::egress::Egress;
use tollgate_agent::redact::MAX_SECRET_BYTES;
use tollgate_sandbox::{DEFAULT_QUOTA_BYTES, FileGrant, Grants, HttpGrant, Secret};

/// Opens a component's grants, which are already limited to its requests. A component without a
/// manifest asks for whatever is granted.
///
/// # Errors
/// A directory cannot be opened, or a secret is missing. The component is then not served,
/// because it would run without something that its operator believes it has.
pub(crate) fn open(
    given: &ComponentGrants,
    asks: Option<&RequestedGrants>,
    component_id: &str,
    config: &Config,
) -> Result<Grants, String> {
    let asked = asks.into_iter().flat_map(|asks| asks.grants.names(GrantKind::Environment));
    if let Some((name, what)) = asked.into_iter().find_map(|name| Some((name, config.held_by(name)?))) {
        return Err(format!(
            "it asks for the variable {name}, which holds {what}, and no tool may see that; use a release of \
             the tool that asks for a secret, or let another variable hold it"
        ));
    }
    let environment = environment(given, component_id, config, |name| std::env::var(name).ok())?;
    let settings = given.settings().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let grants = Grants::default()
        .with_settings(settings.collect())
        .with_environment(environment)
        .with_delegates(given.delegates().next().is_some());
    let grants = with_files(grants, given, component_id, config)?;
    let mut egress = Egress::new(given.http().cloned().collect(), given.addresses().copied().collect());
    if let Some(asks) = asks {
        egress = egress.narrowed_to(asks.grants.http().cloned().collect());
    }
    if egress.is_empty() {
        return Ok(grants);
    }
    let secrets = given.names(GrantKind::Secrets).map(|name| read_secret(name, config));
    let secrets = secrets.collect::<Result<_, _>>()?;
    Ok(grants.with_http(HttpGrant::new(egress).with_secrets(secrets)))
}

fn with_files(
    mut grants: Grants,
    given: &ComponentGrants,
    component_id: &str,
    config: &Config,
) -> Result<Grants, String> {
    let correct = format!("correct `files` in [grants.{component_id}] of {}", config.name());
    check_files(given, component_id, config).map_err(|e| e.to_string())?;
    for file in given.files() {
        let open = FileGrant::open(&file.host, file.guest.as_str(), file.access)
            .map_err(|e| format!("{e}; {correct}"))?;
        grants = grants.with_files(open.with_quota(file.quota_bytes.unwrap_or(DEFAULT_QUOTA_BYTES)));
    }
    Ok(grants)
}

/// Returns the variables that a component sees. Keys and tokens are left out, whatever the name
/// of their variable.
fn environment(
    given: &ComponentGrants,
    component_id: &str,
    config: &Config,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, String> {
    let mut environment = BTreeMap::new();
    for name in given.names(GrantKind::Environment) {
        let value = lookup(name);
        let held = config.held_by(name);
        let held = held.or_else(|| config.held_in(value.as_deref()?, &lookup));
        let held = held.or_else(|| in_secret_file(value.as_deref()?, config));
        if let Some(what) = held {
            return Err(format!(
                "it was granted the variable {name}, which holds {what}, and no tool may see that; correct \
                 `environment` in [grants.{component_id}] of {}",
                config.name()
            ));
        }
        environment.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(environment)
}

/// Describes the secret or password whose file has this value.
fn in_secret_file(value: &str, config: &Config) -> Option<String> {
    let is_in = |source: &SecretSource| match source {
        SecretSource::File(file) => read_bounded(file).is_ok_and(|secret| holds(value, &secret)),
        SecretSource::Environment(_) => false,
    };
    let of_store = config.store.database.as_ref().and_then(|database| database.password.as_ref());
    if of_store.is_some_and(is_in) {
        return Some("the password of [store]".to_owned());
    }
    let (name, _) = config.secrets.iter().find(|(_, secret)| is_in(&secret.source))?;
    Some(format!("the secret of [secrets.{name}]"))
}

fn read_secret(name: &str, config: &Config) -> Result<Secret, String> {
    let correct = format!("correct [secrets.{name}] of {}", config.name());
    let secret = config.secrets.get(name).ok_or_else(|| format!("there is no secret {name}; {correct}"))?;
    let text = match &secret.source {
        SecretSource::Environment(variable) => std::env::var(variable).map_err(|_| {
            format!("the secret {name} is missing: set the variable {variable}, or {correct}")
        })?,
        SecretSource::File(file) => read_bounded(file).map_err(|e| {
            format!("the secret {name} cannot be read from {}: {e}; {correct}", file.display())
        })?,
    };
    Secret::new(secret.to.clone(), &secret.header, &secret.prefix, &text)
        .map_err(|e| format!("the secret {name} cannot be used: {e}; {correct}"))
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let most = MAX_SECRET_BYTES as u64 + 2;
    std::fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Grant;

    #[test]
    fn what_holds_a_secret_is_no_variable_of_a_tool() {
        let text = "[secrets.key]\nenv = \"HELD\"\nto = \"https://a.test\"\nheader = \"x-key\"\n";
        let config = Config::parse(Path::new("tollgate.toml"), text).unwrap();
        let asks: RequestedGrants = toml::from_str("environment = [\"LANG\", \"HELD\"]").unwrap();
        let why = open(&ComponentGrants::default(), Some(&asks), "it", &config).err().unwrap();
        assert!(why.contains("the variable HELD, which holds the secret of [secrets.key]"), "{why}");
    }

    #[test]
    fn z19_no_variable_with_a_key_or_token_is_given_whatever_it_is_called() {
        let text = "[secrets.key]\nenv = \"HELD\"\nto = \"https://a.test\"\nheader = \"x-key\"\n\
                    [mcp.web]\nurl = \"https://b.test\"\ntoken_env = \"WEB\"\n\
                    [mcp.local]\ncommand = \"run\"\nenv = { API_KEY = \"key-of-a-server\", LANG = \"C.UTF-8-long\" }\n\
                    [agents.far]\nkind = \"a2a\"\nurl = \"https://c.test\"\ntoken_env = \"FAR\"\n";
        let mut config = Config::parse(Path::new("tollgate.toml"), text).unwrap();
        config.held_variables.insert("DOOR".to_owned(), "the token of `mcp --token-env`".to_owned());
        let lookup = |name: &str| {
            let values = [
                ("HELD", "secret-of-a-request"),
                ("WEB", "token-of-the-web"),
                ("DOOR", "token-of-the-door"),
                ("FAR", "token-of-the-far-agent"),
                ("FAR_AGAIN", "token-of-the-far-agent"),
                ("OPENAI_API_KEY", "key-of-a-model"),
                ("SAME_SECRET", "secret-of-a-request"),
                ("WITHIN", "Bearer token-of-the-door\n"),
                ("OF_A_SERVER", "key-of-a-server"),
                ("OTHER_MODEL", "key-of-a-model"),
                ("LANG", "C.UTF-8-long"),
                ("SHORT", "a"),
            ];
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let given = |name: &str| {
            let given = ComponentGrants::from_iter([Grant::named(GrantKind::Environment, name)]);
            environment(&given, "it", &config, lookup)
        };
        for name in [
            "HELD",
            "WEB",
            "DOOR",
            "FAR",
            "FAR_AGAIN",
            "API_KEY",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "SAME_SECRET",
            "WITHIN",
            "OF_A_SERVER",
            "OTHER_MODEL",
        ] {
            let why = given(name).expect_err(name);
            assert!(why.contains(&format!("the variable {name}, which holds")), "{why}");
        }
        assert_eq!(given("LANG").unwrap()["LANG"], "C.UTF-8-long");
        assert_eq!(given("SHORT").unwrap()["SHORT"], "a");
        assert!(given("ABSENT").unwrap().is_empty());
    }

    #[test]
    fn z19_a_password_that_the_store_reads_from_a_file_is_in_no_variable_of_a_tool() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "password-of-the-store\n").unwrap();
        let text = "[store]\nurl = \"postgres://u@db/x\"\npassword_file = \"password\"\n";
        let config = Config::parse(&folder.path().join("tollgate.toml"), text).unwrap();
        let given = ComponentGrants::from_iter([Grant::named(GrantKind::Environment, "PGPASSWORD")]);
        let lookup = |name: &str| (name == "PGPASSWORD").then(|| "password-of-the-store".to_owned());
        let why = environment(&given, "it", &config, lookup).unwrap_err();
        assert!(why.contains("the variable PGPASSWORD, which holds the password of [store]"), "{why}");
    }
}
