//! A gate: what it is, and how it judges.

use crate::call::ProposedCall;
use crate::verdict::Verdict;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Whether a call may run.
///
/// A gate sees the call and what it asked to be shown, and nothing else: its
/// component has no imports. It has no memory either: each question is put to a
/// fresh instance. What it has to know of the run is in the call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no gate",
    label = "does not implement `Gate`",
    note = "implement `tollgate_gate::Gate` for it"
)]
pub trait Gate {
    /// `[a-z][a-z0-9-]{0,63}`. The operator's settings are under this name.
    const ID: &'static str;
    /// What it holds back, for people; 4 KiB.
    const DESCRIPTION: &'static str;
    /// The state keys that it is shown, as `COMPONENT-ID.NAME`; 64 at most.
    const READS: &'static [&'static str] = &[];

    /// What the operator may write for it; [`NoSettings`] where there is nothing.
    /// Put `#[serde(deny_unknown_fields)]` on it, so that a key that was mistyped
    /// is refused and not passed over.
    type Settings: DeserializeOwned;

    /// Says what is wrong with settings that have the right shape. The host refuses
    /// the gate, and shows the operator these words.
    ///
    /// # Errors
    /// The settings cannot be meant.
    fn check(_settings: &Self::Settings) -> Result<(), &'static str> {
        Ok(())
    }

    /// Judges one call. A panic denies it.
    fn judge(call: &ProposedCall, settings: &Self::Settings) -> Verdict;
}

/// The settings of a gate that has none: any key is an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}
