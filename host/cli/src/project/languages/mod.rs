//! Compiling languages other than Rust: one file per language, and what they share.

mod c;
mod component;
mod go;
mod javascript;
mod lines;
mod program;
mod python;
mod sources;
mod stamp;
mod work_dir;

use super::error::BuildError;
use super::recipe::{Language, Recipe};
use super::{Artifact, install};
pub(crate) use program::{Program, wait};
pub(crate) use python::PYTHON;
pub(super) use sources::of as sources_of;
use stamp::Stamp;
use std::path::Path;
use work_dir::WorkDir;
pub(super) use {c::ZIG, go::GO, javascript::NODE, python::PACKAGES};

/// Runs the tests of JavaScript tools.
pub(crate) const NPM: Program =
    Program { names: &["npm"], install: "apt install npm, or see https://nodejs.org" };

/// Checks that all compilers of a language are installed, before the first of them runs.
///
/// # Errors
/// Some are missing; the error names all of them, and the command that installs them.
fn check_compilers(recipe: &Recipe) -> Result<(), BuildError> {
    let is_missing = |program: &Program| match program.names {
        // A project's own compiler takes precedence.
        ["tsc"] => javascript::compiler(&recipe.dir).is_err() && program.find().is_none(),
        _ => program.find().is_none(),
    };
    let missing: Vec<Program> = compilers(recipe.language).into_iter().filter(is_missing).collect();
    report_missing(recipe.language, &missing)
}

/// Checks that these programs, which run a project's tests, are installed.
///
/// # Errors
/// Some are missing; the error names all of them, and the command that installs them.
pub(crate) fn check_programs(language: Language, needed: Vec<Program>) -> Result<(), BuildError> {
    let missing: Vec<Program> = needed.into_iter().filter(|program| program.find().is_none()).collect();
    report_missing(language, &missing)
}

fn report_missing(language: Language, missing: &[Program]) -> Result<(), BuildError> {
    let Some(name) = toolchain_of(language).filter(|_| !missing.is_empty()) else { return Ok(()) };
    // `tollgate toolchains install` does not install these.
    let is_of_system = |program: &&Program| ["node", "npm", "python3"].contains(&program.names[0]);
    let (of_system, of_toolchain): (Vec<&Program>, Vec<&Program>) = missing.iter().partition(is_of_system);
    let names: Vec<&str> = missing.iter().map(|program| program.names[0]).collect();
    let mut remedies: Vec<String> = of_system.iter().map(|program| program.install.to_owned()).collect();
    if !of_toolchain.is_empty() {
        remedies.push(format!("tollgate toolchains install {name}"));
    }
    Err(BuildError::Failed(format!(
        "{} missing: {}; run: {}",
        if missing.len() == 1 { "a compiler is" } else { "compilers are" },
        names.join(", "),
        remedies.join(", then ")
    )))
}

/// Returns the name under which `tollgate toolchains install` knows the compilers of a language.
fn toolchain_of(language: Language) -> Option<&'static str> {
    match language {
        Language::C => Some("c"),
        Language::Go => Some("go"),
        Language::JavaScript | Language::TypeScript => Some("javascript"),
        Language::Python => Some("python"),
        Language::Wat => None,
    }
}

/// Returns the name of each language with a toolchain, and its programs.
pub(crate) fn toolchains() -> Vec<(&'static str, Vec<Program>)> {
    let languages = [Language::C, Language::Go, Language::JavaScript, Language::Python];
    languages
        .into_iter()
        .filter_map(|language| Some((toolchain_of(language)?, compilers(language))))
        .collect()
}

/// Returns the programs that a language needs.
fn compilers(language: Language) -> Vec<Program> {
    match language {
        Language::C => vec![c::ZIG],
        Language::Go => vec![go::GO],
        Language::JavaScript | Language::TypeScript => {
            vec![javascript::NODE, javascript::TYPESCRIPT, javascript::ESBUILD, javascript::COMPONENTIZE]
        }
        Language::Python => vec![python::COMPONENTIZE],
        Language::Wat => Vec::new(),
    }
}

/// Compiles a project into `build/NAME.wasm` within it. Does nothing if that file was made from
/// the same inputs.
///
/// # Errors
/// The recipe is wrong, a compiler is missing, or the code does not compile.
pub(crate) fn compile(dir: &Path, say: &dyn Fn(&str)) -> Result<Artifact, BuildError> {
    let recipe = Recipe::load(dir)?;
    let out = recipe.dir.join("build");
    let name = recipe.dir.file_name().and_then(|name| name.to_str()).unwrap_or("tool");
    let file = out.join(name).with_extension("wasm");
    let stamp = Stamp::of(&recipe, &compilers(recipe.language));
    if stamp.is_current(&file) {
        return Ok(Artifact::new(file, true, Some(recipe.dir)));
    }
    check_compilers(&recipe)?;
    let work = WorkDir::new()?;
    let bytes = match recipe.language {
        Language::C => c::compile(&recipe, &work, say)?,
        Language::Go => go::compile(&recipe, &work, say)?,
        Language::JavaScript | Language::TypeScript => javascript::compile(&recipe, &work, say)?,
        Language::Python => python::compile(&recipe, &work, say)?,
        Language::Wat => component::of_text(&recipe.source)?,
    };
    // Remove the stamp first: an interrupted build leaves a component without one, which is
    // rebuilt.
    stamp::remove(&file)?;
    install::put(&bytes, &file, &out)?;
    stamp.store(&file, &out, &work.files_read_outside(&recipe))?;
    Ok(Artifact::new(file, false, Some(recipe.dir)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::work_dir::CONTRACT;
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn a_build_that_breaks_off_leaves_no_stamp_of_an_earlier_component() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tool.toml"), "language = \"wat\"\nsource = \"tool.wat\"\n").unwrap();
        let source = |text: &str| fs::write(dir.path().join("tool.wat"), text).unwrap();
        let build = || compile(dir.path(), &|_: &str| ());
        source("(component)");
        let component = build().unwrap().file;
        assert!(build().unwrap().fresh);

        source("(component (core module))");
        // A directory cannot be replaced by a file.
        fs::remove_file(&component).unwrap();
        fs::create_dir(&component).unwrap();
        assert!(build().is_err());
        fs::remove_dir(&component).unwrap();
        fs::write(&component, "what a later moment would have put there").unwrap();
        source("(component)");
        assert!(!build().unwrap().fresh, "the first stamp was gone");
        assert!(build().unwrap().fresh);
    }

    #[test]
    fn a_file_behind_a_link_and_one_in_a_folder_of_any_name_are_sources() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("tool");
        fs::create_dir_all(project.join("src/build")).unwrap();
        fs::write(project.join("tool.toml"), "language = \"wat\"\nsource = \"tool.wat\"\n").unwrap();
        fs::write(project.join("tool.wat"), "(component)").unwrap();
        std::os::unix::fs::symlink("../beside.wat", project.join("beside.wat")).unwrap();
        let is_fresh = || compile(&project, &|_: &str| ()).unwrap().fresh;
        for file in ["beside.wat", "tool/src/build/part.wat"] {
            for text in ["one", "another"] {
                fs::write(place.path().join(file), text).unwrap();
                assert!(!is_fresh(), "{file}");
                assert!(is_fresh(), "{file}");
            }
        }
    }

    #[test]
    fn all_of_the_contract_is_handed_to_compilers() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let files = fs::read_dir(wit).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = files.filter(|name| name.ends_with(".wit")).collect();
        assert_eq!(files, CONTRACT.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
}
