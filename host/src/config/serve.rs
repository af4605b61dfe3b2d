//! `[serve]`: the HTTP server's address, names, limits and prices.

use super::ConfigError;
use super::error::Source;
use super::openai::{self, OpenAiConfig};
use super::raw::RawServe;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use toml::Spanned;

/// The default address of the server.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7300);
/// The range of `limits.connections`.
const CONNECTIONS: std::ops::RangeInclusive<i64> = 1..=65_536;
/// The range of `limits.streams_per_key`.
const STREAMS: std::ops::RangeInclusive<i64> = 1..=65_536;

/// The HTTP server's address, names, limits and prices.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Names by which clients reach this machine, in addition to those of the loopback.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the server with a key, such as `https://example.com`.
    pub origins: Vec<String>,
    /// The principals that may answer a question.
    pub decides: DecisionMakers,
    /// The limits of clients.
    pub limits: ServeLimits,
    /// The treatment of OpenAI's clients.
    pub openai: OpenAiConfig,
    /// The prices of models, by model name. Without a price, no cost is shown.
    pub prices: BTreeMap<String, ModelPrice>,
}

/// The principals that may answer a question, among those with the scope for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DecisionMakers {
    /// Anyone with the scope, including the principal whose run asks.
    #[default]
    Anyone,
    /// Only another principal than the one whose run asks.
    Others,
}

/// The limits of the server's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// The maximum number of open connections, including those of event streams.
    pub connections: usize,
    /// The maximum number of open event streams of one principal.
    pub streams_per_key: usize,
}

/// The price of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelPrice {
    /// The price of a million input tokens.
    pub input: f64,
    /// The price of a million output tokens.
    pub output: f64,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { connections: 256, streams_per_key: 32 }
    }
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            hosts: Vec::new(),
            origins: Vec::new(),
            decides: DecisionMakers::default(),
            limits: ServeLimits::default(),
            openai: OpenAiConfig::default(),
            prices: BTreeMap::new(),
        }
    }
}

pub(super) fn check(source: &Source<'_>, raw: RawServe) -> Result<ServeConfig, ConfigError> {
    let usual = ServeConfig::default();
    let number = |name: &str, given: Option<Spanned<i64>>, range: std::ops::RangeInclusive<i64>, usual| {
        let Some(given) = given else { return Ok(usual) };
        let (least, most) = (range.start(), range.end());
        let problem = format!("`{name}` is {}; it must be from {least} to {most}", given.get_ref());
        let fits = range.contains(given.get_ref()).then(|| usize::try_from(*given.get_ref()).ok()).flatten();
        fits.ok_or_else(|| source.wrong(given.span(), problem))
    };
    let limits = ServeLimits {
        connections: number("connections", raw.limits.connections, CONNECTIONS, usual.limits.connections)?,
        streams_per_key: number(
            "streams_per_key",
            raw.limits.streams_per_key,
            STREAMS,
            usual.limits.streams_per_key,
        )?,
    };
    let listen = match raw.listen {
        None => usual.listen,
        Some(typed) => typed.get_ref().parse().map_err(|_| {
            let problem = format!("`{}` is not an address; write \"127.0.0.1:7300\"", typed.get_ref());
            source.wrong(typed.span(), problem)
        })?,
    };
    let hosts = all(source, raw.hosts, check_host)?;
    let origins = all(source, raw.origins, check_origin)?;
    let decides = match raw.decides {
        None => DecisionMakers::default(),
        Some(typed) => match typed.get_ref().as_str() {
            "anyone" => DecisionMakers::Anyone,
            "others" => DecisionMakers::Others,
            other => {
                let problem = format!("`decides` is \"{other}\"; write \"anyone\" or \"others\"");
                return Err(source.wrong(typed.span(), problem));
            }
        },
    };
    let openai = openai::check(source, raw.openai)?;
    let prices = raw.prices.into_iter().map(|(model, raw)| {
        let price = raw.get_ref();
        let fits = |amount: f64| amount.is_finite() && amount >= 0.0;
        if fits(price.input) && fits(price.output) {
            return Ok((model, ModelPrice { input: price.input, output: price.output }));
        }
        Err(source.wrong(raw.span(), "a price is a number of at least 0 per million tokens".to_owned()))
    });
    Ok(ServeConfig {
        listen,
        hosts,
        origins,
        decides,
        limits,
        openai,
        prices: prices.collect::<Result<_, _>>()?,
    })
}

fn all(
    source: &Source<'_>,
    typed: Vec<Spanned<String>>,
    check: fn(&str) -> Result<String, String>,
) -> Result<Vec<String>, ConfigError> {
    let checked = typed.into_iter().map(|one| {
        let span = one.span();
        check(one.get_ref()).map_err(|problem| source.wrong(span, problem))
    });
    checked.collect()
}

fn check_host(typed: &str) -> Result<String, String> {
    let is_name = !typed.is_empty()
        && typed.len() <= 253
        && typed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte));
    if is_name { Ok(typed.to_ascii_lowercase()) } else { Err(format!("`{typed}` is not a host name")) }
}

/// Checks an origin as a browser sends it: a scheme, a host, and a port unless it is the scheme's.
fn check_origin(typed: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("`{typed}` {why}; write an origin such as \"https://example.com\""));
    if typed.contains('*') {
        return wrong("matches many origins");
    }
    let Ok(url) = reqwest::Url::parse(typed) else { return wrong("is not an origin") };
    let origin = url.origin().ascii_serialization();
    match url.scheme() {
        "http" | "https" if origin == typed => Ok(origin),
        _ => wrong("is not an exact origin"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn parse(text: &str) -> Result<ServeConfig, String> {
        let config = Config::parse(Path::new("tollgate.toml"), &format!("[serve]\n{text}"));
        config.map(|config| config.serve).map_err(|e| e.to_string())
    }

    #[test]
    fn the_server_is_configured_with_defaults() {
        assert_eq!(parse("").unwrap(), ServeConfig::default());
        let text = "listen = \"127.0.0.1:80\"\nhosts = [\"Agents.example\"]\norigins = [\"https://a.example:8443\"]\n\
                    decides = \"others\"\nlimits = { connections = 9, streams_per_key = 2 }\n\
                    prices = { \"gpt-5-mini\" = { input = 0.25, output = 2 } }";
        let given = parse(text).unwrap();
        assert_eq!(given.listen.port(), 80);
        assert_eq!(
            (given.hosts, given.origins),
            (vec!["agents.example".to_owned()], vec!["https://a.example:8443".to_owned()])
        );
        assert_eq!(
            (given.decides, given.limits.connections, given.limits.streams_per_key),
            (DecisionMakers::Others, 9, 2)
        );
        assert_eq!(given.prices["gpt-5-mini"], ModelPrice { input: 0.25, output: 2.0 });
    }

    #[test]
    fn settings_that_nothing_enforces_are_refused() {
        for wrong in [
            "listen = \"localhost\"",
            "hosts = [\"a b\"]",
            "origins = [\"*\"]",
            "origins = [\"https://*.example\"]",
            "origins = [\"https://a.example/\"]",
            "origins = [\"null\"]",
            "decides = \"me\"",
            "limits = { connections = 0 }",
            "limits = { requests = 3 }",
            "prices = { m = { input = -1.0, output = 0.0 } }",
            "prices = { m = { input = 1.0 } }",
            "rates = 5",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
