//! The directory in which a compiler works, and the contract that it is given.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The contract that a guest is compiled against, as files of a WIT package.
pub(super) const CONTRACT: [(&str, &str); 8] = [
    ("types.wit", include_str!("../../../../../wit/types.wit")),
    ("call.wit", include_str!("../../../../../wit/call.wit")),
    ("content.wit", include_str!("../../../../../wit/content.wit")),
    ("agents.wit", include_str!("../../../../../wit/agents.wit")),
    ("http-client.wit", include_str!("../../../../../wit/http-client.wit")),
    ("settings.wit", include_str!("../../../../../wit/settings.wit")),
    ("gate.wit", include_str!("../../../../../wit/gate.wit")),
    ("world.wit", include_str!("../../../../../wit/world.wit")),
];
/// The world that the guest libraries are built for.
pub(super) const WORLD: &str = "tollgate:tool/full-tool-component";

/// A directory for a compiler's temporary files, which is removed on drop.
pub(super) struct WorkDir {
    dir: TempDir,
    /// The files that compilers report to have read.
    read: RefCell<BTreeSet<PathBuf>>,
}

impl WorkDir {
    pub(super) fn new() -> Result<Self, BuildError> {
        let dir = tempfile::tempdir().map_err(BuildError::file(&std::env::temp_dir(), "written to"))?;
        Ok(Self { dir, read: RefCell::default() })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Notes a file that went into the component.
    pub(super) fn note_read(&self, file: &Path) {
        // A file that no longer exists was temporary.
        if let Ok(file) = file.canonicalize() {
            self.read.borrow_mut().insert(file);
        }
    }

    /// Returns the files that were read, except those of the project, its library and this
    /// directory.
    pub(super) fn files_read_outside(&self, recipe: &Recipe) -> BTreeSet<PathBuf> {
        let here = self.path().canonicalize().ok();
        let known = [Some(recipe.dir.as_path()), recipe.sdk.as_deref(), here.as_deref()];
        let is_known = |file: &PathBuf| known.into_iter().flatten().any(|dir| file.starts_with(dir));
        self.read.borrow().iter().filter(|file| !is_known(file)).cloned().collect()
    }

    /// Writes the contract to a directory, for compilers that need one.
    pub(super) fn contract(&self) -> Result<PathBuf, BuildError> {
        let wit = self.path().join("wit");
        write_contract(&wit)?;
        Ok(wit)
    }

    /// Writes the world of an ordinary tool with these further imports to a directory, together with
    /// the packages that define them: the contract, and the WIT file `packages`.
    pub(super) fn world(&self, imports: &[String], packages: &Path) -> Result<PathBuf, BuildError> {
        let wit = self.path().join("world");
        write_contract(&wit.join("deps/tool"))?;
        let copy = wit.join("deps").join(packages.file_name().unwrap_or_default());
        fs::copy(packages, &copy).map_err(BuildError::file(&copy, "written"))?;
        let mut text =
            "package tollgate:made;\nworld made {\n    include tollgate:tool/tool-component@0.1.0;\n"
                .to_owned();
        imports.iter().for_each(|import| text.push_str(&format!("    import {import};\n")));
        text.push_str("}\n");
        let file = wit.join("made.wit");
        fs::write(&file, text).map_err(BuildError::file(&file, "written"))?;
        Ok(wit)
    }
}

fn write_contract(dir: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(dir).map_err(BuildError::file(dir, "created"))?;
    for (name, text) in CONTRACT {
        let file = dir.join(name);
        fs::write(&file, text).map_err(BuildError::file(&file, "written"))?;
    }
    Ok(())
}
