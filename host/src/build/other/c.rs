//! C, by the compiler that comes with zig, which has a C library for WASI with it.

use super::super::BuildError;
use super::program::{Program, run};
use super::{Recipe, Workplace, component};

pub(super) const ZIG: Program = Program { names: &["zig", "python-zig"], install: "pip install ziglang" };

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let sdk = recipe.sdk()?;
    let module = work.path().join("module.wasm");
    let mut zig = ZIG.command(&recipe.dir)?;
    say("compiling with zig cc");
    zig.args(["cc", "--target=wasm32-wasi", "-mexec-model=reactor", "-Os", "-std=c17", "-Wall", "-Wextra"])
        .args(["-Wl,--strip-all", "-Wl,-z,stack-size=65536"])
        .arg("-I")
        .arg(sdk)
        .arg(&recipe.source)
        .args([sdk.join("tollgate.c"), sdk.join("json.c"), sdk.join("bindings/guest.c")])
        .arg("-o")
        .arg(&module);
    run(zig, &recipe.source, say)?;
    component::of_module(&module)
}
