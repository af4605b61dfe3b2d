//! The bindings in the C library match the contract.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use tollgate_artifacts::c_bindings;

#[test]
fn the_bindings_of_the_c_library_are_those_of_the_contract() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/c/bindings");
    let generated = c_bindings().unwrap();
    let mut names: Vec<String> =
        fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["guest.c", "guest.h"]);
    for name in names {
        let (_, wanted) = generated.iter().find(|(generated, _)| *generated == name).unwrap();
        if std::env::var_os("UPDATE_BINDINGS").is_some() {
            fs::write(kept.join(&name), wanted).unwrap();
        }
        let found = fs::read(kept.join(&name)).unwrap();
        assert!(
            found == *wanted,
            "guest-sdk/c/bindings/{name} is not what wit-bindgen writes for wit/; write it anew: \
             UPDATE_BINDINGS=1 cargo test -p tollgate-artifacts --test c_bindings"
        );
    }
}
