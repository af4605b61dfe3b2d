//! The directories that a component may read.

use crate::MAX_TEXT_BYTES;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use tollgate_sdk::CodedError;

/// The granted directories of one component, by their guest paths.
///
/// Tools take guest paths, such as `/docs/guide.md`. A relative path is searched in
/// each granted directory.
#[derive(Debug, Clone)]
pub struct Directories {
    component: &'static str,
    guest_paths: Vec<String>,
}

impl Directories {
    /// Returns the directories that the host granted to this component. Off wasm,
    /// where tests run, it is the whole file system.
    pub fn granted(component: &'static str) -> Self {
        Self::new(component, granted_guest_paths())
    }

    /// Creates a set of these directories.
    pub fn new(component: &'static str, guest_paths: Vec<String>) -> Self {
        Self { component, guest_paths }
    }

    /// Returns their guest paths.
    pub fn guest_paths(&self) -> &[String] {
        &self.guest_paths
    }

    /// Returns the UTF-8 text of the file at `path`, without a byte order mark.
    ///
    /// Fails like [`Directories::resolve`], and with `not_a_file`, `too_large`,
    /// `not_text` or `unreadable`.
    pub fn read(&self, path: &str) -> Result<String, CodedError> {
        let file = self.resolve(path)?;
        let name = file.display();
        let bytes = read_bounded(&file).map_err(|error| unreadable(&file, &error))?;
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(CodedError::new(
                "too_large",
                format!("`{name}` has more than {MAX_TEXT_BYTES} bytes, the most that is read."),
            ));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| CodedError::new("not_text", format!("`{name}` is not UTF-8 text.")))?;
        Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        })
    }

    /// Returns the existing file or directory at `path`.
    ///
    /// Fails with `no_directory` if no granted directory contains it, with `bad_path`
    /// if it contains `..`, and with `not_found`.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, CodedError> {
        if path.split('/').any(|part| part == "..") {
            return Err(CodedError::new(
                "bad_path",
                format!("`{path}` contains `..`. Give a path inside a granted directory."),
            ));
        }
        if self.guest_paths.is_empty() {
            return Err(self.nothing_granted());
        }
        let candidates = self.candidates(path);
        if candidates.is_empty() {
            return Err(CodedError::new(
                "no_directory",
                format!("No granted directory holds `{path}`. {}", self.listed()),
            ));
        }
        match candidates.iter().find(|path| fs::metadata(path).is_ok()) {
            Some(found) => Ok(found.clone()),
            None => Err(self.missing(path, &candidates)),
        }
    }

    /// Returns the roots of a walk: `path`, or each granted directory. Fails like
    /// [`Directories::resolve`].
    pub fn roots(&self, path: Option<&str>) -> Result<Vec<PathBuf>, CodedError> {
        match path {
            Some(path) => Ok(vec![self.resolve(path)?]),
            None if self.guest_paths.is_empty() => Err(self.nothing_granted()),
            None => Ok(self.guest_paths.iter().map(PathBuf::from).collect()),
        }
    }

    /// Returns the possible locations of `path`: itself if it is granted, and below
    /// each granted directory if it is relative.
    fn candidates(&self, path: &str) -> Vec<PathBuf> {
        let absolute = format!("/{}", path.trim_start_matches("./").trim_start_matches('/'));
        let mut candidates = Vec::new();
        if self.guest_paths.iter().any(|dir| holds(dir, &absolute)) {
            candidates.push(PathBuf::from(&absolute));
        }
        if !path.starts_with('/') {
            let below = |dir: &String| Path::new(dir).join(absolute.trim_start_matches('/'));
            candidates.extend(self.guest_paths.iter().map(below));
        }
        candidates
    }

    fn missing(&self, path: &str, candidates: &[PathBuf]) -> CodedError {
        let denied = candidates.iter().find_map(|path| match fs::metadata(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Some((path, error)),
            _ => None,
        });
        match denied {
            Some((path, error)) => unreadable(path, &error),
            None => CodedError::new("not_found", format!("There is no `{path}`. {}", self.listed())),
        }
    }

    fn listed(&self) -> String {
        format!("Granted: `{}`.", self.guest_paths.join("`, `"))
    }

    fn nothing_granted(&self) -> CodedError {
        let component = self.component;
        CodedError::new(
            "no_directory",
            format!(
                "No directory is granted to `{component}`. An operator can grant one: \
                 tollgate grant {component} --read docs=/docs"
            ),
        )
    }
}

fn holds(directory: &str, path: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads one byte past the limit, which is enough to detect a larger file.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> CodedError {
    let path = path.display();
    match error.kind() {
        ErrorKind::IsADirectory => {
            CodedError::new("not_a_file", format!("`{path}` is a directory. Name a file."))
        }
        _ => CodedError::new("unreadable", format!("`{path}` cannot be read: {error}.")),
    }
}

#[cfg(target_family = "wasm")]
fn granted_guest_paths() -> Vec<String> {
    wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, guest_path)| guest_path).collect()
}

#[cfg(not(target_family = "wasm"))]
fn granted_guest_paths() -> Vec<String> {
    vec!["/".to_owned()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn granted() -> (tempfile::TempDir, Directories) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.md"), "\u{feff}# A").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let directories = Directories::new("demo", vec![dir.path().display().to_string()]);
        (dir, directories)
    }

    #[test]
    fn a_file_is_read_by_its_path_and_relative_to_what_is_granted() {
        let (dir, directories) = granted();
        let absolute = dir.path().join("a.md").display().to_string();
        assert_eq!(directories.read(&absolute).unwrap(), "# A");
        assert_eq!(directories.read("a.md").unwrap(), "# A");
        assert_eq!(directories.read("./a.md").unwrap(), "# A");
        assert_eq!(directories.read(absolute.trim_start_matches('/')).unwrap(), "# A");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let (dir, directories) = granted();
        fs::write(dir.path().join("bin"), [0xff, 0xfe, 0x00]).unwrap();
        let too_large = File::create(dir.path().join("large")).unwrap();
        too_large.set_len(MAX_TEXT_BYTES + 1).unwrap();
        let code = |path: &str| directories.read(path).unwrap_err().code();
        assert_eq!(code("missing.md"), "not_found");
        assert_eq!(code("sub"), "not_a_file");
        assert_eq!(code("bin"), "not_text");
        assert_eq!(code("large"), "too_large");
        assert_eq!(code("../a.md"), "bad_path");
        assert_eq!(code("/elsewhere/a.md"), "no_directory");
    }

    #[test]
    fn without_a_grant_the_message_shows_the_command_that_grants_one() {
        let refusal = Directories::new("csv-stats", Vec::new()).read("/a").unwrap_err();
        assert_eq!(refusal.code(), "no_directory");
        assert!(refusal.message().contains("tollgate grant csv-stats --read docs=/docs"));
    }

    #[test]
    fn a_walk_begins_at_a_path_or_at_all_that_is_granted() {
        let (dir, directories) = granted();
        assert_eq!(directories.roots(None).unwrap(), [dir.path()]);
        assert_eq!(directories.roots(Some("sub")).unwrap(), [dir.path().join("sub")]);
        let nothing = Directories::new("demo", Vec::new());
        assert_eq!(nothing.roots(None).unwrap_err().code(), "no_directory");
    }

    #[test]
    fn a_directory_does_not_hold_its_neighbours() {
        assert!(holds("/docs", "/docs"));
        assert!(holds("/docs/", "/docs/a"));
        assert!(holds("/", "/anything"));
        assert!(!holds("/docs", "/docs-of-others/a"));
    }
}
