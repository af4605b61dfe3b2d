//! A client's message before it is parsed: the memory that it then takes, estimated and bounded for a
//! transport that reserves it, and the arguments of its call as they were written.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use tollgate_agent::json::{self, NodesLeft};

/// A message up to this size is parsed without estimating its memory.
const SMALL_BYTES: usize = 4 * 1024;
/// Arguments larger than this are taken out of a message before it is parsed. They are parsed
/// once, when they are validated.
const LARGE_ARGUMENTS_BYTES: usize = 64 * 1024;
/// The message parser keeps a copy of its input while it tries the possible kinds of message.
const COPIES: u64 = 3;
/// The answer to a message for which there is no memory.
pub(super) const NO_MEMORY: &str =
    "overloaded: the host has no memory to read the message now; try again later";

/// A message that may be parsed.
#[derive(Debug)]
pub(super) struct WeighedMessage<'m> {
    /// The message, without large arguments.
    pub(super) message: Cow<'m, [u8]>,
    /// The arguments of a `tools/call`, as they were written.
    pub(super) arguments: Option<RawArguments>,
    /// The memory that parsing takes, in bytes, to be held until the request is done; 0 if the message is
    /// small.
    pub(super) parsed_bytes: u64,
}

/// The reason why a message is not parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TooHeavy {
    /// The message has too many values, regardless of the current load. Holds a description.
    Values(String),
    /// A number outside of the arguments, such as one in a person's form, would lose precision.
    /// Holds a description.
    Number(String),
}

/// Estimates a message's memory.
pub(super) fn weigh(message: &[u8]) -> Result<WeighedMessage<'_>, TooHeavy> {
    let arguments = raw_arguments(message);
    check_numbers(message, arguments.as_ref())?;
    if message.len() <= SMALL_BYTES {
        return Ok(WeighedMessage { message: Cow::Borrowed(message), arguments, parsed_bytes: 0 });
    }
    let message = match arguments.as_ref().and_then(|arguments| without(message, &arguments.0)) {
        Some(lighter) => Cow::Owned(lighter),
        None => Cow::Borrowed(message),
    };
    let measure = json::measure(&message);
    NodesLeft::all().take(&measure).map_err(|why| TooHeavy::Values(why.to_string()))?;
    Ok(WeighedMessage { message, arguments, parsed_bytes: COPIES * measure.parsed_bytes })
}

/// Arguments are checked in the same way when they are validated, and the caller receives that
/// error.
fn check_numbers(message: &[u8], arguments: Option<&RawArguments>) -> Result<(), TooHeavy> {
    #[derive(Deserialize)]
    struct Parts<'m> {
        #[serde(borrow)]
        params: Option<&'m RawValue>,
        #[serde(borrow)]
        result: Option<&'m RawValue>,
    }
    // Input that is not a message is answered later.
    let Ok(Parts { params, result }) = serde_json::from_slice(message) else { return Ok(()) };
    for part in params.into_iter().chain(result).map(RawValue::get) {
        let around = match arguments {
            Some(arguments) => part.split_once(&*arguments.0).unwrap_or((part, "")),
            None => (part, ""),
        };
        for text in [around.0, around.1] {
            json::check_numbers(text).map_err(|why| TooHeavy::Number(why.to_string()))?;
        }
    }
    Ok(())
}

/// Returns the message with empty arguments instead of these, if they are large.
fn without(message: &[u8], arguments: &str) -> Option<Vec<u8>> {
    if arguments.len() <= LARGE_ARGUMENTS_BYTES || !arguments.starts_with('{') {
        return None;
    }
    let at = memchr::memmem::find(message, arguments.as_bytes())?;
    let mut lighter = Vec::with_capacity(message.len() - arguments.len() + 2);
    lighter.extend_from_slice(&message[..at]);
    lighter.extend_from_slice(b"{}");
    lighter.extend_from_slice(&message[at + arguments.len()..]);
    Some(lighter)
}

/// The arguments of a call, exactly as the client wrote them.
#[derive(Debug, Clone)]
pub(super) struct RawArguments(pub(super) Arc<str>);

/// Returns the arguments of a `tools/call` as they were written. The checks apply to what the
/// client sent, and reject repeated keys and numbers that lose precision.
fn raw_arguments(message: &[u8]) -> Option<RawArguments> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        params: Option<Params<'a>>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let request: Request<'_> = serde_json::from_slice(message).ok()?;
    request.params?.arguments.map(|raw| RawArguments(Arc::from(raw.get())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn call(arguments: &str) -> String {
        let of = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":"#;
        format!("{of}{arguments}}}}}")
    }

    #[test]
    fn z3_large_arguments_are_taken_out_and_small_messages_are_left_alone() {
        let large = format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(200_000));
        let message = call(&large);
        let weighed = weigh(message.as_bytes()).unwrap();
        assert_eq!(&*weighed.arguments.unwrap().0, large);
        assert_eq!(&*weighed.message, call("{}").as_bytes());
        let small = call(r#"{"a":1}"#);
        let weighed = weigh(small.as_bytes()).unwrap();
        assert_eq!((&*weighed.message, weighed.parsed_bytes), (small.as_bytes(), 0));
    }

    #[test]
    fn l9_a_number_that_would_become_another_is_refused_wherever_it_stands() {
        let entered =
            r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"sum":9007199254740993.0}}}"#;
        assert!(matches!(weigh(entered.as_bytes()), Err(TooHeavy::Number(_))));
        let called = call(r#"{"sum":9007199254740993.0}"#);
        assert!(weigh(called.as_bytes()).is_ok(), "the call is answered for it");
    }

    #[test]
    fn z3_a_message_of_too_many_values_is_not_read_and_others_are_measured() {
        let message =
            |values: usize| format!(r#"{{"jsonrpc":"2.0","id":1,"params":[{}0]}}"#, "0,".repeat(values));
        let refused = weigh(message(500_000).as_bytes()).unwrap_err();
        assert!(matches!(refused, TooHeavy::Values(why) if why.contains("500000")));
        assert!(weigh(message(100_000).as_bytes()).unwrap().parsed_bytes > 16 << 20);
        let bytes = weigh(message(10_000).as_bytes()).unwrap().parsed_bytes;
        assert!(bytes > 1 << 20 && bytes < 16 << 20, "{bytes} bytes");
    }
}
