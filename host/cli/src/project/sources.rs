//! The inputs of a project's build: its own files, those that it names elsewhere, and those that
//! compilers look for above it.

use super::languages;
use super::recipe::RECIPE;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Files and directories that compilers look for above a project.
const FOUND_ABOVE: [&str; 6] =
    [".cargo", "Cargo.toml", "rust-toolchain", "rust-toolchain.toml", "node_modules", "package.json"];
/// The maximum number of manifests read to find what a project names.
const MAX_MANIFESTS: usize = 1_000;

/// Returns the files and directories from which a project is compiled.
pub(crate) fn of(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mut found = Sources::default();
    for above in dir.ancestors() {
        found.all.extend(FOUND_ABOVE.iter().map(|name| above.join(name)).filter(|path| path.exists()));
        found.manifest(&above.join("Cargo.toml"));
    }
    found.manifest(&dir.join(RECIPE));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let in_home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo_home = cargo_home.or_else(in_home);
    found.all.extend(cargo_home.map(|home| home.join("config.toml")).filter(|path| path.exists()));
    let linked = languages::sources_of(&dir).into_iter().flatten();
    found.all.extend(linked.filter(|file| file.canonicalize().is_ok_and(|real| !real.starts_with(&dir))));
    found.all.insert(dir);
    found.all.into_iter().collect()
}

#[derive(Default)]
struct Sources {
    all: BTreeSet<PathBuf>,
    /// The manifests that were read, so that a cycle of them ends.
    read: BTreeSet<PathBuf>,
}

impl Sources {
    /// Adds the paths that a manifest names, and follows the manifests there.
    fn manifest(&mut self, file: &Path) {
        if self.read.len() >= MAX_MANIFESTS || !self.read.insert(file.to_owned()) {
            return;
        }
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let (Ok(table), Some(dir)) = (text.parse::<Table>(), file.parent()) else { return };
        let mut paths = Vec::new();
        collect_paths(&Value::Table(table), &mut paths);
        for path in paths.iter().filter_map(|path| dir.join(path).canonicalize().ok()) {
            self.manifest(&path.join("Cargo.toml"));
            self.all.insert(path);
        }
    }
}

/// Collects the paths in a manifest: those of dependencies and targets, and of a tool's source and
/// library.
fn collect_paths(value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                match value {
                    Value::String(path) if ["path", "source", "sdk", "build"].contains(&key.as_str()) => {
                        paths.push(path.clone());
                    }
                    _ => collect_paths(value, paths),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_paths(value, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z19_sources_are_all_that_a_project_names_and_what_is_looked_for_above_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let write = |file: &str, text: &str| {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), text).unwrap();
        };
        write("work/Cargo.toml", "[workspace.dependencies]\nlibrary = { path = \"../library\" }\n");
        write("work/.cargo/config.toml", "");
        write("work/tool/Cargo.toml", "[dependencies]\nlibrary.workspace = true\n");
        write("library/Cargo.toml", "[dependencies]\ndeep = { path = \"../deep\" }\n");
        write("deep/Cargo.toml", "");
        write("beside.h", "");
        std::os::unix::fs::symlink(root.join("beside.h"), root.join("work/tool/beside.h")).unwrap();
        let found = of(&root.join("work/tool"));
        for expected in
            ["work/tool", "work/Cargo.toml", "work/.cargo", "library", "deep", "work/tool/beside.h"]
        {
            assert!(found.contains(&root.join(expected)), "{expected} is not in {found:?}");
        }
        assert!(!found.contains(&root) && !found.contains(&root.join("work")), "{found:?}");
    }
}
