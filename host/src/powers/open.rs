//! From what was granted to what calls run with: directories are opened, secrets and
//! variables read, once, when the component is loaded.

use super::{Approvals, Asks};
use crate::config::{ComponentGrants, Config, SecretSource};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tollgate_agent::blank::MAX_SECRET_BYTES;
use tollgate_agent::egress::Egress;
use tollgate_sandbox::{FileGrant, Grants, HttpGrant, Secret};

/// Opens what a component was granted, narrowed to what it asks for; a component
/// without a manifest asks for whatever is granted.
///
/// # Errors
/// A directory cannot be opened, or a secret is not where it should be: the
/// component is then not served, for it would run without what its operator
/// believes it has.
pub fn open(
    granted: &ComponentGrants,
    asks: Option<&Asks>,
    component_id: &str,
    config: &Config,
) -> Result<Grants, String> {
    let asked = asks.into_iter().flat_map(|asks| &asks.environment);
    if let Some((name, what)) = asked.into_iter().find_map(|name| Some((name, config.held_by(name)?))) {
        return Err(format!(
            "it asks for the variable {name}, which holds {what}, and no tool may see that; take a release of \
             the tool that asks for a secret, or let another variable hold it"
        ));
    }
    let given = asks.map_or_else(|| granted.clone(), |asks| asks.narrow(granted));
    let environment =
        given.environment.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let grants = Grants::default()
        .with_settings(given.settings.clone())
        .with_environment(environment.collect::<BTreeMap<_, _>>());
    let grants = with_files(grants, &given, component_id, config)?;
    let mut egress = Egress::new(given.http.clone(), given.addresses.clone());
    if let Some(asks) = asks {
        egress = egress.asked(asks.http.clone());
    }
    if egress.is_empty() {
        return Ok(grants);
    }
    let secrets = given.secrets.iter().map(|name| read_secret(name, config)).collect::<Result<_, _>>()?;
    Ok(grants.with_http(HttpGrant::new(egress).with_secrets(secrets)))
}

fn with_files(
    mut grants: Grants,
    given: &ComponentGrants,
    component_id: &str,
    config: &Config,
) -> Result<Grants, String> {
    let correct = format!("correct `files` in [grants.{component_id}] of {}", config.name());
    for file in &given.files {
        if let Some(own) = holds_the_hosts_own(&file.host, config) {
            let host = file.host.display();
            return Err(format!("the grant of {host} holds {own}, which no tool may see; {correct}"));
        }
        let open = FileGrant::open(&file.host, file.guest.as_str(), file.access)
            .map_err(|e| format!("{e}; {correct}"))?;
        grants = grants.with_files(open.with_quota(file.quota_bytes));
    }
    Ok(grants)
}

/// What of the host's own lies in the directory, or holds it.
fn holds_the_hosts_own(dir: &Path, config: &Config) -> Option<&'static str> {
    let dir = real(dir);
    let approvals = Approvals::path(config);
    let secrets = config.secrets.values().filter_map(|secret| match &secret.source {
        SecretSource::File(file) => Some((Some(file.as_path()), "a secret")),
        SecretSource::Environment(_) => None,
    });
    let own = [
        (Some(config.tools_dir.as_path()), "the tools directory"),
        (Some(config.gates_dir.path.as_path()), "the gates directory"),
        (config.limits.sandbox.cache_dir.as_deref(), "the cache of compiled tools"),
        (config.data_dir.as_deref(), "the data directory"),
        (config.file.as_deref(), "the configuration"),
        (Some(approvals.as_path()), "the record of approvals"),
    ];
    let overlaps = |path: &Path| {
        let path = real(path);
        path.starts_with(&dir) || dir.starts_with(&path) || is_above(&dir, &path) || is_above(&path, &dir)
    };
    own.into_iter().chain(secrets).find(|(path, _)| path.is_some_and(overlaps)).map(|(_, what)| what)
}

/// Whether the first is the second or one of the directories that hold it, whatever
/// each is called: a mount, or letters of another case, give one directory two names.
fn is_above(above: &Path, below: &Path) -> bool {
    let Some(above) = identity(above) else { return false };
    below.ancestors().any(|dir| identity(dir) == Some(above))
}

/// What the system knows a file by: its device, and its number there.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let known = std::fs::metadata(path).ok()?;
    Some((known.dev(), known.ino()))
}

/// Where a path leads, links followed, as far as it is there already: what is yet
/// to be made is found where it will be.
fn real(path: &Path) -> PathBuf {
    let up = || match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => real(Path::new(".")).join(name),
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    };
    path.canonicalize().unwrap_or_else(|_| up())
}

fn read_secret(name: &str, config: &Config) -> Result<Secret, String> {
    let correct = format!("correct [secrets.{name}] of {}", config.name());
    let secret = config.secrets.get(name).ok_or_else(|| format!("there is no secret {name}; {correct}"))?;
    let text = match &secret.source {
        SecretSource::Environment(variable) => std::env::var(variable).map_err(|_| {
            format!("the secret {name} is not there: set the variable {variable}, or {correct}")
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

    #[test]
    fn a_directory_is_known_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("host/tools")).unwrap();
        std::fs::create_dir_all(root.join("notes")).unwrap();
        std::os::unix::fs::symlink(root.join("host"), root.join("other")).unwrap();
        let (tools, again) = (root.join("host/tools"), root.join("other/tools"));
        assert!(!again.starts_with(&tools) && !tools.starts_with(&again), "the texts differ");
        assert!(is_above(&again, &tools) && is_above(&again, &tools.join("a.wasm")));
        assert!(is_above(&root.join("other"), &tools) && is_above(&tools, &again.join("yet/to/be/made")));
        assert!(!is_above(&tools, &root.join("other")) && !is_above(&root.join("notes"), &again));
        assert!(!is_above(&root.join("absent"), &root.join("absent/too")));
    }

    #[test]
    fn what_holds_a_secret_is_no_variable_of_a_tool() {
        let text = "[secrets.key]\nenv = \"HELD\"\nto = \"https://a.test\"\nheader = \"x-key\"\n";
        let config = Config::parse(Path::new("tollgate.toml"), text).unwrap();
        let asks: Asks = toml::from_str("environment = [\"LANG\", \"HELD\"]").unwrap();
        let why = open(&ComponentGrants::default(), Some(&asks), "it", &config).err().unwrap();
        assert!(why.contains("the variable HELD, which holds the secret of [secrets.key]"), "{why}");
    }
}
