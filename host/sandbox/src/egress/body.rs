//! Response bodies on their way to the guest: limited, timed and redacted; and the memory of bodies that
//! are collected.

use crate::admission::{Charge, Slot};
use crate::meter::Boundary;
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tollgate_agent::redact::RedactingStream;
use wasmtime_wasi_http::Error;

/// A body of which at most this many bytes are passed on. Trailers are dropped.
pub(super) struct LimitedBody {
    incoming: Incoming,
    redactor: RedactingStream,
    boundary: Boundary,
    left: u64,
    limit: u64,
    patience: Duration,
    silence: Pin<Box<Sleep>>,
    is_over: bool,
    /// The exchange's slot and memory, released at the end of the body.
    held: Option<(OwnedSemaphorePermit, Option<Charge>)>,
}

impl LimitedBody {
    /// Creates a body of at most `limit` bytes, with at most `patience` between two chunks.
    pub(super) fn new(
        incoming: Incoming,
        redactor: RedactingStream,
        boundary: Boundary,
        limit: u64,
        patience: Duration,
    ) -> Self {
        let silence = Box::pin(tokio::time::sleep(patience));
        Self {
            incoming,
            redactor,
            boundary,
            left: limit,
            limit,
            patience,
            silence,
            is_over: false,
            held: None,
        }
    }

    /// Holds the exchange's slot and memory until the body ends.
    pub(super) fn holding(mut self, place: OwnedSemaphorePermit, charge: Option<Charge>) -> Self {
        self.held = Some((place, charge));
        self
    }

    fn end(&mut self) {
        self.is_over = true;
        self.held = None;
    }

    /// Counts a chunk and returns the part that may be passed on.
    fn pass(&mut self, piece: &[u8]) -> Result<Bytes, Error> {
        let bytes = piece.len() as u64;
        self.left = self
            .left
            .checked_sub(bytes)
            .filter(|_| self.boundary.enter(bytes).is_ok())
            .ok_or(Error::HttpResponseBodySize(Some(self.limit)))?;
        Ok(self.redactor.push(piece).into())
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        while !self.is_over {
            let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
                ready!(self.silence.as_mut().poll(context));
                self.end();
                return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
            };
            let passed = match frame {
                None => {
                    self.end();
                    Ok(self.redactor.finish().into())
                }
                Some(Err(why)) => Err(broken(&why)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => self.pass(&piece),
                    Err(_trailers) => continue,
                },
            };
            let next = Instant::now() + self.patience;
            self.silence.as_mut().reset(next);
            match passed {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(why) => {
                    self.end();
                    return Poll::Ready(Some(Err(why)));
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

/// Translates a hyper connection error to `wasi:http`.
pub(super) fn broken(why: &hyper::Error) -> Error {
    if let Some(Error::HttpRequestBodySize(size)) = why.source().and_then(|why| why.downcast_ref()) {
        Error::HttpRequestBodySize(*size)
    } else if why.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if why.is_incomplete_message() || why.is_closed() {
        Error::HttpResponseIncomplete
    } else if why.is_timeout() {
        Error::HttpResponseTimeout
    } else {
        Error::HttpProtocolError
    }
}

/// The unit in bytes in which a collected body's memory is charged.
const CHARGED_BYTES: usize = 256 * 1024;

/// Charges the memory of this many collected bytes, in units of [`CHARGED_BYTES`].
pub(super) fn charge_collected(
    bytes: usize,
    slot: Option<&Arc<Slot>>,
    charges: &mut Vec<Charge>,
) -> Result<(), Error> {
    while bytes > charges.len() * CHARGED_BYTES {
        match charged(slot, CHARGED_BYTES as u64)? {
            Some(charge) => charges.push(charge),
            None => break,
        }
    }
    Ok(())
}

/// Charges an exchange's memory if the call has a slot to charge.
pub(super) fn charged(slot: Option<&Arc<Slot>>, bytes: u64) -> Result<Option<Charge>, Error> {
    let charge = slot.map(|slot| slot.charge_while(bytes)).transpose();
    charge.map_err(|_| Error::ConnectionLimitReached)
}
