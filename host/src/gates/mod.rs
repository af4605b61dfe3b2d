//! Gates of any origin.
//!
//! A gate in Rust implements [`Gate`] and answers synchronously. A gate that takes time, such
//! as a component, implements [`AskedGate`]. Every call is put to all gates, and the most
//! severe verdict applies; see `tollgate_agent::gate`.

mod component;
pub mod directory;

pub use directory::{GatesRefused, LoadedGate, LoadedGates, RefusedGate};
pub use tollgate_agent::gate::{CallsBefore, Gate, GateVerdict, ProposedCall, Verdict};
pub use tollgate_sandbox::{GateComponent, GateLimits};

use crate::HostError;
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::name;
use tollgate_sandbox::Reservation;

/// A gate that takes time to answer. It only inspects the call and returns a verdict.
///
/// Dropping the future withdraws the question.
///
/// ```
/// use serde_json::Value;
/// use tokio::sync::{mpsc, oneshot};
/// use tollgate::{AskedGate, CallRequest, FnTool, Host, ProposedCall, Verdict, async_trait};
///
/// /// Asks the clerk at the other end, which may take a while.
/// struct Desk(mpsc::Sender<(String, oneshot::Sender<bool>)>);
///
/// #[async_trait]
/// impl AskedGate for Desk {
///     fn id(&self) -> &str {
///         "desk"
///     }
///
///     async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
///         let (answer, answered) = oneshot::channel();
///         let asked = self.0.send((call.arguments.text().to_owned(), answer)).await;
///         match (asked, answered.await) {
///             (Ok(()), Ok(true)) => Verdict::Allow,
///             (Ok(()), Ok(false)) => Verdict::Deny("The desk said no.".to_owned()),
///             _ => Verdict::Deny("Nobody is at the desk.".to_owned()),
///         }
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, mut asked) = mpsc::channel::<(String, oneshot::Sender<bool>)>(1);
/// tokio::spawn(async move {
///     while let Some((arguments, answer)) = asked.recv().await {
///         let _ = answer.send(arguments.contains("tea"));
///     }
/// });
/// let serve = FnTool::new("serve", "serve", "Serves it.", |_: Value, _| async { "served" });
/// let host = Host::builder().tool(serve).asked_gate(Desk(sender)).build()?;
///
/// let end = host.call(CallRequest::new("serve", r#"{"what": "tea"}"#)).await?;
/// assert_eq!(end.result().unwrap().data, "served");
/// let end = host.call(CallRequest::new("serve", r#"{"what": "rum"}"#)).await?;
/// assert_eq!(end.last_call.unwrap().end.code().unwrap().as_str(), "denied");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait AskedGate: Send + Sync {
    /// Returns the gate's id: `[a-z][a-z0-9-]{0,63}`, unique among the host's gates.
    fn id(&self) -> &str;

    /// Judges the call. A panic denies the call.
    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict;

    /// Judges like [`judge`](Self::judge), and also returns the reservation of host memory that
    /// a large verdict needs until it is recorded. Only a gate that is a component needs this.
    #[doc(hidden)]
    async fn answer(&self, call: &ProposedCall<'_>) -> (Verdict, Option<Arc<Reservation>>) {
        (self.judge(call).await, None)
    }
}

/// All gates of a host. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Gates {
    pub(crate) native: Arc<[Arc<dyn Gate>]>,
    pub(crate) asked: Arc<[Arc<dyn AskedGate>]>,
}

impl Gates {
    /// # Errors
    /// Two gates have one id, or an id does not fit.
    pub(crate) fn new(native: Vec<Arc<dyn Gate>>, asked: Vec<Arc<dyn AskedGate>>) -> Result<Self, HostError> {
        let mut ids: Vec<&str> =
            native.iter().map(|gate| gate.id()).chain(asked.iter().map(|gate| gate.id())).collect();
        ids.sort_unstable();
        if let Some(id) = ids.iter().find(|id| !name::is_id(id)) {
            return Err(HostError::Setup(format!("the id \"{id}\" does not fit [a-z][a-z0-9-]{{0,63}}")));
        }
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(HostError::Setup(format!("two gates have the id \"{}\"", twice[0])));
        }
        Ok(Self { native: native.into(), asked: asked.into() })
    }
}
