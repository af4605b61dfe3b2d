//! Text, amounts and times for people. Text of models, tools and components is cleaned of
//! characters that control a display or change the direction of writing, and is never markup.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use tollgate_agent::text::{escaped_json, shown};

pub(super) use tollgate_agent::text::one_line;

/// Returns text for the body of an element. Quotes stay as they are, since JSON consists of them.
pub(super) fn body(text: &str) -> Markup {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c => escaped.push(c),
        }
    }
    PreEscaped(escaped)
}

/// Returns a cleaned text of several lines, cut to `max_bytes`.
pub(super) fn lines(text: &str, max_bytes: usize) -> Markup {
    body(&shown(text, max_bytes))
}

/// Returns a cleaned text on one line, cut to `max_bytes`.
pub(super) fn line(text: &str, max_bytes: usize) -> Markup {
    body(&one_line(text, max_bytes))
}

/// Returns text exactly: characters that are not visible are written as JSON escapes.
pub(super) fn exact(text: &str) -> Markup {
    let is_visible = shown(text, usize::MAX) == text;
    if is_visible { body(text) } else { body(&escaped_json(Value::from(text).to_string())) }
}

/// Returns a value as indented JSON whose characters are all visible.
pub(super) fn json(value: &Value) -> String {
    escaped_json(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Returns a value as JSON on one line, cut to `max_bytes`.
pub(super) fn short_json(value: &Value, max_bytes: usize) -> Markup {
    line(&escaped_json(value.to_string()), max_bytes)
}

/// Formats a span in milliseconds: `12 ms`, `1.24 s`, `3 min 12 s`, `2 h 14 min`, `3 d 4 h`.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{}.{:02} s", seconds, ms % 1_000 / 10),
        10..60 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, smaller: &str) -> String {
    if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {smaller}") }
}

/// Formats a span in microseconds.
pub(super) fn micros(us: u64) -> String {
    if us < 1_000 { format!("{us} µs") } else { span(us / 1_000) }
}

/// Formats a number with a thin space between groups of three digits.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a large amount in short: `950`, `12.4 k`, `3.1 M`.
pub(super) fn amount(count: u64) -> String {
    for (size, letter) in [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")] {
        if count >= size {
            return format!("{} {letter}", decimal(count, size));
        }
    }
    count.to_string()
}

/// Formats bytes: `512 B`, `64 KiB`, `1.5 MiB`.
pub(super) fn bytes(count: u64) -> String {
    for (size, unit) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if count >= size {
            return format!("{} {unit}", decimal(count, size));
        }
    }
    format!("{count} B")
}

/// Formats with one decimal below a hundred, unless it would be a zero.
fn decimal(amount: u64, size: u64) -> String {
    let tenths = amount / size * 10 + amount % size * 10 / size;
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if whole < 100 && tenth > 0 => format!("{whole}.{tenth}"),
        (whole, _) => whole.to_string(),
    }
}

/// Formats a count with its noun: `1 call`, `2 calls`.
pub(super) fn count(number_of: u64, noun: &str) -> String {
    let s = if number_of == 1 { "" } else { "s" };
    format!("{} {noun}{s}", number(number_of))
}

/// Returns the time of a moment in milliseconds since the Unix epoch: the time of day today, with
/// the date on other days.
pub(super) fn moment(at_ms: u64, now_ms: u64) -> Markup {
    let (at, now) = (zoned(at_ms), zoned(now_ms));
    let shown = if at.date() == now.date() {
        at.strftime("%H:%M:%S").to_string()
    } else if at.year() == now.year() {
        at.strftime("%b %-d, %H:%M").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M").to_string()
    };
    html! { time datetime=(at.timestamp()) { (shown) } }
}

/// Returns how long ago a moment was: `12 s ago`, `3 min ago`.
pub(super) fn ago(at_ms: u64, now_ms: u64) -> Markup {
    let seconds = now_ms.saturating_sub(at_ms) / 1_000;
    let words = match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    };
    html! { time datetime=(zoned(at_ms).timestamp()) { (words) } }
}

/// Returns a moment in the time zone of the server.
pub(super) fn zoned(at_ms: u64) -> Zoned {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.unwrap_or(Timestamp::MAX).to_zoned(TimeZone::system())
}

/// Returns the name of the server's time zone.
pub(super) fn zone() -> String {
    let now = Timestamp::now().to_zoned(TimeZone::system());
    let named = now.time_zone().iana_name().map(str::to_owned);
    named.unwrap_or_else(|| now.strftime("UTC%:z").to_string())
}

/// Returns a link target with an encoded query; empty values are left out.
pub(crate) fn href(path: &str, query: &[(&str, &str)]) -> String {
    let mut encoded = url::form_urlencoded::Serializer::new(String::new());
    encoded.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
    match encoded.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Returns the [short id](tollgate::store::short_id) of a run, on one line, with an ellipsis in place of the
/// rest.
pub(super) fn short_id(run_id: &str) -> String {
    let short = tollgate::store::short_id(run_id);
    let line = one_line(short, 64);
    if short.len() < run_id.len() { format!("…{line}") } else { line }
}

/// Formats a cost in the operator's currency.
pub(super) fn money(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 { "< 0.01".to_owned() } else { format!("{cost:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            [span(12), span(1_240), span(12_300), span(192_000)],
            ["12 ms", "1.24 s", "12.3 s", "3 min 12 s"]
        );
        assert_eq!([span(8_040_000), span(273_600_000)], ["2 h 14 min", "3 d 4 h"]);
        assert_eq!([amount(950), amount(12_400), amount(3_100_000)], ["950", "12.4 k", "3.1 M"]);
        assert_eq!([bytes(512), bytes(65_536), bytes(1_572_864)], ["512 B", "64 KiB", "1.5 MiB"]);
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn text_of_others_is_text_only() {
        let hostile = "<img src=x onerror=alert(1)>\u{202e}\u{1b}[31m & \"q\"";
        assert_eq!(lines(hostile, 1_000).into_string(), "&lt;img src=x onerror=alert(1)&gt;[31m &amp; \"q\"");
        assert!(json(&serde_json::json!("\u{202e}")).contains("\\u202e"));
    }

    #[test]
    fn only_ids_of_the_host_are_shortened() {
        assert_eq!(short_id("01890000-0000-7000-8000-0123456789ab"), "…456789ab");
        for id in ["r1", "0189000000007000800001234567890a", "a-run-of-a-client"] {
            assert_eq!(short_id(id), id);
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            href("/console/thread", &[("id", "ada/a&b=c"), ("x", "")]),
            "/console/thread?id=ada%2Fa%26b%3Dc"
        );
    }
}
