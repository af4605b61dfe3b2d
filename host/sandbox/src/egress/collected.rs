//! The memory of bodies that are collected.

use crate::admission::{Charge, Slot};
use std::sync::Arc;
use wasmtime_wasi_http::Error;

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
