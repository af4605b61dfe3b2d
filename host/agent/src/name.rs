//! Ids and names: their patterns, the reserved ones, and the ones that look alike.

use std::fmt::Display;

/// Returns whether the text fits `[a-z][a-z0-9-]{0,63}`, the pattern of the ids of components,
/// agents and gates.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=64).contains(&bytes.len())
        && bytes[0].is_ascii_lowercase()
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Returns whether the text fits `[a-z][a-z0-9_-]{0,63}`, the pattern of the ids of tools.
#[must_use]
pub fn is_tool_id(text: &str) -> bool {
    is_tool_name(text)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text == text.to_ascii_lowercase()
}

/// Returns whether the text fits `[a-zA-Z0-9_-]{1,64}`, the pattern of tool names that model
/// providers accept.
#[must_use]
pub fn is_tool_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Returns whether the name belongs to one of the host's own tools.
#[must_use]
pub fn is_reserved_name(name: &str) -> bool {
    let folded = fold(name);
    folded == fold(TRANSFER) || folded == fold(SEARCH_HISTORY) || folded.starts_with(&fold("tollgate_"))
}

/// The tool that hands the conversation to another agent.
pub const TRANSFER: &str = "transfer_to_agent";
/// The tool that finds earlier messages.
pub const SEARCH_HISTORY: &str = "search_history";
/// The tool with which composed agents run their parts.
pub const RUN_AGENT: &str = "tollgate_run_agent";
/// The tool that sends a remote agent a message.
pub const MESSAGE_AGENT: &str = "tollgate_message_agent";
/// The tool that waits for a remote agent's answer.
pub const FOLLOW_AGENT: &str = "tollgate_follow_agent";

/// Returns whether the host itself makes the calls of this tool, so that `*` does not include it.
#[must_use]
pub fn runs_agents(tool_name: &str) -> bool {
    matches!(tool_name, RUN_AGENT | MESSAGE_AGENT | FOLLOW_AGENT)
}

/// Returns the prefix of the names of all tools of a server.
#[must_use]
pub fn server_prefix(server: &str) -> String {
    format!("{server}__")
}

/// Returns whether the id belongs to the host itself.
#[must_use]
pub fn is_reserved_id(id: &str) -> bool {
    matches!(id, "host" | "tollgate")
}

/// Folds a name so that names that look alike to a person or a model fold to the same text. Ignores
/// case, and treats `-` and `_`, `0` and `o`, and `1`, `l` and `i` as equal.
#[must_use]
pub fn fold(name: &str) -> String {
    name.chars()
        .map(|c| match c.to_ascii_lowercase() {
            '-' => '_',
            '0' => 'o',
            '1' | 'l' => 'i',
            other => other,
        })
        .collect()
}

/// Returns up to three known names that are nearest to an unknown one, best first.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let folded = fold(&wanted.chars().take(64).collect::<String>());
    let mut scored: Vec<(usize, usize, &str)> = known
        .map(|name| (distance(&folded, &fold(name)), name.len().abs_diff(wanted.len()), name))
        .filter(|(distance, _, name)| *distance <= 2.max(name.len() / 3))
        .collect();
    // Of names that contain the wanted one, the shortest is the nearest.
    scored.sort_unstable();
    scored.into_iter().take(3).map(|(_, _, name)| name).collect()
}

/// Returns ``; did you mean `X`?`` for the nearest known name; `None` if none is near.
#[must_use]
pub fn did_you_mean<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(wanted, known).first().map(|near| suggestion(format_args!("`{near}`")))
}

/// Returns the end of a sentence about something unknown that suggests what was meant.
#[must_use]
pub fn suggestion(meant: impl Display) -> String {
    format!("; did you mean {meant}?")
}

/// Returns the Levenshtein distance; a name that contains the other counts as near.
fn distance(a: &str, b: &str) -> usize {
    if a.len() >= 3 && b.len() >= 3 && (a.contains(b) || b.contains(a)) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_names_and_ids_fit_their_patterns() {
        for good in ["a", "word-count", "a1", &"a".repeat(64)] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["", "A", "1a", "-a", "a_b", "ä", &"a".repeat(65)] {
            assert!(!is_id(bad), "{bad}");
        }
        assert!(is_tool_name("Read_file-2"));
        for bad in ["", "read file", "read.file", "re\u{430}d", &"a".repeat(65)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }

    #[test]
    fn r6_ids_of_tools_may_contain_underscores() {
        for good in ["a", "word_count", "word-count", "a_1-", &"a".repeat(64)] {
            assert!(is_tool_id(good), "{good}");
        }
        for bad in ["", "A", "aB", "1a", "_a", "-a", "a b", "ä", &"a".repeat(65)] {
            assert!(!is_tool_id(bad), "{bad}");
        }
    }

    #[test]
    fn r2_look_alikes_fold_to_one_text() {
        assert_eq!(fold("Read-File"), fold("read_file"));
        assert_eq!(fold("t0ol"), fold("tool"));
        assert_eq!(fold("l1st"), fold("IIst"));
        assert_ne!(fold("read"), fold("write"));
    }

    #[test]
    fn r5_reserved_names_are_reserved_in_every_spelling() {
        for name in ["transfer_to_agent", "Transfer-To-Agent", "search_hist0ry", "tollgate_x", "To1lgate-x"] {
            assert!(is_reserved_name(name), "{name}");
        }
        assert!(!is_reserved_name("tollgates"));
        assert!(is_reserved_id("host") && is_reserved_id("tollgate") && !is_reserved_id("notes"));
    }

    #[test]
    fn l7_the_nearest_names_are_offered() {
        let known = ["word_count", "json_query", "notes_add"];
        assert_eq!(nearest("wordcount", known.into_iter()), ["word_count"]);
        assert_eq!(nearest("notes", known.into_iter()), ["notes_add"]);
        let limits = ["timeout_ceiling_ms", "timeout_ms"];
        assert_eq!(nearest("timeout", limits.into_iter()), ["timeout_ms", "timeout_ceiling_ms"]);
        assert!(nearest("send_mail", known.into_iter()).is_empty());
        let hint = did_you_mean("wordcount", known.into_iter());
        assert_eq!(hint.as_deref(), Some("; did you mean `word_count`?"));
        assert_eq!(did_you_mean("send_mail", known.into_iter()), None);
    }
}
