//! JavaScript and TypeScript: the TypeScript compiler reads the types of the tools, esbuild bundles
//! the tool and its imports into one module, and componentize-qjs makes a component of that module
//! and an engine.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::lines;
use super::program::{Program, run, run_rewritten};
use super::work_dir::WorkDir;
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
/// The TypeScript compiler as a module within its package. Packages from version 7 on have none.
const COMPILER: &str = "lib/typescript.js";
/// The module in the working directory that esbuild writes and componentize-qjs reads.
const MODULE: &str = "tool.js";

pub(super) fn compile(recipe: &Recipe, work: &WorkDir, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let types = describe_types(recipe, work, say)?;
    say("compiling with esbuild and componentize-qjs");
    let report = bundle(recipe, work, &types)?;
    append_line_table(recipe, work)?;
    let world = work.world(&imports(&report), &recipe.sdk()?.join("wit/wasi.wit"))?;
    let component = work.path().join("tool.wasm");
    let mut componentize = COMPONENTIZE.command(work.path())?;
    componentize
        .arg("--wit")
        .arg(world)
        .args(["--world", "tollgate:made/made", "--js", MODULE, "--sync", "--output"])
        .arg(&component);
    run(componentize, &recipe.source, say)?;
    fs::read(&component).map_err(BuildError::file(&component, "read"))
}

/// Derives the descriptions of the tools from the types in the source. Returns the file with them.
fn describe_types(recipe: &Recipe, work: &WorkDir, say: &dyn Fn(&str)) -> Result<PathBuf, BuildError> {
    let (derived, read) = (work.path().join("derived.json"), work.path().join("read.json"));
    let mut node = NODE.command(&recipe.dir)?;
    node.arg(recipe.sdk()?.join("describe/main.js")).arg(compiler(&recipe.dir)?).arg(&recipe.source);
    node.arg(&derived).arg(&read);
    say("reading the types of the tools");
    run(node, &recipe.source, say)?;
    // esbuild does not report files that hold only types.
    for file in read_json(&read)?.as_array().into_iter().flatten().filter_map(Value::as_str) {
        work.note_read(Path::new(file));
    }
    Ok(derived)
}

/// Bundles the tool and its imports into [`MODULE`]. Returns esbuild's report on the bundle.
fn bundle(recipe: &Recipe, work: &WorkDir, types: &Path) -> Result<Value, BuildError> {
    let library = recipe.sdk()?;
    let report = work.path().join("bundled.json");
    let mut esbuild = ESBUILD.command(&recipe.dir)?;
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
        .arg(format!("--alias:#derived={}", types.display()))
        .args(NODE_MODULES.map(|(name, file)| format!("--alias:{name}={}", library.join(file).display())))
        .arg(format!("--outfile={}", work.path().join(MODULE).display()))
        .arg("--sourcemap=external")
        .arg(format!("--metafile={}", report.display()));
    run_rewritten(esbuild, &recipe.source, with_applicable_advice)?;
    let report = read_json(&report)?;
    for file in report["inputs"].as_object().into_iter().flat_map(Map::keys) {
        work.note_read(&recipe.dir.join(file));
    }
    Ok(report)
}

/// Appends the table to the bundle that maps its lines to those of the sources.
fn append_line_table(recipe: &Recipe, work: &WorkDir) -> Result<(), BuildError> {
    let (library, module) = (recipe.sdk()?, work.path().join(MODULE));
    let map = read_json(&module.with_extension("js.map"))?;
    let table = lines::table(&map, work.path(), &[&recipe.dir, library.parent().unwrap_or(library)]);
    let bundle = fs::OpenOptions::new().append(true).open(&module);
    let written = bundle.and_then(|mut bundle| bundle.write_all(table.as_bytes()));
    written.map_err(BuildError::file(&module, "written"))
}

/// Returns the interfaces that a bundle imports, by esbuild's report. The component gets a world with
/// these alone, because the engine imports everything that its world has.
fn imports(report: &Value) -> Vec<String> {
    let outputs = report["outputs"].as_object().into_iter().flat_map(Map::values);
    let imports = outputs.filter_map(|output| output["imports"].as_array()).flatten();
    let names: BTreeSet<&str> = imports.filter_map(|import| import["path"].as_str()).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Replaces the advice that esbuild gives if it does not find a module, because none of it helps here.
fn with_applicable_advice(output: &str) -> String {
    let mut module = "";
    let mut text = String::new();
    for line in output.lines() {
        if let Some((_, name)) = line.split_once("Could not resolve \"") {
            module = name.trim_end_matches('"');
        }
        if line.contains("\"--platform=node\"") {
            text.push_str("  Of Node's modules, a tool can import fs and fs/promises. Use fetch for HTTP; processes and sockets are not available.");
        } else if line.contains("as external to exclude it from the bundle") {
            let parts = if module.starts_with('@') { 2 } else { 1 };
            let package = module.split('/').take(parts).collect::<Vec<_>>().join("/");
            text.push_str("  To add the package, run in the tool's directory: npm install ");
            text.push_str(&package);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// Reads a JSON file that a program wrote.
fn read_json(file: &Path) -> Result<Value, BuildError> {
    let text = fs::read_to_string(file).map_err(BuildError::file(file, "read"))?;
    serde_json::from_str(&text)
        .map_err(|e| BuildError::Failed(format!("{} is not valid JSON: {e}", file.display())))
}

/// Finds the TypeScript compiler: the project's own, or the one that `tsc` on the path belongs to.
pub(super) fn compiler(project: &Path) -> Result<PathBuf, BuildError> {
    let own = project.ancestors().map(|dir| dir.join("node_modules/typescript"));
    let tsc = TYPESCRIPT.find().and_then(|tsc| tsc.canonicalize().ok());
    let global = tsc.as_deref().and_then(|tsc| tsc.parent()?.parent()).map(Path::to_owned);
    let found = own.chain(global).map(|package| package.join(COMPILER)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let Some(tsc) = tsc else {
            return BuildError::Failed(format!("tsc is not installed; run: {}", TYPESCRIPT.install));
        };
        BuildError::Failed(format!(
            "{} is not from TypeScript 6, which reads the types of the tools; run: {}, or within the project: npm install --save-dev typescript@6",
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
    fn the_advice_of_esbuild_applies_to_tools() {
        let output = "✘ [ERROR] Could not resolve \"@scope/pkg/sub\"\n\n    tool.js:1:15:\n\n  You can mark the \
            path \"@scope/pkg/sub\" as external to exclude it from the bundle, which will remove this error.\n\
            ✘ [ERROR] Could not resolve \"net\"\n\n  Are you trying to bundle for node? You can use \
            \"--platform=node\" to do that.\n";
        assert_eq!(
            with_applicable_advice(output),
            "✘ [ERROR] Could not resolve \"@scope/pkg/sub\"\n\n    tool.js:1:15:\n\n  To add the package, run in \
            the tool's directory: npm install @scope/pkg\n✘ [ERROR] Could not resolve \"net\"\n\n  Of Node's \
            modules, a tool can import fs and fs/promises. Use fetch for HTTP; processes and sockets are not \
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
