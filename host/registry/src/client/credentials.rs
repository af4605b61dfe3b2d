//! Credentials, as `docker login` stores them, and the header in which they are sent.

use crate::error::{Code, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tollgate_agent::text::clean;

/// The longest file of credentials, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest answer of a credential helper, in bytes.
const MAX_HELPER_BYTES: u64 = 64 << 10;
/// The longest that a credential helper may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(5);

/// The most that is shown of the words of a credential helper that failed, in bytes.
const MAX_HELPER_WORDS_BYTES: usize = 200;
/// The words of a credential helper that has nothing for a host.
const NO_CREDENTIALS: &str = "credentials not found";

/// The location of stored credentials.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Docker's `config.json`; `None` for anonymous access only.
    pub docker_config: Option<PathBuf>,
}

/// Stored credentials of a user.
#[derive(Clone)]
pub enum Login {
    /// A user and its password or access token.
    Password {
        /// The user.
        user: String,
        /// The password.
        secret: String,
    },
    /// A token that is exchanged for access tokens, as `docker login` stores after a login in a
    /// browser.
    IdentityToken(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    #[serde(rename = "identitytoken")]
    identity_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

impl Credentials {
    /// The credentials for a registry; `None` if there are none.
    pub(super) async fn of(&self, host: &str) -> Result<Option<Login>> {
        let Some(file) = &self.docker_config else { return Ok(None) };
        let Some(config) = read(file).await? else { return Ok(None) };
        let key = if host == "docker.io" { "https://index.docker.io/v1/" } else { host };
        if let Some(helper) = config.cred_helpers.get(key).or(config.creds_store.as_ref()) {
            return ask_helper(helper, key).await;
        }
        let same = |name: &str| {
            let name = name.trim_start_matches("https://").trim_start_matches("http://");
            name.split('/').next() == Some(host)
        };
        let found = config.auths.get(key);
        let found = found.or_else(|| config.auths.iter().find(|(name, _)| same(name)).map(|(_, auth)| auth));
        let Some(found) = found else { return Ok(None) };
        if let Some(token) = found.identity_token.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Login::IdentityToken(token.clone())));
        }
        let Some(auth) = found.auth.as_deref().filter(|auth| !auth.is_empty()) else { return Ok(None) };
        let invalid = || {
            let what = format!("the credentials for {host} in {} cannot be read", file.display());
            Error::new(Code::InvalidCredentials, format!("{what}; log in again: docker login {host}"))
        };
        let text = String::from_utf8(STANDARD.decode(auth).map_err(|_| invalid())?).map_err(|_| invalid())?;
        let (user, secret) = text.split_once(':').ok_or_else(invalid)?;
        Ok(Some(Login::Password { user: user.to_owned(), secret: secret.to_owned() }))
    }
}

async fn read(file: &Path) -> Result<Option<DockerConfig>> {
    let invalid = |why: &dyn fmt::Display| {
        let what = format!("the credentials in {} cannot be read: {why}; correct that file", file.display());
        Error::new(Code::InvalidCredentials, what)
    };
    let open = match tokio::fs::File::open(file).await {
        Ok(open) => open,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(invalid(&e)),
    };
    if !open.metadata().await.is_ok_and(|found| found.is_file()) {
        return Err(invalid(&"it is not a regular file"));
    }
    let mut text = Vec::new();
    open.take(MAX_FILE_BYTES).read_to_end(&mut text).await.map_err(|e| invalid(&e))?;
    // The message of the parser could show a part of a secret.
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|_| invalid(&"it is not valid JSON of Docker's configuration"))
}

/// Runs a credential helper of Docker.
async fn ask_helper(name: &str, host: &str) -> Result<Option<Login>> {
    let shown = clean(name, 60);
    let failed = |why: &str| {
        let what = format!("the credential helper docker-credential-{shown} {why}");
        Error::new(Code::InvalidCredentials, format!("{what}; log in again: docker login {host}"))
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return Err(failed("does not have a valid name"));
    }
    let answer = async {
        let mut helper = tokio::process::Command::new(format!("docker-credential-{name}"))
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = helper.stdin.take() {
            // A helper that does not read its input answers nevertheless, or fails.
            let _ = input.write_all(host.as_bytes()).await;
        }
        let mut answer = Vec::new();
        if let Some(output) = helper.stdout.take() {
            output.take(MAX_HELPER_BYTES).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>((helper.wait().await?, answer))
    };
    let answer =
        tokio::time::timeout(HELPER_TIMEOUT, answer).await.map_err(|_| failed("took more than 5 s"))?;
    let (status, answer) = answer.map_err(|e| match e.kind() {
        ErrorKind::NotFound => failed("is not installed"),
        _ => failed(&format!("cannot be run: {e}")),
    })?;
    if !status.success() {
        // Helpers report their errors on standard output.
        let words = clean(String::from_utf8_lossy(&answer).trim(), MAX_HELPER_WORDS_BYTES);
        return match words.as_str() {
            "" => Err(failed("failed and said nothing")),
            words if words.contains(NO_CREDENTIALS) => Ok(None),
            words => Err(failed(&format!("failed: {words}"))),
        };
    }
    let HelperAnswer { username, secret } =
        serde_json::from_slice(&answer).map_err(|_| failed("did not answer with credentials"))?;
    Ok(Some(match username.as_str() {
        "<token>" => Login::IdentityToken(secret),
        _ => Login::Password { user: username, secret },
    }))
}

/// The value of the header `Authorization`.
#[derive(Clone)]
pub(super) struct Authorization {
    header: HeaderValue,
    is_login: bool,
}

impl Authorization {
    pub(super) fn new(text: &str, is_login: bool) -> Result<Self> {
        let invalid = |_| Error::new(Code::InvalidToken, "the token cannot be sent: it is not plain text");
        let mut header = HeaderValue::from_str(text).map_err(invalid)?;
        header.set_sensitive(true);
        Ok(Self { header, is_login })
    }

    pub(super) fn basic(user: &str, secret: &str) -> Result<Self> {
        Self::new(&format!("Basic {}", STANDARD.encode(format!("{user}:{secret}"))), true)
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns whether it was obtained with the user's credentials.
    pub(super) fn is_login(&self) -> bool {
        self.is_login
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization")
    }
}
