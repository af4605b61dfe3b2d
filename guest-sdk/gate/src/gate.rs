//! The trait that gates implement.

use crate::call::ProposedCall;
use crate::verdict::Verdict;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Decides whether a call may run.
///
/// A gate sees only the call and the state keys that it asks for: its component has no
/// imports. It has no memory either: the host judges each call in a fresh instance. The
/// call carries everything that a gate needs to know about the run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a gate",
    label = "does not implement `Gate`",
    note = "implement `tollgate_gate::Gate` for it"
)]
pub trait Gate {
    /// The gate's id, `[a-z][a-z0-9-]{0,63}`. The operator configures the gate under
    /// this name.
    const ID: &'static str;
    /// The calls that it holds back, described for people; at most 4 KiB.
    const DESCRIPTION: &'static str;
    /// The state keys that it reads, as `COMPONENT-ID.NAME`; at most 64.
    const READS: &'static [&'static str] = &[];

    /// The operator's settings; [`NoSettings`] if there are none. Put
    /// `#[serde(deny_unknown_fields)]` on the type so that a mistyped key is rejected
    /// instead of ignored.
    type Settings: DeserializeOwned;

    /// Checks settings that have the right shape. On an error, the host rejects the
    /// gate and shows the message to the operator.
    ///
    /// # Errors
    /// Returns a message if the settings make no sense.
    fn check(_settings: &Self::Settings) -> Result<(), &'static str> {
        Ok(())
    }

    /// Judges one call. A panic denies it.
    fn judge(call: &ProposedCall, settings: &Self::Settings) -> Verdict;
}

/// The settings of a gate without any: every key is an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}
