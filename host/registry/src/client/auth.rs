//! Authentication: the challenge of a registry, and the token that answers it.

use super::credentials::{Authorization, Login};
use super::transport::{Reply, Request, Session};
use crate::error::{Code, Error, Result};
use reqwest::header::WWW_AUTHENTICATE;
use serde::Deserialize;
use tollgate_agent::text::clean;
use url::Url;

/// The longest reply of a token server, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// The longest challenge that is read, in bytes.
const MAX_CHALLENGE_BYTES: usize = 4 << 10;

/// The client id that token servers receive.
const CLIENT: &str = "tollgate";

/// Registries whose token server is a host of another name.
const TOKEN_HOSTS: [(&str, &str); 2] =
    [("docker.io", "auth.docker.io"), ("registry.gitlab.com", "gitlab.com")];

/// A challenge of a registry.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Session {
    /// Answers the challenge of a registry.
    pub(super) async fn authorize(&mut self, reply: &Reply) -> Result<Authorization> {
        let host = self.reference.host.clone();
        let headers = reply.headers.get_all(WWW_AUTHENTICATE);
        let mut challenges = headers.iter().filter_map(|value| value.to_str().ok()).filter_map(parse);
        let challenge = challenges.next().ok_or_else(|| {
            let message = format!("{host} asks for authentication in a way that is not supported");
            Error::new(Code::UnsupportedChallenge, message)
        })?;
        let login = self.client.settings.credentials.of(&host).await?;
        match challenge {
            Challenge::Basic => match login {
                Some(Login::Password { user, secret }) => Authorization::basic(&user, &secret),
                Some(Login::IdentityToken(_)) => {
                    let message = format!(
                        "{host} wants a password, and the stored credentials are an identity token; log in with a \
                         password: docker login {host}"
                    );
                    Err(Error::new(Code::InvalidCredentials, message))
                }
                None => Err(self.failure(reply)),
            },
            Challenge::Bearer { realm, service } => {
                let realm = self.realm(&realm)?;
                self.token(realm, service.as_deref(), login).await
            }
        }
    }

    /// Returns the URL of the token server that the registry names, if it may be used.
    fn realm(&self, realm: &str) -> Result<Url> {
        let invalid = |why: &str| {
            let (host, shown) = (&self.reference.host, clean(realm, 200));
            Error::new(
                Code::UnsupportedChallenge,
                format!("{host} names the token server {shown}, which {why}"),
            )
        };
        let url = Url::parse(realm).map_err(|_| invalid("is not a valid URL"))?;
        if url.scheme() != "https" && !self.allows_http(&url) {
            return Err(invalid("is not protected by https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("holds credentials"));
        }
        Ok(url)
    }

    /// Requests a token. The credentials are sent only to a server that may have them; without
    /// them, the token is that of an anonymous user.
    async fn token(
        &mut self,
        mut realm: Url,
        service: Option<&str>,
        login: Option<Login>,
    ) -> Result<Authorization> {
        // The scope is ours: a registry cannot ask for a token for something else.
        let actions = if self.writes { "pull,push" } else { "pull" };
        let scope = format!("repository:{}:{actions}", self.reference.repository);
        let token_host = clean(&with_port(&realm), 200);
        let withheld = login.is_some() && !self.may_have_login(&realm);
        let sent = login.filter(|_| !withheld);
        let has_sent = sent.is_some();
        let mut fields = vec![("scope", scope.as_str())];
        fields.extend(service.map(|service| ("service", service)));
        let reply = match &sent {
            Some(Login::IdentityToken(token)) => {
                fields.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", CLIENT),
                    ("refresh_token", token.as_str()),
                ]);
                self.send_with_deadline(&Request::form(realm, &fields, MAX_TOKEN_BYTES), None).await?
            }
            other => {
                let authorization = match other {
                    Some(Login::Password { user, secret }) => Some(Authorization::basic(user, secret)?),
                    _ => None,
                };
                realm.query_pairs_mut().extend_pairs(fields);
                let request = Request::get(realm, "application/json", MAX_TOKEN_BYTES);
                self.send_with_deadline(&request, authorization).await?
            }
        };
        if !reply.status.is_success() {
            if withheld && matches!(reply.status.as_u16(), 400 | 401 | 403) {
                let host = &self.reference.host;
                let message = format!(
                    "{host} wants the credentials sent to {token_host}, which was not done; if that is its token \
                     server, write in the configuration: [registries.\"{host}\"] token_host = \"{token_host}\""
                );
                return Err(Error::new(Code::CredentialsWithheld, message));
            }
            return Err(self.failure(&reply));
        }
        let invalid = || Error::new(Code::InvalidToken, format!("{token_host} did not send a token"));
        let Token { token, access_token } = serde_json::from_slice(&reply.body).map_err(|_| invalid())?;
        let token = token.or(access_token).filter(|token| !token.is_empty()).ok_or_else(invalid)?;
        Authorization::new(&format!("Bearer {token}"), has_sent)
    }

    /// Returns whether the credentials of the registry may be sent to this token server: it is the
    /// registry's own host, a known pair, or configured.
    fn may_have_login(&self, realm: &Url) -> bool {
        let (host, with_port) = (realm.host_str().unwrap_or_default(), with_port(realm));
        let registry = self.reference.host.as_str();
        let is_own = with_port == registry;
        let is_pair = realm.port().is_none() && TOKEN_HOSTS.contains(&(registry, host));
        let settings = self.client.settings.hosts.get(registry);
        let named = settings.and_then(|settings| settings.token_host.as_deref());
        is_own || is_pair || named == Some(with_port.as_str())
    }
}

/// Returns the host of a URL, with its port if that is not the usual one.
fn with_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Reads a challenge; `None` if it is of a kind that is not supported.
fn parse(text: &str) -> Option<Challenge> {
    if text.len() > MAX_CHALLENGE_BYTES {
        return None;
    }
    let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest.trim_start();
    while let Some((name, value)) = rest.split_once('=') {
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find(',').unwrap_or(value.len())),
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        let text = "Bearer realm=\"https://a.test/token\",service=\"a.test\",scope=\"repository:x:pull\"";
        assert_eq!(parse(text), bearer("https://a.test/token", Some("a.test")));
        assert_eq!(parse("bearer realm=https://a.test/token"), bearer("https://a.test/token", None));
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
        for text in ["", "Negotiate", "Bearer", "Bearer realm=\"open", "Bearer service=\"x\""] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("Bearer realm=\"{}\"", "x".repeat(5_000))), None);
    }
}
