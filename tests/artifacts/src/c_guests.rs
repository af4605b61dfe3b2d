//! The tools in `tests/guests/c`, compiled on demand: bindings are generated from the contract,
//! clang compiles them with the tool into a module, and the module becomes a component.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use wit_bindgen_core::{Files, wit_parser};
use wit_component::ComponentEncoder;

/// The name of the generated files and the prefix of the generated names.
const WORLD: &str = "guest";
const COMPILER: &str = "clang-19";
/// The command that installs the compiler and its libraries.
const INSTALL: &str = "C guests need a compiler: apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 (as root, on Debian)";

/// Returns the component of `tests/guests/c/NAME.c`.
///
/// # Errors
/// One line with the command to run if the compiler is missing; otherwise the compiler's output.
pub fn c_guest_bytes(name: &str) -> Result<Vec<u8>, String> {
    build(name).map_err(|why| format!("{why:#}"))
}

fn build(name: &str) -> Result<Vec<u8>> {
    ensure!(is_installed(), "{INSTALL}");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().context("cannot make a folder to compile in")?;
    for (name, content) in bindings(&project.join("wit"), "tool-component")? {
        let file = folder.path().join(&name);
        fs::write(file, content).with_context(|| format!("cannot write {name}"))?;
    }
    let source = project.join("tests/guests/c").join(name).with_extension("c");
    let module = compile(&source, folder.path())?;
    ComponentEncoder::default().validate(true).module(&module)?.encode()
}

/// Returns whether a compiler and its C library are installed.
fn is_installed() -> bool {
    let runs = Command::new(COMPILER).arg("--version").output().is_ok_and(|output| output.status.success());
    runs && Path::new("/usr/include/wasm32-wasi").is_dir()
}

/// Returns the bindings of the C library: the name of each file and its contents according to the
/// current contract.
///
/// # Errors
/// If the contract does not parse.
pub fn c_bindings() -> Result<Vec<(String, Vec<u8>)>, String> {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    bindings(&contract, "full-tool-component").map_err(|why| format!("{why:#}"))
}

fn bindings(contract: &Path, world: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut resolve = wit_parser::Resolve::default();
    resolve.push_dir(contract).context("the contract in wit/ does not parse")?;
    let world =
        format!("package tollgate:{WORLD};\nworld {WORLD} {{ include tollgate:tool/{world}@0.1.0; }}");
    let package = resolve.push_str("guest.wit", &world)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files)?;
    Ok(files.iter().map(|(name, content)| (name.to_owned(), content.to_owned())).collect())
}

fn compile(source: &Path, folder: &Path) -> Result<Vec<u8>> {
    let module = folder.join("module.wasm");
    let output = Command::new(COMPILER)
        .args(["--target=wasm32-wasi", "--sysroot=/usr", "-isystem", "/usr/include/wasm32-wasi"])
        .args(["-Os", "-mexec-model=reactor", "-Wl,--strip-all"])
        .arg("-I")
        .arg(folder)
        .arg(source)
        .args([folder.join(format!("{WORLD}.c")), folder.join(format!("{WORLD}_component_type.o"))])
        .arg("-o")
        .arg(&module)
        .output()
        .with_context(|| format!("cannot run {COMPILER}"))?;
    if !output.status.success() {
        bail!("{} does not compile:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
    }
    fs::read(&module).context("the compiler left no module")
}
