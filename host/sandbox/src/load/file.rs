//! Opens a component's file once, without following a link and without blocking, and checks the
//! opened file instead of the path.

use super::validate::{HEADER_BYTES, check_header};
use super::{Fingerprint, MAX_COMPONENT_BYTES};
use crate::error::Refusal;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

/// The least length of a file that is checked for holes, in bytes. File systems may store a shorter
/// one without blocks, and reading it costs little.
const MIN_HOLLOW_BYTES: u64 = 4 << 20;

/// A component's file, opened and ready to be read.
pub(crate) struct OpenedFile<'a> {
    file: File,
    path: &'a Path,
    bytes: u64,
}

/// Reads a component's file. Blocks.
///
/// # Errors
/// Fails if it is not a regular file of at most
/// [`MAX_COMPONENT_BYTES`](crate::MAX_COMPONENT_BYTES), or may not be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    OpenedFile::at(path)?.read()
}

impl<'a> OpenedFile<'a> {
    pub(crate) fn at(path: &'a Path) -> Result<Self, Refusal> {
        let shown = path.display();
        let file = open(path)?;
        let metadata = file.metadata().map_err(|why| unreadable(path, &why))?;
        if metadata.is_dir() {
            return Err(Refusal::new(format!("{shown} is a directory, not a component")));
        }
        if !metadata.is_file() {
            return Err(Refusal::new(format!(
                "{shown} is not a regular file (but a pipe, a socket or a device)"
            )));
        }
        if metadata.len() > MAX_COMPONENT_BYTES {
            return Err(too_large(path));
        }
        Ok(Self { file, path, bytes: metadata.len() })
    }

    /// Refuses a file that does not begin like a component, or consists mostly of holes. A file may be
    /// large without taking any space, so this is checked before all of it is read.
    pub(crate) fn check_header(&self) -> Result<(), Refusal> {
        let mut header = Vec::new();
        let read = (&self.file).take(HEADER_BYTES).read_to_end(&mut header);
        let is_hollow = is_mostly_holes(&self.file);
        let read = read.and_then(|_| (&self.file).rewind());
        read.map_err(|why| unreadable(self.path, &why))?;
        // Compiled machine code is recognized by the whole file.
        let shown = self.path.display().to_string();
        if !header.starts_with(b"\x7fELF") {
            check_header(&shown, &header)?;
        }
        match is_hollow {
            true => Err(Refusal::new(format!(
                "{shown} is damaged: more than three quarters of it are holes; copy it again"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the length that it had when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the fingerprint of its current content, without keeping the bytes.
    pub(crate) fn fingerprint(&self) -> Result<Fingerprint, Refusal> {
        // A larger file is refused when it is read.
        Fingerprint::of_all((&self.file).take(MAX_COMPONENT_BYTES)).map_err(|why| unreadable(self.path, &why))
    }

    /// Reads its current content.
    pub(crate) fn read(mut self) -> Result<Vec<u8>, Refusal> {
        let path = self.path;
        let mut bytes = Vec::with_capacity(usize::try_from(self.bytes).unwrap_or(0));
        self.file.rewind().map_err(|why| unreadable(path, &why))?;
        // One byte more than the limit: the file may grow while it is read.
        self.file
            .take(MAX_COMPONENT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|why| unreadable(path, &why))?;
        if bytes.len() as u64 > MAX_COMPONENT_BYTES {
            return Err(too_large(path));
        }
        Ok(bytes)
    }
}

/// Opens a regular file for reading, without following a link in the last part of the path and
/// without waiting for a pipe's writer. The opened file is what is checked.
///
/// # Errors
/// Fails if it cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let irregular = || io::Error::other("it is not a regular file");
    let file = match open_at_once(path) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::NXIO) => return Err(irregular()),
        Err(why) => return Err(why.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

/// Returns whether less than a quarter of a file of at least 4 MiB takes space on disk. `false` if the
/// file system does not know its holes, and on systems other than Linux. The position in the file
/// changes.
#[must_use]
pub fn is_mostly_holes(file: &File) -> bool {
    let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return false };
    if cfg!(not(target_os = "linux")) || length < MIN_HOLLOW_BYTES {
        return false;
    }
    let (mut at, mut data) = (0, 0);
    while at < length {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(_) => return false,
        };
        let Ok(end) = rustix::fs::seek(file, SeekFrom::Hole(start)) else { return false };
        // A file system that reports its data out of order does not know its holes, and the loop ends.
        if start < at || end <= start {
            return false;
        }
        data += end - start;
        at = end;
    }
    data < length / 4
}

fn open(path: &Path) -> Result<File, Refusal> {
    match open_at_once(path) {
        Ok(file) => Ok(file),
        Err(Errno::LOOP) => Err(Refusal::new(format!(
            "{} is a symbolic link; put the component itself there",
            path.display()
        ))),
        Err(Errno::NXIO) => Err(Refusal::new(format!(
            "{} is not a regular file (but a pipe, a socket or a device)",
            path.display()
        ))),
        Err(why) => {
            let why = std::io::Error::from(why);
            Err(Refusal::new(format!("{} cannot be opened: {why}", path.display())))
        }
    }
}

fn open_at_once(path: &Path) -> Result<File, Errno> {
    // Without NONBLOCK, opening a pipe for reading waits for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn unreadable(path: &Path, why: &io::Error) -> Refusal {
    Refusal::new(format!("{} cannot be read: {why}", path.display()))
}

fn too_large(path: &Path) -> Refusal {
    Refusal::new(format!(
        "{} is larger than {} MiB, the limit for components; build it in release mode, or strip it (wasm-tools strip)",
        path.display(),
        MAX_COMPONENT_BYTES >> 20
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refusal(path: &Path) -> String {
        read(path).unwrap_err().to_string()
    }

    #[test]
    fn regular_files_are_read_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file.wasm"), b"bytes").unwrap();
        assert_eq!(read(&at("file.wasm")).unwrap(), b"bytes");

        std::os::unix::fs::symlink(at("file.wasm"), at("link.wasm")).unwrap();
        assert!(refusal(&at("link.wasm")).contains("symbolic link"));
        std::fs::create_dir(at("folder.wasm")).unwrap();
        assert!(refusal(&at("folder.wasm")).contains("is a directory"));
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe.wasm"), fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(refusal(&at("pipe.wasm")).contains("not a regular file"));
        let _socket = std::os::unix::net::UnixListener::bind(at("socket.wasm")).unwrap();
        assert!(refusal(&at("socket.wasm")).contains("not a regular file"));
        assert!(refusal(Path::new("/dev/zero")).contains("not a regular file"));
        assert!(refusal(&at("absent.wasm")).contains("cannot be opened"));
    }

    #[test]
    fn z4_a_file_that_does_not_begin_like_a_component_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holes.wasm");
        File::create(&path).unwrap().set_len(MAX_COMPONENT_BYTES).unwrap();
        let opened = OpenedFile::at(&path).unwrap();
        assert!(opened.check_header().unwrap_err().to_string().contains("does not begin as one"));
        std::fs::write(&path, b"\0asm\x0d\0\x01\0rest").unwrap();
        let opened = OpenedFile::at(&path).unwrap();
        assert_eq!(opened.check_header().map_err(|why| why.to_string()), Ok(()));
        assert_eq!(opened.read().unwrap(), b"\0asm\x0d\0\x01\0rest");
    }

    #[test]
    fn a_small_file_may_consist_of_holes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.wasm");
        for (bytes, is_hollow) in
            [(MIN_HOLLOW_BYTES - 1, false), (MIN_HOLLOW_BYTES, cfg!(target_os = "linux"))]
        {
            let file = File::create(&path).unwrap();
            file.set_len(bytes).unwrap();
            assert_eq!(is_mostly_holes(&file), is_hollow, "{bytes}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn z4_files_with_holes_are_refused_without_being_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holes.wasm");
        let checked = |begin: &[u8], data: usize| {
            std::fs::write(&path, [begin, &vec![0; data]].concat()).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(MAX_COMPONENT_BYTES).unwrap();
            OpenedFile::at(&path).unwrap().check_header().map_err(|why| why.to_string())
        };
        for begin in [b"\0asm\x0d\0\x01\0", b"\x7fELF\x02\x01\x01\0"] {
            assert!(checked(begin, 1 << 20).unwrap_err().contains("are holes"));
            assert_eq!(checked(begin, 20 << 20), Ok(()));
        }
    }

    #[test]
    fn large_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.wasm");
        let file = File::create(&path).unwrap();
        file.set_len(MAX_COMPONENT_BYTES + 1).unwrap();
        assert!(refusal(&path).contains("larger than 64 MiB"));
    }
}
