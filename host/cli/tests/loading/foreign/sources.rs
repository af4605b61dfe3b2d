//! The sources of a published crate, fetched by cargo.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate that generates the components' bindings.
pub(crate) const LIBRARY: &str = "wit-bindgen";

/// Returns the directory in which cargo puts the sources of this version of a crate. Cargo does not
/// report it for a binary crate, so this asks for the library that is published with it.
pub(crate) fn sources(place: &Path, name: &str, version: &str) -> PathBuf {
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

/// Writes a file unless it already has this content, so that nothing is compiled twice.
pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return;
    }
    fs::write(path, text).unwrap();
}

pub(crate) fn cargo(command: &mut Command) -> Vec<u8> {
    // Flags for the build that runs the tests do not apply to wasm.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
