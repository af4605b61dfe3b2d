//! `[store]`: how much is kept, and for how long.

use super::ConfigError;
use super::error::Source;
use super::raw::RawStore;
use crate::store::StoreLimits;
use std::time::Duration;
use tollgate_agent::state::change::MAX_THREAD_STATE_BYTES;
use toml::Spanned;

/// How much the store keeps, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The limits of its size.
    pub limits: StoreLimits,
    /// The maximum size of one component's state in one thread, in bytes.
    pub thread_state_bytes: usize,
    /// How long completed runs are kept. `None` if they are kept until they are removed by
    /// hand.
    pub keep: Option<Duration>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { limits: StoreLimits::default(), thread_state_bytes: MAX_THREAD_STATE_BYTES, keep: None }
    }
}

pub(super) fn check(source: &Source<'_>, raw: RawStore) -> Result<StoreConfig, ConfigError> {
    let number = |name: &str, given: Option<Spanned<i64>>, least: i64, usual: u64| {
        let Some(given) = given else { return Ok(usual) };
        match u64::try_from(*given.get_ref()) {
            Ok(value) if *given.get_ref() >= least => Ok(value),
            _ => {
                let problem = format!("`{name}` is {}; it must be at least {least}", given.get_ref());
                Err(source.wrong(given.span(), problem))
            }
        }
    };
    let usual = StoreConfig::default();
    let limits = StoreLimits {
        component_record_bytes: number(
            "component_record_bytes",
            raw.component_record_bytes,
            1,
            usual.limits.component_record_bytes,
        )?,
        thread_record_bytes: number(
            "thread_record_bytes",
            raw.thread_record_bytes,
            1,
            usual.limits.thread_record_bytes,
        )?,
        min_free_bytes: number("min_free_bytes", raw.min_free_bytes, 0, usual.limits.min_free_bytes)?,
    };
    let state = number("thread_state_bytes", raw.thread_state_bytes, 1, usual.thread_state_bytes as u64)?;
    let keep = raw.keep.map(|keep| {
        let period = read_period(keep.get_ref());
        period.map_err(|problem| source.wrong(keep.span(), problem))
    });
    let thread_state_bytes = usize::try_from(state).unwrap_or(usize::MAX);
    Ok(StoreConfig { limits, thread_state_bytes, keep: keep.transpose()? })
}

/// Parses a period such as `30m`, `12h` or `7d`.
///
/// # Errors
/// The text is not a period; the message says why.
pub fn read_period(typed: &str) -> Result<Duration, String> {
    let wrong = || format!("`{typed}` is not a period; write 30m, 12h or 7d");
    let (number, unit) = typed.split_at_checked(typed.len().wrapping_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn periods_are_read() {
        assert_eq!(read_period("30m").unwrap(), Duration::from_secs(1_800));
        assert_eq!(read_period("7d").unwrap(), Duration::from_secs(604_800));
        for wrong in ["", "7", "d", "7y", "-1d", "1.5h", "7\u{e9}"] {
            assert!(read_period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn z8_the_limits_of_the_store_are_configured_with_their_units() {
        let parse = |text: &str| Config::parse(Path::new("tollgate.toml"), text);
        let usual = parse("").unwrap().store;
        assert_eq!(usual.limits.component_record_bytes, 1 << 30);
        assert_eq!(usual.limits.thread_record_bytes, 1 << 30);
        assert_eq!((usual.limits.min_free_bytes, usual.thread_state_bytes), (256 << 20, 64 << 20));
        assert_eq!(usual.keep, None);
        let text = "[store]\ncomponent_record_bytes = 1\nthread_record_bytes = 2\nthread_state_bytes = 3\nmin_free_bytes = 0\nkeep = \"30d\"";
        let given = parse(text).unwrap().store;
        assert_eq!((given.limits.component_record_bytes, given.limits.thread_record_bytes), (1, 2));
        assert_eq!((given.limits.min_free_bytes, given.thread_state_bytes), (0, 3));
        assert_eq!(given.keep, Some(Duration::from_secs(30 * 86_400)));
        for wrong in ["thread_record_bytes = 0", "min_free_bytes = -1", "keep = \"soon\"", "keep_days = 3"] {
            assert!(parse(&format!("[store]\n{wrong}")).is_err(), "{wrong}");
        }
    }
}
