//! Request bodies on their way to a server, with exactly the announced length and within the
//! limit.
//!
//! A body of known length is streamed as the guest writes it, so the host holds little of it. Any
//! other body is collected first. That way the announced length is always correct, and servers
//! that reject chunked requests work too.

use super::body::charge_collected;
use crate::admission::Charge;
use crate::admission::Slot;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wasmtime_wasi_http::{Error, WasiBody};

/// The body of one request, with its exact length.
pub(super) struct Upload {
    body: WasiBody,
    left: u64,
    is_over: bool,
    owes: UploadClock,
    /// The charges for collected data.
    _charges: Vec<Charge>,
}

/// When the server received everything that the guest wrote; `None` while waiting for the guest.
#[derive(Clone, Default)]
pub(super) struct UploadClock(Arc<Mutex<Option<Instant>>>);

impl Upload {
    /// Accepts a body of at most `limit` bytes.
    ///
    /// # Errors
    /// Fails if the body is longer, is announced as longer, or was not finished by the guest.
    pub(super) async fn new(
        headers: &HeaderMap,
        body: WasiBody,
        limit: u64,
        slot: Option<&Arc<Slot>>,
    ) -> Result<Self, Error> {
        let mut charges = Vec::new();
        let (body, length) = match announced(headers)? {
            Some(length) if length > limit => return Err(Error::HttpRequestBodySize(Some(limit))),
            Some(length) => (body, length),
            None => {
                let bytes = collect(body, limit, slot, &mut charges).await?;
                let length = bytes.len() as u64;
                (Full::new(bytes).map_err(Error::from).boxed_unsync(), length)
            }
        };
        let owes = UploadClock::default();
        if length == 0 {
            owes.set(true);
        }
        Ok(Self { body, left: length, is_over: length == 0, owes, _charges: charges })
    }

    pub(super) fn clock(&self) -> UploadClock {
        self.owes.clone()
    }
}

impl UploadClock {
    fn set(&self, server: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = server.then(Instant::now);
    }

    /// Waits until the server has had all written data for this long without reacting.
    pub(super) async fn for_longer_than(&self, patience: Duration) {
        loop {
            let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let since = since.unwrap_or_else(Instant::now);
            if since.elapsed() >= patience {
                return;
            }
            tokio::time::sleep_until((since + patience).into()).await;
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.owes.set(frame.is_ready());
        let data = match std::task::ready!(frame) {
            Some(Ok(frame)) => frame.into_data().ok(),
            Some(Err(why)) => {
                self.is_over = true;
                return Poll::Ready(Some(Err(why)));
            }
            None => None,
        };
        let Some(data) = data else {
            // The end, or trailers, which are not sent.
            self.is_over = true;
            return Poll::Ready((self.left > 0).then_some(Err(Error::HttpRequestBodySize(None))));
        };
        match self.left.checked_sub(data.len() as u64) {
            Some(left) => {
                self.left = left;
                self.is_over = left == 0;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            None => {
                self.is_over = true;
                Poll::Ready(Some(Err(Error::HttpRequestBodySize(None))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Returns the length that the guest announced. The engine accepts at most one length and only
/// digits; this parser is equally strict.
fn announced(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(None) };
    let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match (digits.and_then(|digits| digits.parse().ok()), lengths.next()) {
        (Some(length), None) => Ok(Some(length)),
        _ => Err(Error::HttpRequestLengthRequired),
    }
}

/// Collects a body, charging memory before reading.
async fn collect(
    mut body: WasiBody,
    limit: u64,
    slot: Option<&Arc<Slot>>,
    charges: &mut Vec<Charge>,
) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { break };
        if (bytes.len() + data.len()) as u64 > limit {
            return Err(Error::HttpRequestBodySize(Some(limit)));
        }
        charge_collected(bytes.len() + data.len(), slot, charges)?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}
