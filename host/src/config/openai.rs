//! `[serve.openai]`: how the server treats OpenAI's clients.

use super::ConfigError;
use super::error::Source;
use super::raw::RawOpenAi;
use std::time::Duration;

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
    let usual = OpenAiConfig::default();
    // The first word of each pair is the default.
    let word = |name: &str, typed: Option<toml::Spanned<String>>, words: [&str; 2]| {
        let Some(typed) = typed else { return Ok(true) };
        let at = words.iter().position(|word| word == typed.get_ref());
        let problem =
            format!("`{name}` is \"{}\"; write \"{}\" or \"{}\"", typed.get_ref(), words[0], words[1]);
        at.map(|at| at == 0).ok_or_else(|| source.wrong(typed.span(), problem))
    };
    let system = match word("system", raw.system, ["note", "refuse"])? {
        true => SystemMessages::Note,
        false => SystemMessages::Refuse,
    };
    let progress = word("progress", raw.progress, ["reasoning", "none"])?;
    let holds = word("waits", raw.waits, ["hold", "answer"])?;
    let hold = match raw.hold_ms {
        None => usual.hold,
        Some(given) => {
            let (least, most) = (HOLD_MS.start(), HOLD_MS.end());
            let problem = format!("`hold_ms` is {}; it must be from {least} to {most}", given.get_ref());
            let fits = Some(*given.get_ref()).filter(|ms| HOLD_MS.contains(ms));
            let ms = fits.and_then(|ms| u64::try_from(ms).ok());
            Duration::from_millis(ms.ok_or_else(|| source.wrong(given.span(), problem))?)
        }
    };
    let thread_header = match raw.thread_header {
        None => None,
        Some(typed) => {
            let name = typed.get_ref().to_ascii_lowercase();
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if !is_name {
                let problem = format!("`{}` is not the name of a header", typed.get_ref());
                return Err(source.wrong(typed.span(), problem));
            }
            Some(name)
        }
    };
    Ok(OpenAiConfig { system, progress, holds, hold, thread_header })
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
