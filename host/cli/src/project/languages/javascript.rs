//! JavaScript and TypeScript: the TypeScript compiler reads the types of the tools, esbuild bundles
//! the tool and its imports into one module, and componentize-qjs makes a component of that module
//! and an engine.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::lines;
use super::program::{Program, run, run_explained};
use super::workplace::Workplace;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const ESBUILD: Program = Program { names: &["esbuild"], install: "npm install --global esbuild" };
pub(super) const COMPONENTIZE: Program =
    Program { names: &["componentize-qjs"], install: "npm install --global componentize-qjs" };
pub(crate) const NODE: Program =
    Program { names: &["node"], install: "apt install nodejs, or see https://nodejs.org" };
pub(super) const TYPESCRIPT: Program =
    Program { names: &["tsc"], install: "npm install --global typescript@6" };
/// The modules of Node that a tool may import, and the library's files that take their place.
const NODE_MODULES: [(&str, &str); 4] = [
    ("node:fs", "node/fs.js"),
    ("fs", "node/fs.js"),
    ("node:fs/promises", "node/promises.js"),
    ("fs/promises", "node/promises.js"),
];
/// The compiler as a module within its package. Packages from version 7 on have none.
const COMPILER: &str = "lib/typescript.js";

pub(super) fn compile(recipe: &Recipe, work: &Workplace, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let library = recipe.sdk()?;
    let module = work.path().join("tool.js");
    let (derived, read) = (work.path().join("derived.json"), work.path().join("read.json"));
    let mut esbuild = ESBUILD.command(&recipe.dir)?;
    let mut componentize = COMPONENTIZE.command(work.path())?;
    let mut node = NODE.command(&recipe.dir)?;
    node.arg(library.join("describe/main.js")).arg(compiler(&recipe.dir)?).arg(&recipe.source);
    node.arg(&derived).arg(&read);
    say("reading the types of the tools");
    run(node, &recipe.source, say)?;
    // esbuild does not report files that hold only types.
    for file in said(&read)?.as_array().into_iter().flatten().filter_map(Value::as_str) {
        work.reads(Path::new(file));
    }
    say("compiling with esbuild and componentize-qjs");
    esbuild
        .arg(&recipe.source)
        .args(["--bundle", "--format=esm", "--platform=neutral", "--target=es2023", "--log-level=warning"])
        .arg("--main-fields=browser,module,main")
        // The engine runs no callbacks of its own promises during a call: see web/promise.js.
        .args(
            ["async-await", "async-generator", "for-await", "top-level-await"]
                .map(|it| format!("--supported:{it}=false")),
        )
        .arg(format!("--inject:{}", library.join("web/globals.js").display()))
        // The side of the library that talks to a host, not the one for tests.
        .args(["--conditions=tollgate", "--external:tollgate:*", "--external:wasi:*"])
        .arg(format!("--alias:tollgate={}", library.join("index.js").display()))
        .arg(format!("--alias:#derived={}", derived.display()))
        .args(NODE_MODULES.map(|(name, file)| format!("--alias:{name}={}", library.join(file).display())))
        .arg(format!("--outfile={}", module.display()));
    let bundled = work.path().join("bundled.json");
    esbuild.arg("--sourcemap=external").arg(format!("--metafile={}", bundled.display()));
    run_explained(esbuild, &recipe.source, explained)?;
    let bundled = said(&bundled)?;
    for file in bundled["inputs"].as_object().into_iter().flat_map(Map::keys) {
        work.reads(&recipe.dir.join(file));
    }
    let map = said(&module.with_extension("js.map"))?;
    let lines = lines::table(&map, work.path(), &[&recipe.dir, library.parent().unwrap_or(library)]);
    let bundle = fs::OpenOptions::new().append(true).open(&module);
    let written = bundle.and_then(|mut bundle| bundle.write_all(lines.as_bytes()));
    written.map_err(BuildError::file(&module, "written"))?;
    let world = work.world(&imports(&bundled), &library.join("wit/wasi.wit"))?;
    let component = work.path().join("tool.wasm");
    componentize
        .arg("--wit")
        .arg(world)
        .args(["--world", "tollgate:made/made", "--js", "tool.js", "--sync", "--output"])
        .arg(&component);
    run(componentize, &recipe.source, say)?;
    fs::read(&component).map_err(BuildError::file(&component, "read"))
}

/// Returns the interfaces that a bundle imports, by esbuild's report: the engine would import
/// everything that its world has.
fn imports(bundled: &Value) -> Vec<String> {
    let outputs = bundled["outputs"].as_object().into_iter().flat_map(Map::values);
    let imports = outputs.filter_map(|output| output["imports"].as_array()).flatten();
    let names: BTreeSet<&str> = imports.filter_map(|import| import["path"].as_str()).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Replaces the options that esbuild recommends if it does not find a module, because none of them
/// helps here.
fn explained(said: &str) -> String {
    let mut module = "";
    let mut text = String::new();
    for line in said.lines() {
        if let Some((_, name)) = line.split_once("Could not resolve \"") {
            module = name.trim_end_matches('"');
        }
        if line.contains("\"--platform=node\"") {
            text.push_str("  Of the modules of Node, a tool has fs and fs/promises. Use fetch for HTTP; processes and sockets are not available.");
        } else if line.contains("as external to exclude it from the bundle") {
            let parts = if module.starts_with('@') { 2 } else { 1 };
            let package = module.split('/').take(parts).collect::<Vec<_>>().join("/");
            text.push_str("  To add the package, type in the tool's directory: npm install ");
            text.push_str(&package);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// Reads a program's report on its work, with paths relative to where it ran.
fn said(file: &Path) -> Result<Value, BuildError> {
    let text = fs::read_to_string(file).map_err(BuildError::file(file, "read"))?;
    serde_json::from_str(&text).map_err(|e| BuildError::Failed(format!("{}: {e}", file.display())))
}

/// Finds the TypeScript compiler: the project's own, or the one that `tsc` on the path belongs to.
pub(super) fn compiler(project: &Path) -> Result<PathBuf, BuildError> {
    let own = project.ancestors().map(|dir| dir.join("node_modules/typescript"));
    let tsc = TYPESCRIPT.find().and_then(|tsc| tsc.canonicalize().ok());
    let global = tsc.as_deref().and_then(|tsc| tsc.parent()?.parent()).map(Path::to_owned);
    let found = own.chain(global).map(|package| package.join(COMPILER)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let Some(tsc) = tsc else {
            return BuildError::Failed(format!("tsc is not installed. Type: {}", TYPESCRIPT.install));
        };
        BuildError::Failed(format!(
            "{} is not from TypeScript 6, which reads the types of the tools. Type: {}, or within the project: npm install --save-dev typescript@6",
            tsc.display(),
            TYPESCRIPT.install
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn esbuild_recommends_what_helps_a_tool() {
        let said = "✘ [ERROR] Could not resolve \"@scope/pkg/sub\"\n\n    tool.js:1:15:\n\n  You can mark the \
            path \"@scope/pkg/sub\" as external to exclude it from the bundle, which will remove this error.\n\
            ✘ [ERROR] Could not resolve \"net\"\n\n  Are you trying to bundle for node? You can use \
            \"--platform=node\" to do that.\n";
        assert_eq!(
            explained(said),
            "✘ [ERROR] Could not resolve \"@scope/pkg/sub\"\n\n    tool.js:1:15:\n\n  To add the package, type in \
            the tool's directory: npm install @scope/pkg\n✘ [ERROR] Could not resolve \"net\"\n\n  Of the \
            modules of Node, a tool has fs and fs/promises. Use fetch for HTTP; processes and sockets are not \
            available.\n"
        );
    }

    #[test]
    fn a_projects_own_compiler_comes_first_if_it_has_a_module() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let project = place.join("hello");
        let package = |dir: &Path| dir.join("node_modules/typescript");
        for dir in [&place, &project] {
            fs::create_dir_all(package(dir).join("lib")).unwrap();
        }
        fs::write(package(&place).join(COMPILER), "").unwrap();
        assert_eq!(compiler(&project).unwrap(), package(&place).join(COMPILER), "the nearer one has none");
        fs::write(package(&project).join(COMPILER), "").unwrap();
        assert_eq!(compiler(&project).unwrap(), package(&project).join(COMPILER));
    }
}
