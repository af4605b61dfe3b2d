//! `[serve.openai]`: how the server treats OpenAI's clients.

use super::ConfigError;
use super::error::Source;
use super::raw::RawOpenAi;
use std::time::Duration;
use toml::Spanned;

/// The range of `hold_ms`: up to an hour.
const HOLD_MS: std::ops::RangeInclusive<i64> = 0..=3_600_000;

/// The server's treatment of OpenAI's clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiConfig {
    /// The treatment of a client's system and developer messages.
    pub system: SystemMessages,
    /// Whether the progress of tools is streamed as reasoning content.
    pub progress: bool,
    /// Whether a stream stays open while its run waits for a person. Otherwise the answer ends and
    /// names the question.
    pub holds: bool,
    /// How long a stream stays open while its run waits for a person.
    pub hold: Duration,
    /// The request header that names the thread, such as `X-OpenWebUI-Chat-Id`.
    pub thread_header: Option<String>,
}

/// The treatment of a client's system and developer messages. They never become the system
/// prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemMessages {
    /// The model reads them as a note that is marked as the client's.
    #[default]
    Note,
    /// The request is refused.
    Refuse,
}

impl Default for OpenAiConfig {
    fn default() -> Self {
        Self {
            system: SystemMessages::default(),
            progress: true,
            holds: true,
            hold: Duration::from_secs(240),
            thread_header: None,
        }
    }
}

pub(super) fn check(source: &Source<'_>, raw: RawOpenAi) -> Result<OpenAiConfig, ConfigError> {
    let is_note = is_first(source, "system", raw.system, ["note", "refuse"])?;
    Ok(OpenAiConfig {
        system: if is_note { SystemMessages::Note } else { SystemMessages::Refuse },
        progress: is_first(source, "progress", raw.progress, ["reasoning", "none"])?,
        holds: is_first(source, "waits", raw.waits, ["hold", "answer"])?,
        hold: check_hold(source, raw.hold_ms)?,
        thread_header: check_header(source, raw.thread_header)?,
    })
}

/// Returns whether a setting has the first of two words, which is its default.
fn is_first(
    source: &Source<'_>,
    setting: &str,
    typed: Option<Spanned<String>>,
    words: [&str; 2],
) -> Result<bool, ConfigError> {
    let Some(typed) = typed else { return Ok(true) };
    let position = words.iter().position(|word| word == typed.get_ref());
    position.map(|position| position == 0).ok_or_else(|| {
        let [first, second] = words;
        let problem = format!("`{setting}` is \"{}\"; write \"{first}\" or \"{second}\"", typed.get_ref());
        source.wrong(typed.span(), problem)
    })
}

fn check_hold(source: &Source<'_>, typed: Option<Spanned<i64>>) -> Result<Duration, ConfigError> {
    let Some(typed) = typed else { return Ok(OpenAiConfig::default().hold) };
    let in_range = Some(*typed.get_ref()).filter(|ms| HOLD_MS.contains(ms));
    let ms = in_range.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        let (least, most) = (HOLD_MS.start(), HOLD_MS.end());
        let problem = format!("`hold_ms` is {}; it must be from {least} to {most}", typed.get_ref());
        source.wrong(typed.span(), problem)
    })?;
    Ok(Duration::from_millis(ms))
}

fn check_header(source: &Source<'_>, typed: Option<Spanned<String>>) -> Result<Option<String>, ConfigError> {
    let Some(typed) = typed else { return Ok(None) };
    let name = typed.get_ref().to_ascii_lowercase();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_allowed) {
        let problem = format!("`{}` is not the name of a header", typed.get_ref());
        return Err(source.wrong(typed.span(), problem));
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn parse(text: &str) -> Result<OpenAiConfig, String> {
        let config = Config::parse(Path::new("tollgate.toml"), &format!("[serve.openai]\n{text}"));
        config.map(|config| config.serve.openai).map_err(|e| e.to_string())
    }

    #[test]
    fn openais_clients_are_configured_with_defaults() {
        assert_eq!(parse("").unwrap(), OpenAiConfig::default());
        let given = parse(
            "system = \"refuse\"\nprogress = \"none\"\nwaits = \"answer\"\nhold_ms = 1500\n\
             thread_header = \"X-OpenWebUI-Chat-Id\"",
        );
        let expected = OpenAiConfig {
            system: SystemMessages::Refuse,
            progress: false,
            holds: false,
            hold: Duration::from_millis(1500),
            thread_header: Some("x-openwebui-chat-id".to_owned()),
        };
        assert_eq!(given.unwrap(), expected);
        for wrong in [
            "system = \"prompt\"",
            "progress = true",
            "waits = \"poll\"",
            "hold_ms = -1",
            "hold_ms = 3600001",
            "thread_header = \"a b\"",
            "model = \"x\"",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
