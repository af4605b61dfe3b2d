//! New projects: a working tool with a test, ready to be changed.

use super::error::BuildError;
use super::names::Names;
use super::{Template, sdk, workflow};
use std::fs;
use std::path::{Path, PathBuf};

/// A project to be written.
#[derive(Debug)]
pub(crate) struct NewProject {
    /// The component's id.
    pub(crate) name: String,
    /// The language.
    pub(crate) template: Template,
    /// The project's directory, which must not exist yet.
    pub(crate) dir: PathBuf,
    /// The directory `guest-sdk`; `None` for that of the checkout around the project or the working
    /// directory, or else for the embedded one.
    pub(crate) sdk: Option<PathBuf>,
    /// Whether to add a workflow for GitHub Actions that publishes the tool.
    pub(crate) workflow: bool,
    /// The user's data directory, into which the embedded SDK is written; `None` if there is none.
    pub(crate) data_root: Option<PathBuf>,
}

impl NewProject {
    /// Writes the project. Removes its directory again if that fails.
    ///
    /// # Errors
    /// The name is not valid, the directory already exists, the SDK is not found, or a file cannot
    /// be written.
    pub(crate) fn write(&self) -> Result<(), BuildError> {
        let names = Names::of(&self.name, self.template)?;
        if self.dir.exists() {
            return Err(BuildError::Usage(format!(
                "{} already exists; choose another name, or remove it first",
                self.dir.display()
            )));
        }
        let sdk = if self.template == Template::Wat { String::new() } else { self.sdk_path()? };
        self.write_files(&names, &sdk).inspect_err(|_| {
            // The next attempt would refuse the directory.
            let _ = fs::remove_dir_all(&self.dir);
        })
    }

    fn write_files(&self, names: &Names, sdk: &str) -> Result<(), BuildError> {
        for (file, template) in self.template.files() {
            self.write_file(file, &self.fill(template, names, sdk))?;
        }
        if self.workflow {
            self.write_file(workflow::FILE, &self.fill(&workflow::text(self.template), names, sdk))?;
        }
        Ok(())
    }

    fn write_file(&self, file: &str, text: &str) -> Result<(), BuildError> {
        let path = self.dir.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(BuildError::file(parent, "created"))?;
        }
        fs::write(&path, text).map_err(BuildError::file(&path, "written"))
    }

    /// Fills in the names of the project and the escaped path of the SDK.
    fn fill(&self, template: &str, names: &Names, sdk: &str) -> String {
        template
            .replace("{{name}}", &self.name)
            .replace("{{tool}}", &names.tool)
            .replace("{{function}}", &names.function)
            .replace("{{named}}", &names.named)
            .replace("{{package}}", &names.package)
            .replace("{{sdk}}", sdk)
    }

    /// Returns the path of the SDK, escaped for a string in a manifest. It is relative if the project is
    /// in the same checkout.
    fn sdk_path(&self) -> Result<String, BuildError> {
        let parent = match self.dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = parent.canonicalize().map_err(BuildError::file(parent, "found"))?;
        let sdk = match &self.sdk {
            Some(sdk) => named_sdk(sdk)?,
            None => match (nearby_sdk(&parent), &self.data_root) {
                (Some(sdk), _) => sdk,
                (None, Some(root)) => sdk::shared(root)?,
                (None, None) => {
                    return Err(BuildError::Usage(
                        "there is no home directory for the SDK; pass --sdk PATH, the directory guest-sdk of a \
                         checkout of Tollgate"
                            .to_owned(),
                    ));
                }
            },
        };
        let shared_checkout = sdk.parent().filter(|checkout| parent.starts_with(checkout));
        let path = match shared_checkout {
            Some(checkout) => {
                let steps = parent.strip_prefix(checkout).map_or(0, |rest| rest.components().count());
                PathBuf::from("../".repeat(steps + 1)).join(sdk.file_name().unwrap_or_default())
            }
            None => sdk,
        };
        match path.to_str() {
            Some(path) => Ok(escaped(path)),
            None => Err(BuildError::Usage(format!("the path {} is not UTF-8; move the SDK", path.display()))),
        }
    }
}

/// Escapes a text for a string in double quotes in TOML, JSON or a `go.mod`.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Checks that the person named an SDK, and returns its real path.
fn named_sdk(sdk: &Path) -> Result<PathBuf, BuildError> {
    sdk.canonicalize().ok().filter(|found| is_sdk(found)).ok_or_else(|| {
        BuildError::Usage(format!(
            "{} does not contain tollgate-sdk; --sdk must name the directory guest-sdk of a checkout of Tollgate",
            sdk.display()
        ))
    })
}

/// Finds the SDK of the checkout that contains the project or the working directory.
fn nearby_sdk(project_parent: &Path) -> Option<PathBuf> {
    let starts = [Some(project_parent.to_owned()), std::env::current_dir().ok()];
    let sdk_above = |start: PathBuf| find_upwards(&start, "guest-sdk").filter(|found| is_sdk(found));
    starts.into_iter().flatten().find_map(sdk_above)
}

fn is_sdk(dir: &Path) -> bool {
    fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| text.contains("name = \"tollgate-sdk\""))
}

/// Returns the nearest directory of this name, in `start` or above it.
pub(crate) fn find_upwards(start: &Path, name: &str) -> Option<PathBuf> {
    start.ancestors().map(|dir| dir.join(name)).find(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_language_refers_to_an_sdk_below_any_path() {
        let place = tempfile::tempdir().unwrap();
        let sdk = place.path().canonicalize().unwrap().join(r#"the "sdk" \ of Ada"#);
        fs::create_dir(&sdk).unwrap();
        fs::write(sdk.join("Cargo.toml"), "name = \"tollgate-sdk\"").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let read = |template: Template, file: &str| {
            let dir = elsewhere.path().join(format!("{template:?}"));
            let (name, sdk) = ("hello".to_owned(), Some(sdk.clone()));
            let project =
                NewProject { name, template, dir: dir.clone(), sdk, workflow: false, data_root: None };
            project.write().unwrap();
            fs::read_to_string(dir.join(file)).unwrap()
        };
        let sdk = sdk.to_str().unwrap();
        let manifest: toml::Table = read(Template::Rust, "Cargo.toml").parse().unwrap();
        assert_eq!(manifest["dependencies"]["tollgate-sdk"]["path"].as_str(), Some(sdk));
        for (template, library) in
            [(Template::C, "c"), (Template::Javascript, "js"), (Template::Python, "python")]
        {
            let recipe: toml::Table = read(template, "tool.toml").parse().unwrap();
            assert_eq!(recipe["sdk"].as_str(), Some(format!("{sdk}/{library}").as_str()));
        }
        let package: serde_json::Value =
            serde_json::from_str(&read(Template::Typescript, "package.json")).unwrap();
        assert_eq!(package["dependencies"]["tollgate"], format!("file:{sdk}/js"));
        let replaced = format!("=> \"{}/go\"", escaped(sdk));
        assert!(read(Template::Go, "go.mod").contains(&replaced), "{replaced}");
    }
}
