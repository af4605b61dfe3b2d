//! The macro's output is specified by files: `tests/expansions/NAME.rs` becomes
//! `NAME.expanded.rs`. `UPDATE_EXPANSIONS=1` rewrites them.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::tool;
use crate::attributes::Attributes;
use std::path::{Path, PathBuf};
use std::{env, fs};
use syn::{ItemFn, Meta, parse_quote};

fn expand(source: &str) -> String {
    let mut item: ItemFn = syn::parse_str(source).unwrap();
    let at = item.attrs.iter().position(|attribute| attribute.path().is_ident("tool")).unwrap();
    let attributes: Attributes = match item.attrs.remove(at).meta {
        Meta::List(list) => list.parse_args().unwrap(),
        _ => parse_quote!(),
    };
    let file = syn::parse2(tool(attributes, item).unwrap()).unwrap();
    prettyplease::unparse(&file)
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expansions");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        files.filter(|path| !path.to_str().unwrap().ends_with(".expanded.rs")).collect();
    cases.sort();
    cases
}

#[test]
fn k1_expansions_are_as_their_files_say() {
    let cases = cases();
    assert!(cases.len() >= 5, "the cases are gone: {cases:?}");
    for case in cases {
        let expanded = expand(&fs::read_to_string(&case).unwrap());
        let file = case.with_extension("expanded.rs");
        if env::var_os("UPDATE_EXPANSIONS").is_some() {
            fs::write(&file, &expanded).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            expanded == expected,
            "{} expands to this, which {} does not say:\n{expanded}",
            case.display(),
            file.display(),
        );
    }
}
