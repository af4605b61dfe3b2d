//! The price of what a guest passes to the host. It is paid before the host copies or keeps anything.
//!
//! Calls of host functions and the bytes that they carry cost fuel as instructions do, so a guest
//! is cut at the same place whether it computes or calls the host.

use crate::instance::GuestStore;
use crate::meter::Stop;
use wasmtime::component::WasmStr;

/// The fuel cost of a host call, without the bytes that it carries: roughly its actual cost.
const CALL_FUEL: u64 = 1_000;

/// Consumes the fuel of a host call that carries this many bytes, at one unit per byte.
pub(crate) fn charge(store: &mut GuestStore<'_>, bytes: usize) -> wasmtime::Result<()> {
    match store.get_fuel()?.checked_sub(CALL_FUEL + bytes as u64) {
        Some(left) => store.set_fuel(left),
        None => {
            store.set_fuel(0)?;
            Err(Stop::Fuel.into())
        }
    }
}

/// Charges a host call for bytes that leave the guest, and counts them.
pub(crate) fn leave(store: &mut GuestStore<'_>, bytes: usize) -> wasmtime::Result<()> {
    if bytes as u64 > store.data().crossing_bytes() {
        return Err(Stop::Crossing.into());
    }
    charge(store, bytes)?;
    Ok(store.data().boundary.leave(bytes as u64)?)
}

/// Charges the whole of a guest's text, and copies at most this much of it. The copy is made first, because a
/// text in UTF-16 would otherwise be decoded twice.
pub(crate) fn text(
    store: &mut GuestStore<'_>,
    text: &WasmStr,
    most_bytes: usize,
) -> wasmtime::Result<String> {
    let whole = text.to_str(&*store)?;
    let (bytes, beginning) = (whole.len(), whole[..whole.floor_char_boundary(most_bytes)].to_owned());
    leave(store, bytes)?;
    Ok(beginning)
}

/// The size of a value with several texts that still lie in the guest's memory. Each is charged
/// before the next is looked at, since all of them may be the same bytes.
pub(crate) struct PassedSize {
    bytes: usize,
    each_bytes: usize,
}

impl PassedSize {
    /// Creates the size of an empty value, in which each text takes this much memory beside its own
    /// bytes.
    pub(crate) fn new(each_bytes: usize) -> Self {
        Self { bytes: 0, each_bytes }
    }

    /// Charges a text and adds its size.
    pub(crate) fn add(&mut self, store: &mut GuestStore<'_>, text: &WasmStr) -> wasmtime::Result<()> {
        let bytes = text.to_str(&*store)?.len();
        self.add_bytes(store, bytes)
    }

    /// Charges bytes and adds them.
    pub(crate) fn add_bytes(&mut self, store: &mut GuestStore<'_>, bytes: usize) -> wasmtime::Result<()> {
        leave(store, bytes)?;
        self.bytes += self.each_bytes + bytes;
        if self.bytes() > store.data().crossing_bytes() {
            return Err(Stop::Crossing.into());
        }
        Ok(())
    }

    /// Returns the host's memory for the value, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}
