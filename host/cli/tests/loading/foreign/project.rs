//! The sources of a published crate, compiled unchanged. This code states which file is a library,
//! and of which world.

use super::sources::{LIBRARY, cargo, sources, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Components built from a crate's sources.
pub(super) struct Project {
    built: PathBuf,
}

impl Project {
    /// Compiles one component for each folder, from the file that implements it and the world with
    /// this name in its `test.wit`.
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

    /// Returns the component of this folder.
    pub(super) fn component(&self, folder: &str) -> Vec<u8> {
        fs::read(self.built.join(folder.replace('-', "_")).with_extension("wasm")).unwrap()
    }
}

/// Writes a package around one source file, which includes its bindings through a variable.
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
