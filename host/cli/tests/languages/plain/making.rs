//! Builds the component of each language as its toolchain's own documentation describes. Only the
//! two steps for modules of WASI preview 1 are this project's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::{Files, WorldGenerator, wit_parser};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// A world, in a WIT file.
pub(super) struct World {
    pub(super) wit: PathBuf,
    pub(super) name: &'static str,
    /// The string encoding of its component.
    pub(super) encoding: StringEncoding,
}

pub(super) fn javascript(world: &World, source: &Path) -> Vec<u8> {
    javascript_with(world, source, &["--sync"])
}

/// Builds a JavaScript component with these options of its toolchain.
pub(super) fn javascript_with(world: &World, source: &Path, options: &[&str]) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let component = place.path().join("component.wasm");
    let mut componentize = Command::new("componentize-qjs");
    componentize.arg("--wit").arg(&world.wit).args(["--world", world.name]).args(options).arg("--js");
    componentize.arg(source.file_name().unwrap()).arg("--output").arg(&component);
    run(componentize.current_dir(source.parent().unwrap()));
    fs::read(component).unwrap()
}

pub(super) fn python(world: &World, source: &Path) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let component = place.path().join("component.wasm");
    let mut componentize = Command::new("componentize-py");
    componentize.arg("-d").arg(&world.wit).args(["-w", world.name, "componentize"]);
    componentize.arg(source.file_stem().unwrap()).arg("-o").arg(&component);
    run(componentize.current_dir(source.parent().unwrap()).env_remove("VIRTUAL_ENV"));
    fs::read(component).unwrap()
}

pub(super) fn c(world: &World, source: &Path) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let string_encoding = world.encoding.to_string().parse().unwrap();
    let options = wit_bindgen_c::Opts { string_encoding, ..Default::default() };
    write_bindings(options.build().as_mut(), world, place.path());
    let bindings = world.name.replace('-', "_");
    let mut zig = Command::new("zig");
    zig.args(["cc", "--target=wasm32-wasi", "-mexec-model=reactor", "-Os", "-I", "."]);
    // The object contains the world's type.
    zig.arg(source).args([format!("{bindings}.c"), format!("{bindings}_component_type.o")]);
    run(zig.args(["-o", "module.wasm"]).current_dir(place.path()));
    component(&fs::read(place.path().join("module.wasm")).unwrap())
}

/// Builds a Go component. Each source is a Go package, whose name its bindings generator chose.
pub(super) fn go(world: &World, sources: &[PathBuf]) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    write_bindings(wit_bindgen_go::Opts::default().build().as_mut(), world, place.path());
    for source in sources {
        let text = fs::read_to_string(source).unwrap();
        let package = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap();
        fs::create_dir(place.path().join(package)).unwrap();
        fs::write(place.path().join(package).join("exports.go"), text).unwrap();
    }
    // The package that the bindings call is published with their generator.
    let named = "go.bytecodealliance.org/pkg";
    let manifest = format!(
        "module wit_component\n\ngo 1.27.1\n\nrequire {named} v0.0.0\n\nreplace {named} => {}\n",
        generator_of_go().join("src/pkg").display()
    );
    fs::write(place.path().join("go.mod"), manifest).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -checklinkname=0"])
        .args(["-o", "module.wasm", "."])
        .envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local")]);
    run(go.current_dir(place.path()));
    let mut module = fs::read(place.path().join("module.wasm")).unwrap();
    let mut resolve = ::wit_parser::Resolve::default();
    let package = resolve.push_file(&world.wit).unwrap();
    let id = resolve.select_world(&[package], Some(world.name)).unwrap();
    embed_component_metadata(&mut module, &resolve, id, world.encoding).unwrap();
    component(&module)
}

/// Returns the directory in which cargo keeps the generator of Go's bindings, compiled for these
/// tests.
fn generator_of_go() -> PathBuf {
    let here = run(Command::new("rustc").args(["--print", "host-tuple"]));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"]);
    cargo.arg(String::from_utf8(here).unwrap().trim());
    let said = run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let packages = said["packages"].as_array().unwrap();
    let generator = packages.iter().find(|package| package["name"] == "wit-bindgen-go").unwrap();
    Path::new(generator["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

fn write_bindings(generator: &mut dyn WorldGenerator, world: &World, place: &Path) {
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_file(&world.wit).unwrap();
    let world = resolve.select_world(&[package], Some(world.name)).unwrap();
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files).unwrap();
    for (name, bytes) in files.iter() {
        let file = place.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}

/// Returns the component of a module that contains its type.
fn component(module: &[u8]) -> Vec<u8> {
    let encoder = ComponentEncoder::default().validate(true).module(module).unwrap();
    encoder
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        .unwrap()
        .encode()
        .unwrap()
}

/// Runs a compiler to completion, and returns its output.
fn run(command: &mut Command) -> Vec<u8> {
    let said = command.output().unwrap();
    assert!(said.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&said.stderr));
    said.stdout
}
