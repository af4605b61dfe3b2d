//! HTTP, as far as it was granted: from a request that left the guest to a response
//! that it may read.
//!
//! There is one way out. A request is read once into a [`Target`] and compared with
//! the grant; its name is resolved once, and the connection goes to an address of
//! that one answer ([`connect`]); secrets join it on the way ([`Secret`]); what comes
//! back is bounded and blanked ([`body`]). No redirect is followed: the guest asks
//! again, and is judged again. Whatever is refused is an error that the guest reads.

mod body;
mod connect;
mod exchange;
mod headers;
mod own;
mod resolve;
mod secret;
mod upload;

pub use headers::MAX_HEAD_BYTES;
pub(crate) use headers::is_forbidden;
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
use exchange::Exchange;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate_agent::egress::{Egress, Target};
use tollgate_agent::redact::Redactor;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

/// How long a guest that does not say waits for each step of a request.
const STEP_TIME: Duration = Duration::from_secs(30);

/// What a component may ask of the network, with the secrets that join its
/// requests. Made once; its calls share it.
pub struct HttpGrant {
    egress: Egress,
    secrets: Vec<Secret>,
    blanks: Redactor,
    connector: Connector,
}

impl HttpGrant {
    /// Lets these requests through, under TLS that trusts the usual authorities.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self { egress, secrets: Vec::new(), blanks: Redactor::default(), connector: Connector::default() }
    }

    /// Joins these secrets to requests that go where they are bound to.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.blanks = Redactor::of(secrets.iter().map(Secret::expose));
        self.secrets = secrets;
        self
    }

    /// Has names resolved by something else than the system.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.connector.resolver = resolver;
        self
    }

    /// What was granted.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// What is taken out of all that the component's calls read and say.
    pub(crate) fn blanks(&self) -> &Redactor {
        &self.blanks
    }
}

/// The way out of one call.
pub(crate) struct Outbound {
    pub(crate) grant: Arc<HttpGrant>,
    pub(crate) boundary: Boundary,
    pub(crate) deadline: Deadline,
    pub(crate) body_bytes: u64,
    pub(crate) requests: u32,
    pub(crate) ledger: Arc<Ledger>,
    /// To what the host's memory for exchanges is charged.
    turn: Option<Arc<Slot>>,
    /// The places of exchanges that are in progress.
    places: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

/// How long each step of one request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl Outbound {
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
            turn: None,
            places: Arc::new(Semaphore::new(limits.http_exchanges.max(1) as usize)),
            lookups: Arc::new(Semaphore::new(resolve::MAX_LOOKUPS_OF_CALL)),
        }
    }

    /// Charges the host's memory for exchanges to this turn.
    pub(crate) fn charging(mut self, turn: &Arc<Slot>) -> Self {
        self.turn = Some(Arc::clone(turn));
        self
    }

    /// The one decision: what a request that is let through needs, or why it is not.
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
            patience: Patience::of(options, self.deadline.left()),
            target,
            request,
            turn: self.turn.clone(),
            places: Arc::clone(&self.places),
            lookups: Arc::clone(&self.lookups),
        })
    }
}

impl Patience {
    /// What the guest asks for, or the usual, but never longer than its call.
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

/// Refuses the request of a call that was granted none, and notes it.
pub(crate) fn refuse(request: &http::Request<WasiBody>, ledger: &Ledger) -> Error {
    readable_target(request, ledger).map_or_else(|unreadable| unreadable, |target| denied(&target, ledger))
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

fn target_of(request: &http::Request<WasiBody>) -> Result<Target, tollgate_agent::egress::Unfit> {
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
