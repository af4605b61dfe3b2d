//! Generates a constant and a table entry for each guest file. A file whose header lacks the
//! directives that its folder requires, above all its expectation, fails the build.

#![allow(clippy::panic, reason = "a wrong guest stops the build")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/header.rs"]
mod header;

use header::{Expected, Header};

fn main() {
    let guests =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder")).join("../guests");
    let mut code = String::new();
    for (folder, table) in [("hostile", "HOSTILE"), ("gates", "GATES"), ("good", "GOOD")] {
        let folder_path = guests.join(folder);
        println!("cargo:rerun-if-changed={}", folder_path.display());
        code.push_str(&table_of(&folder_path, folder, table));
    }
    for (folder, name) in [("hostile", "for_each_hostile_guest"), ("gates", "for_each_hostile_gate")] {
        code.push_str(&for_each(&guests.join(folder), folder, name));
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo names a folder for output"));
    fs::write(out.join("guests.rs"), code).expect("cargo's folder for output is writable");
}

/// Returns a module of constants named after the files, and a table of all of them.
fn table_of(folder_path: &Path, folder: &str, table: &str) -> String {
    let mut constants = String::new();
    let mut rows = String::new();
    for path in guest_files(folder_path) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("names are ASCII");
        let source = fs::read_to_string(&path).expect("guests are text");
        let header = Header::parse(&source)
            .and_then(|header| header.complete_for(folder))
            .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let constant = name.to_uppercase().replace('-', "_");
        let _ = writeln!(
            constants,
            "/// {attack}\npub const {constant}: crate::Guest = crate::Guest {{ name: {name:?}, \
             attack: {attack:?}, limit: {limit:?}, expects: {expects}, \
             source: include_str!({path:?}) }};",
            attack = header.attack,
            limit = header.limit,
            expects = expectation(header.expects.as_ref()),
            path = path.display().to_string(),
        );
        let _ = write!(rows, "{folder}::{constant}, ");
    }
    format!(
        "/// The guests of `tests/guests/{folder}`, each a constant.\npub mod {folder} {{\n\
         {constants}}}\n/// All guests of `tests/guests/{folder}`, by name.\n\
         pub const {table}: &[Guest] = &[{rows}];\n"
    )
}

/// Returns a macro that passes all guests of a folder to another macro.
fn for_each(folder_path: &Path, folder: &str, name: &str) -> String {
    let names = guest_files(folder_path)
        .into_iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.replace('-', "_")));
    let pairs: String = names.map(|name| format!("{name} = {},\n", name.to_uppercase())).collect();
    format!(
        "/// Expands to `$with! {{ spin_for_ever = SPIN_FOR_EVER, ... }}`: a test for each guest\n\
         /// of `tests/guests/{folder}`, say.\n#[macro_export]\n\
         macro_rules! {name} {{\n($with:ident) => {{ $with! {{ {pairs} }} }};\n}}\n"
    )
}

fn expectation(expected: Option<&Expected>) -> String {
    match expected {
        Some(Expected::Code(code)) => format!("crate::Expectation::Code({code:?})"),
        Some(Expected::Refused(words)) => format!("crate::Expectation::Refused({words:?})"),
        Some(Expected::Succeeds) | None => "crate::Expectation::Succeeds".to_owned(),
    }
}

fn guest_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of guests is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder of guests is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wat"))
        .collect();
    files.sort();
    files
}
