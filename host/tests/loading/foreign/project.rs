//! The sources of a published crate, fetched by cargo and compiled as they are. What is
//! written here names them: which file is a library, and of which world.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What generates the bindings of its components.
const LIBRARY: &str = "wit-bindgen";

/// Components of a crate's sources.
pub(super) struct Project {
    built: PathBuf,
}

impl Project {
    /// Compiles one component for each folder, with the file that implements it and the
    /// world that its `test.wit` calls so.
    pub(super) fn build(name: &str, version: &str, within: &str, guests: &[(&str, &str, &str)]) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
        let sources = sources(&place.join("sources"), name, version).join(within);
        let workspace = place.join("guests");
        let members: Vec<&str> = guests.iter().map(|(folder, ..)| *folder).collect();
        let manifest = format!("[workspace]\nmembers = {members:?}\nresolver = \"3\"\n");
        write(&workspace.join("Cargo.toml"), &manifest);
        for (folder, file, world) in guests {
            describe(&workspace.join(folder), version, &sources.join(folder), file, world);
        }
        let target = place.join("target");
        cargo(Command::new(env!("CARGO")).args(["build", "--release", "--target", "wasm32-wasip2"]).args([
            "--manifest-path".as_ref(),
            workspace.join("Cargo.toml").as_os_str(),
            "--target-dir".as_ref(),
            target.as_os_str(),
        ]));
        Self { built: target.join("wasm32-wasip2/release") }
    }

    /// The component of this folder.
    pub(super) fn component(&self, folder: &str) -> Vec<u8> {
        fs::read(self.built.join(folder.replace('-', "_")).with_extension("wasm")).unwrap()
    }
}

/// Where cargo puts the sources of this version of a crate. Cargo does not say that of a
/// crate that is a program, so it is asked for the library with which it is published.
fn sources(place: &Path, name: &str, version: &str) -> PathBuf {
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{LIBRARY} = \"={version}\"\n\
         {name} = {{ version = \"={version}\", default-features = false }}\n"
    );
    write(&place.join("Cargo.toml"), &manifest);
    write(&place.join("src/lib.rs"), "");
    let in_place = |arguments: &[&str]| cargo(Command::new(env!("CARGO")).args(arguments).current_dir(place));
    in_place(&["fetch", "--target", "wasm32-wasip2"]);
    let metadata = in_place(&["metadata", "--format-version", "1", "--filter-platform", "wasm32-wasip2"]);
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let library = packages.iter().find(|package| package["name"] == LIBRARY).unwrap();
    let manifest = Path::new(library["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().with_file_name(format!("{name}-{version}"))
}

/// A package around one file of the sources, which includes its bindings by the name of
/// a variable.
fn describe(package: &Path, version: &str, sources: &Path, file: &str, world: &str) {
    let name = sources.file_name().unwrap().to_str().unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [lib]\npath = {:?}\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n{LIBRARY} = \"={version}\"\n",
        sources.join(file)
    );
    write(&package.join("Cargo.toml"), &manifest);
    let bindings = package.join("bindings.rs");
    let build = format!("fn main() {{ println!(\"cargo::rustc-env=BINDINGS={{}}\", {bindings:?}); }}\n");
    write(&package.join("build.rs"), &build);
    let wit = sources.join("test.wit");
    write(&bindings, &format!("wit_bindgen::generate!({{ path: {wit:?}, world: {world:?} }});\n"));
}

/// Writes a file unless it says so already, so that nothing is compiled twice.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return;
    }
    fs::write(path, text).unwrap();
}

fn cargo(command: &mut Command) -> Vec<u8> {
    // Flags for the build that runs the tests do not fit wasm.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
