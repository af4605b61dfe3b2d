//! Reads a guest's result after the guest is gone, within the call's time and its share of the
//! host's memory.

use super::code::Entry;
use crate::admission::Slot;
use crate::attempt::CallContext;
use crate::blocking::{LARGE_BYTES, offload};
use crate::grants::Grants;
use crate::instance::Instance;
use crate::limits::Limits;
use crate::meter::Boundary;
use crate::plain;
use crate::termination::Termination;
use crate::v0_1_0::{self, ChargedOutcome, lift_returned, returned_bytes};
use crate::watchdog::CallDeadline;
use std::pin::pin;
use std::sync::Arc;
use wasmtime::Store;

/// The value that a guest returned.
pub(super) enum ReturnedValue {
    Contract(v0_1_0::ContractReturn),
    Plain(plain::PlainReturn),
}

/// The parts of a call that are needed to read its result.
pub(super) struct ResultReader<'a> {
    tool_name: &'a str,
    /// Whether to search the result for secrets.
    looked_into: bool,
    boundary: Boundary,
    crossing_bytes: u64,
    json_nodes: u32,
    slot: &'a Arc<Slot>,
}

impl<'a> ResultReader<'a> {
    pub(super) fn of(
        call: &CallContext<'a>,
        limits: &Limits,
        grants: &Grants,
        store: &Store<Instance>,
        slot: &'a Arc<Slot>,
    ) -> Self {
        Self {
            tool_name: &call.permit.tool().descriptor.name,
            looked_into: grants.http().is_some_and(|http| !http.redactor().is_empty()),
            boundary: store.data().boundary.clone(),
            crossing_bytes: limits.crossing_bytes,
            json_nodes: limits.json_nodes,
            slot,
        }
    }

    /// Reads the result if there is enough room and time.
    pub(super) async fn read(
        self,
        entry: &Entry,
        returned: ReturnedValue,
        term: &CallDeadline<'_>,
    ) -> Result<ChargedOutcome, Termination> {
        let Self { tool_name, looked_into, boundary, crossing_bytes, json_nodes, slot } = self;
        let lifted = match (returned, entry) {
            (ReturnedValue::Contract(returned), _) if returned_bytes(&returned) > LARGE_BYTES => {
                let (name, slot) = (tool_name.to_owned(), Arc::clone(slot));
                let lifting = offload(move || {
                    lift_returned(&name, returned, looked_into, &slot, json_nodes)
                        .map_err(wasmtime::Error::from)
                });
                return Box::pin(async { term.attend(pin!(lifting)).await }).await;
            }
            (ReturnedValue::Contract(returned), _) => {
                lift_returned(tool_name, returned, looked_into, slot, json_nodes)
                    .map_err(wasmtime::Error::from)
            }
            (ReturnedValue::Plain(returned), Entry::Plain(plain)) => {
                let most = (crossing_bytes, json_nodes);
                match plain.lift(tool_name, returned, &boundary, most, slot) {
                    Ok(plain::PendingOutcome { bytes, work }) if bytes > LARGE_BYTES => {
                        return Box::pin(async { term.attend(pin!(offload(work))).await }).await;
                    }
                    Ok(small) => (small.work)(),
                    Err(error) => Err(error),
                }
            }
            (ReturnedValue::Plain(_), Entry::Contract(_)) => {
                Err(wasmtime::Error::msg("a value was returned where the contract has a text"))
            }
        };
        lifted.map_err(|error| Termination::of(&error))
    }
}
