//! Guests in WAT.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::assembly;
use crate::header::Header;

/// One file of `tests/guests`.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// The file's name without its extension, which names the attack. It is also the id of its
    /// component and of its only tool by default.
    pub name: &'static str,
    /// The attack, in a sentence or two.
    pub attack: &'static str,
    /// The limit that stops it, in the words of the table of limits; empty for a good guest.
    pub limit: &'static str,
    /// How loading it or calling its tool must end.
    pub expects: Expectation,
    /// The file's text.
    pub source: &'static str,
}

impl Guest {
    /// Returns the guest as a file that a host would load: a component, unless another format is
    /// the attack. It is assembled each time, which takes milliseconds.
    ///
    /// # Panics
    /// If the guest's file is wrong; the crate's own tests assemble every one.
    #[must_use]
    #[allow(clippy::panic, reason = "a guest that does not assemble is a bug of its file")]
    pub fn bytes(&self) -> Vec<u8> {
        assembly::assemble(self.name, self.source)
            .unwrap_or_else(|why| panic!("tests/guests: {}.wat: {why:#}", self.name))
    }

    /// Returns the grants that its attack needs: `files`, a writable directory with traps in it;
    /// `http`, requests to every host.
    ///
    /// # Panics
    /// Like [`bytes`](Self::bytes).
    #[must_use]
    #[allow(clippy::panic, reason = "a guest whose header cannot be read is a bug of its file")]
    pub fn powers(&self) -> Vec<String> {
        Header::parse(self.source).unwrap_or_else(|why| panic!("{}: {why}", self.name)).powers
    }

    /// Returns the beginning of the refusal that the operator sees if the call tries a power that
    /// was not granted.
    ///
    /// # Panics
    /// Like [`bytes`](Self::bytes).
    #[must_use]
    #[allow(clippy::panic, reason = "a guest whose header cannot be read is a bug of its file")]
    pub fn denied(&self) -> Option<String> {
        Header::parse(self.source).unwrap_or_else(|why| panic!("{}: {why}", self.name)).denied
    }

    /// Writes [`bytes`](Self::bytes) to `NAME.wasm` in this folder.
    ///
    /// # Panics
    /// If the folder cannot be written, or like `bytes`.
    #[must_use]
    #[allow(clippy::panic, reason = "tests have nothing to do without the file")]
    pub fn write_to(&self, folder: &Path) -> PathBuf {
        let path = folder.join(self.name).with_extension("wasm");
        if let Err(why) = std::fs::write(&path, self.bytes()) {
            panic!("cannot write {}: {why}", path.display());
        }
        path
    }
}

/// How a guest must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It loads, and a call of its tool returns a result.
    Succeeds,
    /// It loads, and a call of its tool ends with this code.
    Code(&'static str),
    /// It does not load, and the reason contains these words.
    Refused(&'static str),
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Succeeds => f.write_str("a result"),
            Expectation::Code(code) => f.write_str(code),
            Expectation::Refused(words) => write!(f, "a refusal (\"{words}\")"),
        }
    }
}
