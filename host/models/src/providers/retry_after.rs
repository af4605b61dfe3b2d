//! The wait that a provider asks for.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::HeaderMap;
use std::time::Duration;

/// Longer waits are read as this one; no caller waits that long.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `retry-after-ms`, else `retry-after` in seconds or as a date.
pub(super) fn read(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = text("retry-after-ms")
        .and_then(|ms| seconds(ms, 0.001))
        .or_else(|| seconds(text("retry-after")?, 1.0))
        .or_else(|| until(text("retry-after")?, now))?;
    Some(wait.min(MAX_WAIT))
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let wait = text.parse::<f64>().ok()? * unit;
    if wait.is_nan() || wait < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(wait).unwrap_or(MAX_WAIT))
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let then = DateTimeParser::new().parse_timestamp(date).ok()?;
    // A date in the past asks for no wait.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn wait(name: &'static str, value: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        read(&headers, "2026-03-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn a6_a_wait_is_read_in_each_of_its_forms() {
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "1500"), Some(Duration::from_millis(1_500)));
        assert_eq!(wait("retry-after", "Sun, 01 Mar 2026 12:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wait("retry-after", "Sun, 01 Mar 2026 11:00:00 GMT"), Some(Duration::ZERO));
    }

    #[test]
    fn a6_nonsense_is_no_wait_and_for_ever_is_bounded() {
        for nonsense in ["soon", "-1", "nan", ""] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
        assert_eq!(wait("retry-after", "1e300"), Some(MAX_WAIT));
        assert_eq!(wait("x-other", "1"), None);
    }
}
