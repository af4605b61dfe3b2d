//! The guests of tests and benches, built on demand from their sources in `tests/guests` and
//! `example-tools`.
//!
//! A guest in WAT is one file that shows one thing: [`Guest::bytes`] adds the parts that every
//! component needs (memory, allocator, `describe`). Its header states how it must end, so that
//! one suite can run them all:
//!
//! ```
//! use tollgate_artifacts::{Expectation, HOSTILE, hostile};
//!
//! assert_eq!(hostile::SPIN_FOR_EVER.expects, Expectation::Code("out_of_fuel"));
//! for guest in HOSTILE {
//!     println!("{}: {} ends as {}", guest.name, guest.attack, guest.expects);
//! }
//! ```

mod assembly;
mod c_guests;
mod frame;
mod guest;
mod header;
mod lowering;
mod rust_guests;
mod world;

pub use c_guests::{c_bindings, c_guest_bytes};
pub use guest::{Expectation, Guest};
pub use rust_guests::{rust_gate_bytes, rust_guest, rust_guest_bytes};

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
