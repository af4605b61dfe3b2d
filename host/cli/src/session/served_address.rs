//! The address of the server of a data directory. Its server records it, for commands that print links to it.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The file in the data directory. Its server keeps it locked: without a lock, its address is out of date.
const FILE: &str = "tollgate.served";
/// How often the lock is tried: a command that reads the address holds it for a moment.
const TRIES: usize = 20;

/// Records the address for as long as the result lives; `None` if another server of the directory has
/// recorded its own.
pub(crate) fn record(data_dir: &Path, address: SocketAddr) -> io::Result<Option<File>> {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    let mut file = open(data_dir, &mut options)?;
    for _ in 0..TRIES {
        if file.try_lock().is_ok() {
            file.set_len(0)?;
            file.write_all(address.to_string().as_bytes())?;
            return Ok(Some(file));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}

/// Opens the file to be read, too. A link is not followed, and a pipe is refused instead of waited for.
fn open(data_dir: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(data_dir.join(FILE))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("{FILE} in the data directory is not a file; remove it"))),
    }
}

/// Returns the address of the directory's server as this machine reaches it; `None` if none runs.
pub(crate) fn find(data_dir: &Path) -> Option<SocketAddr> {
    let file = open(data_dir, &mut File::options()).ok()?;
    if file.try_lock_shared().is_ok() {
        return None;
    }
    let mut address: SocketAddr = io::read_to_string(file).ok()?.parse().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join(FILE)).unwrap();
        record(dir.path(), "127.0.0.1:1".parse().unwrap()).unwrap_err();
        assert_eq!(
            (find(dir.path()), std::fs::read_to_string(other).unwrap()),
            (None, "untouched".to_owned())
        );
    }

    #[test]
    fn an_address_is_known_while_its_server_runs() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()), None);
        let recorded = record(dir.path(), "0.0.0.0:65535".parse().unwrap()).unwrap();
        assert_eq!(find(dir.path()), Some("127.0.0.1:65535".parse().unwrap()));
        let other = record(dir.path(), "127.0.0.1:1".parse().unwrap()).unwrap();
        assert!(recorded.is_some() && other.is_none());
        drop(recorded);
        assert_eq!(find(dir.path()), None);
        let _recorded = record(dir.path(), "[::1]:2".parse().unwrap()).unwrap();
        assert_eq!(find(dir.path()), Some("[::1]:2".parse().unwrap()), "nothing of the longer one is left");
    }
}
