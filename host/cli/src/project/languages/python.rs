//! Python, compiled by componentize-py, which bundles an interpreter with the tool.

use super::super::BuildError;
use super::program::{Program, run};
use super::{Recipe, WORLD, Workplace};
use std::fs;

pub(super) const COMPONENTIZE: Program =
    Program { names: &["componentize-py"], install: "pip install componentize-py" };

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let component = work.path().join("tool.wasm");
    let Some(module) = recipe.source.file_stem() else {
        return Err(BuildError::Usage(format!("{} is not a Python module", recipe.source.display())));
    };
    let mut componentize = COMPONENTIZE.command(&recipe.dir)?;
    say("compiling with componentize-py");
    componentize
        // An active virtual environment is not the tool's.
        .env_remove("VIRTUAL_ENV")
        .arg("-d")
        .arg(work.contract()?)
        .args(["-w", WORLD, "componentize"])
        .arg(module)
        .args(["-p", ".", "-p"])
        .arg(recipe.sdk()?)
        .arg("-o")
        .arg(&component);
    run(componentize, &recipe.source, say)?;
    fs::read(&component).map_err(BuildError::file(&component, "read"))
}
