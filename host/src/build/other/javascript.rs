//! JavaScript and TypeScript: esbuild makes one module of the tool and its imports,
//! and componentize-qjs a component of that and an engine.

use super::super::BuildError;
use super::program::{Program, run};
use super::{Recipe, WORLD, Workplace};
use std::fs;

const ESBUILD: Program = Program { names: &["esbuild"], install: "npm install --global esbuild" };
const COMPONENTIZE: Program =
    Program { names: &["componentize-qjs"], install: "npm install --global componentize-qjs" };

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let library = recipe.sdk()?.join("index.js");
    let module = work.path().join("tool.js");
    let mut esbuild = ESBUILD.command(&recipe.dir)?;
    let mut componentize = COMPONENTIZE.command(work.path())?;
    say("compiling with esbuild and componentize-qjs");
    esbuild
        .arg(&recipe.source)
        .args(["--bundle", "--format=esm", "--platform=neutral", "--target=es2023", "--log-level=warning"])
        // The library's side that talks to a host, not the one for tests.
        .args(["--conditions=tollgate", "--external:tollgate:*", "--external:wasi:*"])
        .arg(format!("--alias:tollgate={}", library.display()))
        .arg(format!("--outfile={}", module.display()));
    run(esbuild, &recipe.source)?;
    let component = work.path().join("tool.wasm");
    componentize
        .arg("--wit")
        .arg(work.contract()?)
        .args(["--world", WORLD, "--js", "tool.js", "--sync", "--output"])
        .arg(&component);
    run(componentize, &recipe.source)?;
    fs::read(&component).map_err(BuildError::file(&component, "read"))
}
