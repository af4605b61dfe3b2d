//! Gates, which judge each call before it runs. Every call is put to all gates, and the most
//! severe verdict applies; see `tollgate_agent::gate`.

pub mod directory;

pub use directory::{GatesRefusal, LoadedGate, LoadedGates, RefusedGate};
pub use tollgate_agent::gate::permissions::{DefaultRule, Permissions, RuleSpec};
pub use tollgate_agent::gate::{CallsBefore, GateVerdict, ProposedCall, Verdict};
pub use tollgate_sandbox::{GateComponent, GateLimits};

use crate::error::{HostError, SetupError};
use async_trait::async_trait;
use std::sync::{Arc, PoisonError, RwLock};
use tollgate_agent::gate::permissions::RuleError;
use tollgate_agent::gate::{PERMISSIONS_ID, ToolList};
use tollgate_agent::name;
use tollgate_agent::state::Access;
use tollgate_sandbox::Reservation;

/// A gate. It inspects a call and returns a verdict, at once or after a while; it has no other
/// effect. Dropping the future withdraws the question.
///
/// ```
/// use serde_json::{Value, json};
/// use tokio::sync::{mpsc, oneshot};
/// use tollgate::{Gate, CallRequest, FnTool, Host, ProposedCall, Verdict, async_trait};
///
/// /// Asks the clerk at the other end, which may take a while.
/// struct Desk(mpsc::Sender<(String, oneshot::Sender<bool>)>);
///
/// #[async_trait]
/// impl Gate for Desk {
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
///             _ => Verdict::Deny("The desk is closed.".to_owned()),
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
/// let host = Host::builder().tool(serve).gate(Desk(sender)).build()?;
///
/// let end = host.call(CallRequest::new("serve", &json!({"what": "tea"}))?).await?;
/// assert_eq!(end.result().unwrap().data, "served");
/// let end = host.call(CallRequest::new("serve", &json!({"what": "rum"}))?).await?;
/// assert_eq!(end.last_call.unwrap().end.code().unwrap().as_str(), "denied");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Gate: Send + Sync {
    /// Returns the gate's id: `[a-z][a-z0-9-]{0,63}`, unique among the host's gates.
    fn id(&self) -> &str;

    /// Returns the keys of the state that it reads; `None` if it may read any. A direct call on a
    /// thread with a large state reads only what its tool and the gates need.
    fn reads(&self) -> Option<Access> {
        None
    }

    /// Judges the call. A panic denies the call.
    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict;

    /// Judges like [`judge`](Self::judge), and also returns the reservation of host memory that
    /// a large verdict needs until it is recorded. Only a gate that is a component needs this.
    #[doc(hidden)]
    async fn answer(&self, call: &ProposedCall<'_>) -> (Verdict, Option<Arc<Reservation>>) {
        (self.judge(call).await, None)
    }
}

#[async_trait]
impl Gate for Permissions {
    fn id(&self) -> &str {
        PERMISSIONS_ID
    }

    fn reads(&self) -> Option<Access> {
        Some(Access::default())
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        Permissions::judge(self, call)
    }
}

/// Permission rules that get permanent answers while they are in use. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct LivePermissions(Arc<RwLock<Permissions>>);

impl LivePermissions {
    /// Creates the gate with these rules.
    #[must_use]
    pub fn new(rules: Permissions) -> Self {
        Self(Arc::new(RwLock::new(rules)))
    }

    /// Adds a permanent answer, which counts from the next call on.
    ///
    /// # Errors
    /// The rule is invalid, or there are too many.
    pub fn remember(&self, rule: RuleSpec) -> Result<(), RuleError> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remember(rule)
    }
}

#[async_trait]
impl Gate for LivePermissions {
    fn id(&self) -> &str {
        PERMISSIONS_ID
    }

    fn reads(&self) -> Option<Access> {
        Some(Access::default())
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        self.0.read().unwrap_or_else(PoisonError::into_inner).judge(call)
    }
}

/// All gates of a host. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Gates {
    /// The host's own gate: the tools that each agent lists.
    pub(crate) tool_list: Arc<ToolList>,
    pub(crate) others: Arc<[Arc<dyn Gate>]>,
}

impl Gates {
    /// # Errors
    /// Two gates have one id, or an id does not fit.
    pub(crate) fn new(tool_list: ToolList, others: Vec<Arc<dyn Gate>>) -> Result<Self, HostError> {
        let mut ids: Vec<&str> = others.iter().map(|gate| gate.id()).chain([ToolList::ID]).collect();
        ids.sort_unstable();
        if let Some(id) = ids.iter().find(|id| !name::is_id(id)) {
            return Err(SetupError::InvalidId((*id).to_owned()).into());
        }
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SetupError::DuplicateGate(twice[0].to_owned()).into());
        }
        Ok(Self { tool_list: Arc::new(tool_list), others: others.into() })
    }
}

/// If a component does not reach an answer, the call is denied.
#[async_trait]
impl Gate for GateComponent {
    fn id(&self) -> &str {
        &self.descriptor().id
    }

    fn reads(&self) -> Option<Access> {
        Some(self.descriptor().access())
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        Gate::answer(self, call).await.0
    }

    async fn answer(&self, call: &ProposedCall<'_>) -> (Verdict, Option<Arc<Reservation>>) {
        GateComponent::answer(self, call).await.unwrap_or_else(|fault| {
            let id = &self.descriptor().id;
            let denied = format!(
                "The gate '{id}' failed ({}), so the call may not run: {}",
                fault.code, fault.message
            );
            (Verdict::Deny(denied), None)
        })
    }
}
