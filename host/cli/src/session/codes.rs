//! Codes of open questions. A decision that is not typed on a terminal needs the code of its
//! question, so that a model cannot approve its own call by running a command that it was shown.
//!
//! The program shows codes on terminals only. No result, message or record contains one.

use crate::globals::Globals;
use crate::session::data::data_dir;
use crate::session::database::{decisions_key, named_database};
use crate::terminal::{Failure, Output};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{ErrorKind, IsTerminal as _, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The file with the key of a data directory. No grant can contain it.
const KEY_FILE: &str = "tollgate.decisions.key";
/// The size of the key in bytes.
const KEY_BYTES: usize = 32;
/// Letters and digits that are not confused with each other.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of characters of a code, five bits each.
const CODE_CHARS: usize = 6;
/// The pause after a wrong code. It slows guessing by one process; a code has 30 bits.
const AFTER_A_WRONG_CODE: Duration = Duration::from_secs(1);

/// The key of a store, from which all its codes follow.
pub(crate) struct Codes {
    key: Vec<u8>,
}

impl Codes {
    /// Reads the key of the database that several hosts share, or that of the data directory, which
    /// is created if there is none.
    pub(crate) async fn open(globals: &Globals) -> Result<Self, Failure> {
        if let Some(database) = named_database(globals)? {
            return Ok(Self { key: decisions_key(&database).await?.into_bytes() });
        }
        let file = data_dir(globals)?.join(KEY_FILE);
        let key = read_or_create(&file).map_err(|e| {
            Failure::failed(format!("cannot read the key of decisions, {}: {e}", file.display()))
        })?;
        Ok(Self { key: key.to_vec() })
    }

    /// Returns the codes if standard output is a terminal. The reader of a pipe may be a model, which
    /// must not see them.
    pub(crate) async fn shown(globals: &Globals, output: &Output) -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let opened = Self::open(globals).await;
        opened.inspect_err(|why| output.warn(&format!("codes of questions are not shown: {why}"))).ok()
    }

    /// Returns the code of one question.
    pub(crate) fn of(&self, run_id: &str, suspension_id: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(b"tollgate decision\0");
        hash.update(&self.key);
        for part in [run_id, suspension_id] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let bytes = hash.finalize();
        bytes.iter().take(CODE_CHARS).map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
    }

    /// Checks a typed code. A wrong one costs a pause.
    pub(crate) async fn check(
        &self,
        typed: Option<&str>,
        run_id: &str,
        suspension_id: &str,
    ) -> Result<(), Failure> {
        let Some(typed) = typed else {
            return Err(Failure::usage(
                "a decision that is not typed on a terminal needs the question's code: --code CODE; a person \
                 reads it on a terminal, with `tollgate runs` or `tollgate show RUN`",
            ));
        };
        let code = self.of(run_id, suspension_id);
        let typed = typed.trim().to_ascii_lowercase();
        if typed.len() == code.len()
            && typed.bytes().zip(code.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
        {
            return Ok(());
        }
        tokio::time::sleep(AFTER_A_WRONG_CODE).await;
        Err(Failure::usage(
            "this is not the question's code; a person reads it on a terminal, with `tollgate runs`",
        ))
    }
}

fn read_or_create(file: &Path) -> std::io::Result<[u8; KEY_BYTES]> {
    match read(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        key => return key,
    }
    let mut key = [0; KEY_BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    // The file appears under its name with all its bytes: another process may read it at once.
    let dir = file.parent().unwrap_or(Path::new("."));
    let mut part = tempfile::Builder::new().prefix("tollgate.part-").tempfile_in(dir)?;
    part.write_all(&key)?;
    match part.persist_noclobber(file) {
        Ok(_) => Ok(key),
        Err(e) if e.error.kind() == ErrorKind::AlreadyExists => read(file),
        Err(e) => Err(e.error),
    }
}

fn read(file: &Path) -> std::io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    let mut options = fs::File::options();
    options.read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(file)?.read_exact(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z11_a_code_belongs_to_one_question_of_one_store() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"]
            .map(|name| Codes { key: read_or_create(&dir.path().join(name)).unwrap().to_vec() });
        let code = one.of("run", "call-1/1");
        assert_eq!(code.len(), CODE_CHARS);
        assert_eq!(
            Codes { key: read_or_create(&dir.path().join("one")).unwrap().to_vec() }.of("run", "call-1/1"),
            code
        );
        for different in [one.of("run", "call-1/2"), one.of("runc", "all-1/1"), other.of("run", "call-1/1")] {
            assert_ne!(different, code);
        }
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &dir.path().join("one").metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "no other user reads it");
    }
}
