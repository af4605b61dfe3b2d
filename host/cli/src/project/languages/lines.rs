//! The lines of a bundle's sources, for the stacks of errors: the library translates them by a table
//! at the end of the bundle, because the engine reads no source map.

use serde_json::{Value, json};
use std::path::Path;

/// Returns the statement that defines the table, from a source map of version 3. The paths of sources
/// are relative to the one of these directories that they are in; of others only the name remains.
///
/// The table has the sources and, in ascending order, the starts of runs of lines: the line in the
/// bundle, the number of the source, and the line there. Lines are counted from 1.
pub(super) fn table(map: &Value, bundle_dir: &Path, roots: &[&Path]) -> String {
    let sources = map["sources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let sources: Vec<String> = sources.map(|source| name(&bundle_dir.join(source), roots)).collect();
    let runs = runs(map["mappings"].as_str().unwrap_or_default());
    format!("\nglobalThis.tollgateLines = {};\n", json!({"sources": sources, "runs": runs}))
}

fn name(source: &Path, roots: &[&Path]) -> String {
    let path = source.canonicalize().unwrap_or_default();
    let within = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    within.unwrap_or(Path::new(source.file_name().unwrap_or_default())).display().to_string()
}

fn runs(mappings: &str) -> Vec<[i64; 3]> {
    let mut runs: Vec<[i64; 3]> = Vec::new();
    let (mut source, mut line) = (0, 0);
    for (at, segments) in (1..).zip(mappings.split(';')) {
        let mut first = None;
        for segment in segments.split(',') {
            // Each field is the difference from the last segment: column, source, line, ...
            if let [_, source_step, line_step, ..] = numbers(segment)[..] {
                source += source_step;
                line += line_step;
                first.get_or_insert((source, line + 1));
            }
        }
        let Some((source, line)) = first else { continue };
        let continues = runs.last().is_some_and(|run| run[1] == source && run[2] + (at - run[0]) == line);
        if !continues {
            runs.push([at, source, line]);
        }
    }
    runs
}

/// Decodes numbers in base 64 of variable length: five bits per digit, the lowest first; the sixth
/// marks that more follow. The lowest bit of a number is its sign.
fn numbers(segment: &str) -> Vec<i64> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut numbers, mut value, mut shift) = (Vec::new(), 0_i64, 0_u32);
    for digit in segment.chars().filter_map(|letter| DIGITS.find(letter)) {
        value |= (digit as i64 & 31).checked_shl(shift).unwrap_or_default();
        shift += 5;
        if digit & 32 == 0 {
            numbers.push(if value & 1 == 0 { value >> 1 } else { -(value >> 1) });
            (value, shift) = (0, 0);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_lines_are_read_from_a_source_map() {
        assert_eq!(numbers("AAgBC"), [0, 0, 16, 1]);
        assert_eq!(numbers("D"), [-1]);
        // Two lines of the first source, one without a source, and two of the second, apart.
        assert_eq!(runs("AAAA;AACA,IAAI;;ACEA;AAGA"), [[1, 0, 1], [4, 1, 4], [5, 1, 7]]);
    }
}
