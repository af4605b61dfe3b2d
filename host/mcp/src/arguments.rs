//! The arguments of a call as its client wrote them.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// The arguments of a call, exactly as the client wrote them.
#[derive(Debug, Clone)]
pub(super) struct RawArguments(pub(super) Arc<str>);

/// Returns the arguments of a `tools/call` as they were written. The checks apply to what the
/// client sent, and reject repeated keys and numbers that lose precision.
pub(super) fn raw_arguments(message: &[u8]) -> Option<RawArguments> {
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
