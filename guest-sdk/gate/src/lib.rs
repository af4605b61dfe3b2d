#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

mod call;
mod gate;
mod verdict;
#[cfg(target_family = "wasm")]
mod wasm;

pub use call::{AgentView, CallsBefore, ProposedCall, RunIdentity};
pub use gate::{Gate, NoSettings};
pub use verdict::{ResumeMode, SuppliedResult, Ticket, Verdict};

pub use serde::{self, Deserialize};
pub use serde_json::{self, Value, json};

/// Support for the macro's expansion. Not part of the public interface.
#[doc(hidden)]
pub mod private {
    #[cfg(target_family = "wasm")]
    pub use crate::wasm::{Exported, bindings};

    /// Checks at compile time that a type is a gate.
    pub const fn is_gate<G: crate::Gate>() {}
}

/// Exports a [`Gate`] from this crate. Off wasm it only checks that the type is a gate.
///
/// ```
/// use tollgate_gate::{Gate, NoSettings, ProposedCall, Verdict, export_gate};
///
/// struct Nothing;
///
/// impl Gate for Nothing {
///     const ID: &str = "nothing";
///     const DESCRIPTION: &str = "Lets nothing through.";
///     type Settings = NoSettings;
///
///     fn judge(_: &ProposedCall, _: &NoSettings) -> Verdict {
///         Verdict::deny("nothing may run")
///     }
/// }
///
/// export_gate!(Nothing);
/// ```
#[macro_export]
macro_rules! export_gate {
    ($gate:ident) => {
        const _: () = $crate::private::is_gate::<$gate>();

        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code)]
        const _: () = {
            type Guest = $crate::private::Exported<$gate>;
    $crate::private::bindings::export!(Guest with_types_in $crate::private::bindings);
        };
    };
}
