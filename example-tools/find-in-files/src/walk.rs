//! The files below a directory.

use globset::{Glob, GlobSet, GlobSetBuilder};
use std::fs;
use std::path::{Path, PathBuf};
use tollgate_sdk::CodedError;

/// Directories nested deeper than this are not entered.
const MAX_DEPTH: usize = 32;

/// The most globs in one call.
const MAX_GLOBS: usize = 16;

/// A file found by a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file's path.
    pub path: PathBuf,
    /// The path below the root of the walk, with `/` between the parts.
    pub relative: String,
    /// Its size.
    pub bytes: u64,
}

/// Selects files: all, or those that match one of the globs.
pub struct Filter {
    globs: Option<GlobSet>,
}

impl Filter {
    /// A glob without `/` matches file names, so `*.md` finds `docs/a.md`. One with a
    /// `/` matches paths below the directory. Fails with `bad_glob`.
    pub fn new(globs: &[String]) -> Result<Self, CodedError> {
        if globs.is_empty() {
            return Ok(Self { globs: None });
        }
        if globs.len() > MAX_GLOBS {
            return Err(CodedError::new("bad_glob", format!("At most {MAX_GLOBS} globs.")));
        }
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            set.add(parse(glob)?);
        }
        let globs = set.build().map_err(|error| CodedError::new("bad_glob", error.to_string()))?;
        Ok(Self { globs: Some(globs) })
    }

    fn wants(&self, relative: &str) -> bool {
        self.globs.as_ref().is_none_or(|globs| globs.is_match(relative))
    }
}

fn parse(glob: &str) -> Result<Glob, CodedError> {
    let anywhere = match glob.strip_prefix('/') {
        Some(from_top) => from_top.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    globset::GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map_err(|error| CodedError::new("bad_glob", format!("`{glob}`: {}.", error.kind())))
}

/// Walks in the order of the paths, parents first, so that the same tree always gives
/// the same answer. Hidden entries are skipped and links are not followed. A
/// directory that cannot be read is counted in `unreadable`.
pub struct Walk<'a> {
    filter: &'a Filter,
    root: PathBuf,
    /// Entries to visit, the next one last.
    waiting: Vec<Entry>,
    /// The number of directories and files that could not be read.
    pub unreadable: usize,
}

struct Entry {
    path: PathBuf,
    relative: String,
    depth: usize,
}

impl<'a> Walk<'a> {
    /// Walks a directory or a single file.
    pub fn new(root: &Path, filter: &'a Filter) -> Self {
        let start = Entry { path: root.to_owned(), relative: String::new(), depth: 0 };
        Self { filter, root: root.to_owned(), waiting: vec![start], unreadable: 0 }
    }

    fn enter(&mut self, directory: &Entry) {
        let Ok(entries) = fs::read_dir(&directory.path) else {
            self.unreadable += 1;
            return;
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.waiting.extend(names.into_iter().map(|name| Entry {
            path: directory.path.join(&name),
            relative: match directory.relative.as_str() {
                "" => name,
                parent => format!("{parent}/{name}"),
            },
            depth: directory.depth + 1,
        }));
    }

    /// Returns the file itself if the walk began at one.
    fn file(&self, entry: Entry, bytes: u64) -> Option<File> {
        let relative = if entry.path == self.root {
            entry.path.file_name()?.to_str()?.to_owned()
        } else {
            entry.relative
        };
        let wanted = self.filter.wants(&relative);
        wanted.then_some(File { path: entry.path, relative, bytes })
    }
}

impl Iterator for Walk<'_> {
    type Item = File;

    fn next(&mut self) -> Option<File> {
        while let Some(entry) = self.waiting.pop() {
            let Ok(metadata) = fs::symlink_metadata(&entry.path) else {
                self.unreadable += 1;
                continue;
            };
            if metadata.is_dir() && entry.depth < MAX_DEPTH {
                self.enter(&entry);
            }
            if metadata.is_file()
                && let Some(file) = self.file(entry, metadata.len())
            {
                return Some(file);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in ["b.md", "a/z.rs", "a/y.md", ".git/config", "a/.hidden.md", "c/d/e.md"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        dir
    }

    fn walk(dir: &Path, globs: &[&str]) -> Vec<String> {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        let filter = Filter::new(&globs).unwrap();
        Walk::new(dir, &filter).map(|file| file.relative).collect()
    }

    #[test]
    fn files_come_in_order_and_without_hidden_ones() {
        let dir = tree();
        assert_eq!(walk(dir.path(), &[]), ["a/y.md", "a/z.rs", "b.md", "c/d/e.md"]);
    }

    #[test]
    fn globs_are_about_names_or_about_paths() {
        let dir = tree();
        assert_eq!(walk(dir.path(), &["*.md"]), ["a/y.md", "b.md", "c/d/e.md"]);
        assert_eq!(walk(dir.path(), &["a/*"]), ["a/y.md", "a/z.rs"]);
        assert_eq!(walk(dir.path(), &["/*.md"]), ["b.md"]);
        assert_eq!(walk(dir.path(), &["c/**/*.md", "*.rs"]), ["a/z.rs", "c/d/e.md"]);
        assert!(walk(dir.path(), &["*.none"]).is_empty());
    }

    #[test]
    fn a_file_can_be_the_start() {
        let dir = tree();
        assert_eq!(walk(&dir.path().join("a/y.md"), &[]), ["y.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let dir = tree();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/loop")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("b.md"), dir.path().join("link.md")).unwrap();
        assert_eq!(walk(dir.path(), &["*.md"]), ["a/y.md", "b.md", "c/d/e.md"]);
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let dir = tree();
        let filter = Filter::new(&[]).unwrap();
        let mut walk = Walk::new(&dir.path().join("missing"), &filter);
        assert_eq!(walk.next(), None);
        assert_eq!(walk.unreadable, 1);
    }

    #[test]
    fn bad_globs_are_refused() {
        let refused = |globs: &[String]| Filter::new(globs).err().map(|refusal| refusal.code());
        assert_eq!(refused(&["a[".to_owned()]), Some("bad_glob"));
        assert_eq!(refused(&vec!["*".to_owned(); MAX_GLOBS + 1]), Some("bad_glob"));
    }
}
