//! One request and its response, over a dedicated connection.

use super::body::{LimitedBody, broken, charge_collected, charged};
use super::upload::Upload;
use super::{HttpGrant, StepTimeouts, headers};
use crate::admission::{Charge, Slot};
use crate::descriptors::Descriptors;
use crate::ledger::Ledger;
use crate::meter::Boundary;
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tollgate_agent::egress::Target;
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, WasiBody};

/// The maximum number of response header fields; a response with more is rejected.
const MAX_HEADERS: usize = 128;

/// The host memory for an exchange: the connection's buffers, and body chunks in transit.
const EXCHANGE_BYTES: u64 = 256 * 1024;

/// An allowed request, with everything needed to send it.
pub(crate) struct Exchange {
    pub(super) grant: Arc<HttpGrant>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) boundary: Boundary,
    pub(super) body_bytes: u64,
    pub(super) timeouts: StepTimeouts,
    pub(super) target: Target,
    pub(super) request: http::Request<WasiBody>,
    /// The call's slot, to which memory is charged.
    pub(super) slot: Option<Arc<Slot>>,
    /// The slots for the call's exchanges. One is held until the response body has been read or
    /// dropped.
    pub(super) exchange_slots: Arc<Semaphore>,
    /// The slots for the call's lookups.
    pub(super) lookups: Arc<Semaphore>,
}

/// The connection task that supplies the response body.
type Connection = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl Exchange {
    /// Waits for a slot, sends the request and waits for the response head.
    pub(crate) async fn run(self) -> Result<(http::Response<WasiBody>, Connection), Error> {
        let Self { grant, ledger, boundary, body_bytes, timeouts, .. } = self;
        let Self { target, request, slot, exchange_slots, lookups, .. } = self;
        let exchange_slot =
            exchange_slots.acquire_owned().await.map_err(|_| Error::ConnectionLimitReached)?;
        let charge = charged(slot.as_ref(), EXCHANGE_BYTES)?;
        let (head, body) = request.into_parts();
        let upload = Upload::new(&head.headers, body, body_bytes, slot.as_ref()).await?;
        let owes = upload.clock();
        let (to_send, has_secret) = headers::to_send(&grant, &target, head.headers)?;
        let mut sent = http::Request::new(upload);
        *sent.method_mut() = head.method;
        *sent.uri_mut() = target.path_and_query().parse().map_err(|_| Error::HttpRequestUriInvalid)?;
        *sent.headers_mut() = to_send;

        let Some(descriptor) = Descriptors::of_process().for_call(1) else {
            ledger
                .deny(&format!("http {target}: all calls together have too many files and connections open"));
            return Err(Error::ConnectionLimitReached);
        };
        let stream = grant.connect(&target, &ledger, timeouts.connect, lookups).await?;
        let mut http = http1::Builder::new();
        http.max_headers(MAX_HEADERS).max_buf_size(headers::MAX_HEAD_BYTES);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        let connection: AbortOnDropJoinHandle<_> = spawn(connection);
        let response = tokio::select! {
            response = sender.send_request(sent) => response.map_err(|e| broken(&e))?,
            // A guest may write the body slowly; the server must not be slow to read it.
            () = owes.for_longer_than(timeouts.first_byte) => return Err(Error::ConnectionReadTimeout),
        };

        let secret = has_secret.then_some((&target, &*ledger));
        let response = headers::check_response(response, &grant, &boundary, secret)?;
        if headers::announced(&response).is_some_and(|bytes| bytes > body_bytes) {
            return Err(Error::HttpResponseBodySize(Some(body_bytes)));
        }
        let stream = grant.redactor().stream();
        let response = response.map(|incoming| {
            LimitedBody::new(incoming, stream, boundary, body_bytes, timeouts.between_bytes)
                .holding(exchange_slot, charge)
                .boxed_unsync()
        });
        let connection = async move {
            let _descriptor = descriptor;
            connection.await.map_err(|e| broken(&e))
        };
        Ok((response, Box::new(connection)))
    }
}

/// A response with the part of its body that was asked for.
pub(crate) struct HttpAnswer {
    pub(crate) head: http::response::Parts,
    pub(crate) body: BytesMut,
    /// Whether the body is longer.
    pub(crate) truncated: bool,
    /// The memory of the body.
    pub(crate) charges: Vec<Charge>,
}

impl Exchange {
    /// Sends the request and reads at most `most_bytes` of the response's body.
    pub(crate) async fn collect(
        self,
        most_bytes: u64,
        slot: Option<&Arc<Slot>>,
    ) -> Result<HttpAnswer, Error> {
        // The connection lives until the body has been read.
        let (response, _connection) = self.run().await?;
        let (head, mut incoming) = response.into_parts();
        let mut answer = HttpAnswer { head, body: BytesMut::new(), truncated: false, charges: Vec::new() };
        while let Some(frame) = incoming.frame().await {
            let Ok(data) = frame?.into_data() else { break };
            let room = usize::try_from(most_bytes).unwrap_or(usize::MAX) - answer.body.len();
            answer.truncated = data.len() > room;
            let data = &data[..data.len().min(room)];
            charge_collected(answer.body.len() + data.len(), slot, &mut answer.charges)?;
            answer.body.extend_from_slice(data);
            if answer.truncated {
                break;
            }
        }
        Ok(answer)
    }
}
