//! C, compiled by zig's compiler, which comes with a C library for WASI.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::component;
use super::program::{Program, list_files, run};
use super::work_dir::WorkDir;
use std::path::PathBuf;

pub(crate) const ZIG: Program = Program { names: &["zig", "python-zig"], install: "pip install ziglang" };

/// The sources of the library. The linker leaves out what a tool does not call.
const LIBRARY: [&str; 8] = [
    "bindings/guest.c",
    "json.c",
    "overlay.c",
    "tollgate.c",
    "tollgate_child.c",
    "tollgate_child_host.c",
    "tollgate_http.c",
    "tollgate_http_host.c",
];

pub(super) fn compile(recipe: &Recipe, work: &WorkDir, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let sdk = recipe.sdk()?;
    let module = work.path().join("module.wasm");
    let mut zig = ZIG.command(&recipe.dir)?;
    say("compiling with zig cc");
    zig.args(["cc", "--target=wasm32-wasi", "-mexec-model=reactor", "-Os", "-std=c17", "-Wall", "-Wextra"])
        // Without debug information zig removes the names of functions, which the frames of traps show.
        .args(["-g", "-Wl,-z,stack-size=65536"])
        .arg("-I")
        .arg(sdk)
        .arg(&recipe.source)
        .args(LIBRARY.map(|file| sdk.join(file)))
        .arg("-o")
        .arg(&module);
    run(zig, &recipe.source, say)?;
    let mut zig = ZIG.command(&recipe.dir)?;
    zig.args(["cc", "--target=wasm32-wasi", "-MM", "-I"]).arg(sdk).arg(&recipe.source);
    for file in needed(&list_files(zig, &recipe.source)?) {
        work.note_read(&recipe.dir.join(file));
    }
    component::of_module(&module)
}

/// Parses the files in a rule for `make`: everything after its colon. A backslash escapes a blank
/// within a name and the end of a line.
fn needed(rule: &str) -> Vec<PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files).replace("\\\n", " ");
    let mut names = vec![String::new()];
    let mut letters = files.chars().peekable();
    while let Some(letter) = letters.next() {
        let name = names.last_mut();
        match (letter, letters.peek()) {
            ('\\', Some(' ' | '#')) | ('$', Some('$')) => {
                if let (Some(name), Some(next)) = (name, letters.next()) {
                    name.push(next);
                }
            }
            (' ' | '\n', _) => names.push(String::new()),
            _ => {
                if let Some(name) = name {
                    name.push(letter);
                }
            }
        }
    }
    names.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_out_of_a_rule() {
        let rule = "t.o: t.c ../q\\ r.h \\\n  /a/$$s.h \\#x\n";
        assert_eq!(needed(rule), ["t.c", "../q r.h", "/a/$s.h", "#x"].map(PathBuf::from));
        assert_eq!(needed("t.o:"), Vec::<PathBuf>::new());
    }
}
