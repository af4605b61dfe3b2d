//! jq filters over JSON, by the `jaq` interpreter.

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data};
use jaq_json::{Val, read};
use serde::Serialize;
use tollgate_sdk::{CodedError, Value, serde_json};

/// The longest filter, in bytes. A long chain of operators recurses as deeply as
/// nested brackets.
pub const MAX_FILTER_BYTES: usize = 2048;

/// The maximum nesting of brackets, in filters and in JSON. The host accepts results
/// of 128 levels, and reading deeper ones would overflow the guest's stack.
pub const MAX_DEPTH: usize = 100;

/// The maximum size of all results as JSON, in bytes. The host cuts a longer result at
/// this size, and a list that breaks off in the middle is worse than a shorter one.
const MAX_RESULT_BYTES: usize = 256 << 10;

/// Up to 2 to the power of 53, a float represents every integer exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

type Data = data::JustLut<Val>;
type Filter = jaq_core::Filter<Data>;

/// The results of a filter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The values in order.
    pub results: Vec<Value>,
    /// Whether the filter has more results.
    pub truncated: bool,
}

/// Runs `filter` on each JSON value of `json`, which may contain several, and keeps
/// the first `max_results` within 256 KiB.
///
/// Fails with `bad_filter`, `bad_json` or `filter_failed`, with `result_too_large` if
/// a single result exceeds 256 KiB, and with `not_json` if the host does not accept a
/// result as JSON (because of bytes that are not text, say, or too deep a list).
pub fn query(filter: &str, json: &str, max_results: usize) -> Result<Answer, CodedError> {
    let filter = compile(filter)?;
    if depth(json) > MAX_DEPTH {
        let message = format!("The input nests deeper than {MAX_DEPTH} levels.");
        return Err(CodedError::new("bad_json", message));
    }
    let mut results = Vec::new();
    let mut bytes = 0;
    for input in read::parse_many(json.as_bytes()) {
        let input =
            input.map_err(|error| CodedError::new("bad_json", format!("The input is not JSON: {error}.")))?;
        let context = Ctx::<Data>::new(&filter.lut, Vars::new([]));
        for output in filter.id.run((context, input)) {
            let output = output.map_err(failure)?;
            let json = output.to_string();
            if json.len() > MAX_RESULT_BYTES {
                return Err(too_large(json.len()));
            }
            bytes += json.len();
            if results.len() == max_results || bytes > MAX_RESULT_BYTES {
                return Ok(Answer { results, truncated: true });
            }
            results.push(as_json(&json)?);
        }
    }
    Ok(Answer { results, truncated: false })
}

/// Parses the filter with the standard library that it may use.
fn compile(filter: &str) -> Result<Filter, CodedError> {
    if filter.len() > MAX_FILTER_BYTES {
        return Err(bad_filter(format!("it has more than {MAX_FILTER_BYTES} bytes")));
    }
    if depth(filter) > MAX_DEPTH {
        return Err(bad_filter(format!("it nests deeper than {MAX_DEPTH} levels")));
    }
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let program = File { code: filter, path: () };
    let modules = Loader::new(definitions)
        .load(&arena, program)
        .map_err(|errors| bad_filter(first_load_error(filter, errors)))?;
    Compiler::default()
        .with_funs(functions)
        .compile(modules)
        .map_err(|errors| bad_filter(first_undefined(errors)))
}

/// Returns the nesting depth of a text's brackets, ignoring string literals.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' | b'(' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn first_load_error(filter: &str, errors: jaq_core::load::Errors<&str, ()>) -> String {
    use jaq_core::load::Error;
    let described = errors.into_iter().find_map(|(_, error)| match error {
        Error::Io(errors) => {
            errors.first().map(|(path, error)| format!("`{path}` cannot be loaded: {error}"))
        }
        Error::Lex(errors) => errors.first().map(|(expected, at)| expectation(filter, expected.as_str(), at)),
        Error::Parse(errors) => {
            errors.first().map(|(expected, at)| expectation(filter, expected.as_str(), at))
        }
    });
    described.unwrap_or_else(|| "it cannot be parsed".to_owned())
}

/// `at` is the rest of the filter or the token at the parser's position.
fn expectation(filter: &str, expected: &str, at: &str) -> String {
    let offset = (at.as_ptr() as usize).checked_sub(filter.as_ptr() as usize);
    match offset.and_then(|offset| filter.get(..offset)) {
        Some(before) if !at.is_empty() => {
            format!("expected {expected} at character {}", before.chars().count() + 1)
        }
        _ => format!("expected {expected} at its end"),
    }
}

fn first_undefined(errors: jaq_core::compile::Errors<&str, ()>) -> String {
    use jaq_core::compile::Undefined;
    let first = errors.into_iter().flat_map(|(_, errors)| errors).next();
    match first {
        Some((name, Undefined::Filter(arity))) => format!("there is no filter `{name}/{arity}`"),
        Some((name, undefined)) => format!("there is no {} `{name}`", undefined.as_str()),
        None => "it cannot be compiled".to_owned(),
    }
}

fn bad_filter(reason: String) -> CodedError {
    CodedError::new("bad_filter", format!("The filter cannot be used: {reason}."))
}

fn failure(exception: jaq_core::Exn<'_, Val>) -> CodedError {
    let reason = match exception.get_err() {
        Ok(error) => error.to_string(),
        Err(exception) => match exception.get_halt() {
            Ok(_) => "it called `halt`, which has no meaning here".to_owned(),
            Err(_) => "it broke out of a label that encloses nothing".to_owned(),
        },
    };
    CodedError::new("filter_failed", format!("The filter failed: {}.", cut(&reason)))
}

fn too_large(bytes: usize) -> CodedError {
    let message =
        format!("A result has {bytes} bytes; the limit is {MAX_RESULT_BYTES}. Select less of the input.");
    CodedError::new("result_too_large", message)
}

/// Shortens a text for a message: an error may quote the whole input.
fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(500)]
}

fn as_json(text: &str) -> Result<Value, CodedError> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(with_whole_numbers(value)),
        Err(_) => Err(CodedError::new("not_json", format!("A result is not JSON: `{}`.", cut(text)))),
    }
}

/// Writes 28.0 as 28, like jq.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < MAX_EXACT => {
                Value::from(float as i64)
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(members) => {
            let whole = |(name, value)| (name, with_whole_numbers(value));
            members.into_iter().map(whole).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::json;

    const PEOPLE: &str = r#"{"people":[{"name":"Ada","age":36},{"name":"Bob","age":20}]}"#;

    fn results(filter: &str, json: &str) -> Vec<Value> {
        query(filter, json, 100).unwrap().results
    }

    fn code(filter: &str, json: &str) -> &'static str {
        query(filter, json, 100).unwrap_err().code()
    }

    fn reason(filter: &str) -> String {
        query(filter, "null", 1).unwrap_err().message().to_owned()
    }

    #[test]
    fn filters_select_and_transform() {
        assert_eq!(results(".people[] | select(.age > 30) | .name", PEOPLE), [json!("Ada")]);
        assert_eq!(results("[.people[].age] | add / length", PEOPLE), [json!(28)]);
        let by_name = results(".people | map({(.name): .age}) | add", PEOPLE);
        assert_eq!(by_name, [json!({"Ada": 36, "Bob": 20})]);
    }

    #[test]
    fn the_standard_library_is_there() {
        assert_eq!(results("to_entries | length", r#"{"a":1,"b":2}"#), [json!(2)]);
        assert_eq!(results(r#"test("^a+$")"#, r#""aaa""#), [json!(true)]);
        assert_eq!(results("group_by(.k) | map(length)", r#"[{"k":1},{"k":2},{"k":1}]"#), [json!([2, 1])]);
        assert_eq!(results("@base64", r#""jq""#), [json!("anE=")]);
        assert_eq!(results("fromdateiso8601", r#""1970-01-01T00:01:00Z""#), [json!(60)]);
    }

    #[test]
    fn several_values_are_several_inputs() {
        assert_eq!(results(".a", "{\"a\":1}\n{\"a\":2}\n"), [json!(1), json!(2)]);
        assert!(results(".", "").is_empty());
    }

    #[test]
    fn endless_filters_are_cut() {
        let answer = query("repeat(1)", "null", 3).unwrap();
        assert_eq!((answer.results.len(), answer.truncated), (3, true));
        let exactly = query(".[]", "[1,2,3]", 3).unwrap();
        assert!(!exactly.truncated);
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(results(".", "12345678901234567890")[0].to_string(), "12345678901234567890");
        assert_eq!(results(".", "0.1"), [json!(0.1)]);
    }

    #[test]
    fn bad_filters_say_where() {
        for (filter, says) in [
            ("[1, 2", "closing bracket at its end"),
            (".a ]", "at character 4"),
            (".a | ", "at its end"),
            ("lenght", "no filter `lenght/0`"),
            ("$x", "no variable `$x`"),
            ("include \"x\"; .", "module loading not supported"),
        ] {
            assert_eq!(code(filter, "1"), "bad_filter");
            assert!(reason(filter).contains(says), "{}", reason(filter));
        }
        assert_eq!(code(&" ".repeat(MAX_FILTER_BYTES + 1), "1"), "bad_filter");
    }

    #[test]
    fn bad_input_and_failing_filters_are_told_apart() {
        assert_eq!(code(".", "{\"a\":"), "bad_json");
        assert_eq!(code(".a", "[1]"), "filter_failed");
        assert_eq!(code("error(\"no\")", "1"), "filter_failed");
        assert_eq!(code("halt", "1"), "filter_failed");
    }

    #[test]
    fn depth_is_bounded_in_input_filter_and_results() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(query(".", &nested(MAX_DEPTH), 1).is_ok());
        assert!(query(&nested(MAX_DEPTH), "1", 1).is_ok());
        assert_eq!(code(".", &nested(MAX_DEPTH + 1)), "bad_json");
        assert_eq!(code(&nested(MAX_DEPTH + 1), "1"), "bad_filter");
        assert_eq!(code("reduce range(200) as $i (1; [.])", "1"), "not_json");
        assert_eq!(depth(r#"{"a[[[\"[[": [1]}"#), 2);
    }

    #[test]
    fn results_are_bounded_in_bytes() {
        let filter = |bytes: usize| format!("[range(3)] | map(\"x\" * {bytes}) | .[]");
        let answer = query(&filter(100_000), "1", 100).unwrap();
        assert_eq!((answer.results.len(), answer.truncated), (2, true));
        assert_eq!(code(&filter(MAX_RESULT_BYTES), "1"), "result_too_large");
    }

    #[test]
    fn a_long_error_is_cut() {
        let long = format!("\"{}\"", "ä".repeat(5000));
        let refusal = query(".a", &long, 1).unwrap_err();
        assert!(refusal.message().len() < 600);
    }
}
