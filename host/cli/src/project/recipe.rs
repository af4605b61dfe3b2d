//! `tool.toml`, which describes a project in a language other than Rust.

use super::error::BuildError;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that makes a directory a project.
pub(crate) const RECIPE: &str = "tool.toml";

/// The way a project is compiled, with paths that can be opened.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// The project's directory.
    pub(crate) dir: PathBuf,
    /// The language.
    pub(crate) language: Language,
    /// The file that holds the tool; in Go, the package's directory.
    pub(crate) source: PathBuf,
    /// The guest library; `None` for the text format, which needs none.
    pub(crate) sdk: Option<PathBuf>,
}

/// The languages other than Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    C,
    Go,
    JavaScript,
    TypeScript,
    Python,
    /// WebAssembly's text format.
    Wat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    language: Language,
    source: PathBuf,
    sdk: Option<PathBuf>,
}

impl Recipe {
    /// Reads the recipe of a project.
    ///
    /// # Errors
    /// It is not valid TOML, lacks a key, or names a path that does not exist.
    pub(crate) fn load(dir: &Path) -> Result<Self, BuildError> {
        let file = dir.join(RECIPE);
        let text = fs::read_to_string(&file).map_err(BuildError::file(&file, "read"))?;
        let RecipeFile { language, source, sdk } =
            toml::from_str(&text).map_err(|e| BuildError::Usage(format!("{}: {e}", file.display())))?;
        let found = |what: &str, path: &Path| {
            let path = dir.join(path);
            path.canonicalize().map_err(|e| {
                BuildError::Usage(format!(
                    "{}: the {what} {} cannot be opened: {e}",
                    file.display(),
                    path.display()
                ))
            })
        };
        let sdk = sdk.map(|sdk| found("sdk", &sdk)).transpose()?;
        if sdk.is_none() && language != Language::Wat {
            return Err(BuildError::Usage(format!(
                "{}: `sdk` is missing; it names the language's directory in guest-sdk of a checkout of Tollgate",
                file.display()
            )));
        }
        let dir = dir.canonicalize().map_err(BuildError::file(dir, "found"))?;
        let source = found("source", &source)?;
        let is_readable = fs::metadata(&source).is_ok_and(|found| found.is_file() || found.is_dir());
        if !source.starts_with(&dir) || !is_readable {
            return Err(BuildError::Usage(format!(
                "{}: the source {} is not a file or directory of this project; put it into {}",
                file.display(),
                source.display(),
                dir.display()
            )));
        }
        Ok(Self { source, dir, language, sdk })
    }

    /// Returns the guest library.
    ///
    /// # Errors
    /// The recipe names none.
    pub(crate) fn sdk(&self) -> Result<&Path, BuildError> {
        self.sdk.as_deref().ok_or_else(|| BuildError::Usage(format!("`sdk` is missing in {RECIPE}")))
    }
}
