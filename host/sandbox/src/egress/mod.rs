//! HTTP egress within a grant: from a guest's request to a response that the guest may read.
//!
//! There is one way out. A request is parsed once into a [`Target`] and compared with the grant.
//! Its name is resolved once, and the connection goes to one of the resulting addresses
//! ([`connect`]). Secrets are added after that ([`Secret`]), and the response is limited and
//! redacted ([`body`]). Redirects are not followed: the guest sends a new request, which is
//! judged again. A refused request is an error that the guest can read.

mod body;
mod connect;
mod exchange;
mod headers;
mod local_address;
mod resolve;
mod secret;
mod upload;

pub(crate) use exchange::{Exchange, HttpAnswer};
pub use headers::MAX_HEAD_BYTES;
pub(crate) use headers::{frames, is_forbidden};
pub use resolve::{
    LOOKUP_TIME, MAX_LOOKUPS, MAX_LOOKUPS_OF_CALL, MAX_LOOKUPS_OF_COMPONENT, Resolve, SystemResolver,
};
pub use secret::Secret;

use crate::admission::Slot;
use crate::deadline::Deadline;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::meter::Boundary;
use connect::Connector;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate_agent::egress::{Egress, Target};
use tollgate_agent::redact::Redactor;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

/// The default timeout of each step of a request.
const STEP_TIME: Duration = Duration::from_secs(30);

/// The requests that a component may send, and the secrets added to them. Created once and shared
/// by its calls.
pub struct HttpGrant {
    egress: Egress,
    secrets: Vec<Secret>,
    redactor: Redactor,
    connector: Connector,
}

impl HttpGrant {
    /// Creates a grant of these requests, with TLS that trusts the certificate authorities that are
    /// compiled in.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self { egress, secrets: Vec::new(), redactor: Redactor::default(), connector: Connector::default() }
    }

    /// Adds these secrets to requests for their hosts.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.redactor = Redactor::of(secrets.iter().map(Secret::expose));
        self.secrets = secrets;
        self
    }

    /// Sets a resolver to use instead of the system's.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.connector.resolver = resolver;
        self
    }

    /// Returns the allowed requests.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns the redactor for everything that the component's calls read and output.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

/// The HTTP egress of one call.
pub(crate) struct CallEgress {
    pub(crate) grant: Arc<HttpGrant>,
    pub(crate) boundary: Boundary,
    pub(crate) deadline: Deadline,
    pub(crate) body_bytes: u64,
    pub(crate) requests: u32,
    pub(crate) ledger: Arc<Ledger>,
    /// The call's slot, to which memory for exchanges is charged.
    slot: Option<Arc<Slot>>,
    /// The slots for exchanges in progress.
    exchange_slots: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

/// The timeouts of one request's steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepTimeouts {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl CallEgress {
    pub(crate) fn new(
        grant: Arc<HttpGrant>,
        limits: &Limits,
        boundary: Boundary,
        deadline: Deadline,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            grant,
            boundary,
            deadline,
            body_bytes: limits.http_body_bytes,
            requests: limits.http_requests,
            ledger,
            slot: None,
            exchange_slots: Arc::new(Semaphore::new(limits.http_exchanges.max(1) as usize)),
            lookups: Arc::new(Semaphore::new(resolve::MAX_LOOKUPS_OF_CALL)),
        }
    }

    /// Charges memory for exchanges to this slot.
    pub(crate) fn charging(mut self, slot: &Arc<Slot>) -> Self {
        self.slot = Some(Arc::clone(slot));
        self
    }

    /// Decides whether a request is allowed. Returns an exchange to run, or the reason for the
    /// refusal.
    pub(crate) fn admit(
        &self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Exchange, Error> {
        let target = readable_target(&request, &self.ledger)?;
        if !self.grant.egress.permits(&target) {
            return Err(denied(&target, &self.ledger));
        }
        if !self.ledger.send(self.requests) {
            self.ledger.deny(&format!("http {target}: the limit is http_requests = {}", self.requests));
            return Err(Error::ConnectionLimitReached);
        }
        Ok(Exchange {
            grant: Arc::clone(&self.grant),
            ledger: Arc::clone(&self.ledger),
            boundary: self.boundary.clone(),
            body_bytes: self.body_bytes,
            timeouts: StepTimeouts::of(options, self.deadline.left()),
            target,
            request,
            slot: self.slot.clone(),
            exchange_slots: Arc::clone(&self.exchange_slots),
            lookups: Arc::clone(&self.lookups),
        })
    }
}

impl StepTimeouts {
    /// Uses the guest's timeouts or the defaults, capped by the call's remaining time.
    fn of(options: Option<RequestOptions>, left: Duration) -> Self {
        let options = options.unwrap_or_default();
        let clamp = |asked: Option<Duration>| asked.unwrap_or(STEP_TIME).min(left);
        Self {
            connect: clamp(options.connect_timeout),
            first_byte: clamp(options.first_byte_timeout),
            between_bytes: clamp(options.between_bytes_timeout),
        }
    }
}

/// Refuses a request of a call without an HTTP grant, and records it.
pub(crate) fn refuse(request: &http::Request<WasiBody>, ledger: &Ledger) -> Error {
    match readable_target(request, ledger) {
        Ok(target) => denied(&target, ledger),
        Err(invalid) => invalid,
    }
}

fn denied(target: &Target, ledger: &Ledger) -> Error {
    ledger.deny(&format!("http {target}"));
    Error::HttpRequestDenied
}

fn readable_target(request: &http::Request<WasiBody>, ledger: &Ledger) -> Result<Target, Error> {
    target_of(request).map_err(|why| {
        ledger.deny(&format!("http request refused: {why}"));
        Error::HttpRequestUriInvalid
    })
}

fn target_of(request: &http::Request<WasiBody>) -> Result<Target, tollgate_agent::egress::ParseError> {
    let uri = request.uri();
    Target::parse(
        request.method().as_str(),
        uri.scheme_str().unwrap_or_default(),
        uri.authority().map_or("", http::uri::Authority::as_str),
        uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str),
    )
}

#[cfg(test)]
mod tests;
