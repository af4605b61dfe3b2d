//! Python, compiled by componentize-py, which bundles an interpreter with the tool.

use super::super::error::BuildError;
use super::super::recipe::Recipe;
use super::program::{Program, run};
use super::work_dir::{WORLD, WorkDir};
use std::fs;

/// Runs the tests of Python tools.
pub(crate) const PYTHON: Program =
    Program { names: &["python3"], install: "apt install python3, or see https://python.org" };
pub(super) const COMPONENTIZE: Program =
    Program { names: &["componentize-py"], install: "pip install componentize-py" };
/// The directory of a project with the packages that its tool imports.
pub(in crate::project) const PACKAGES: &str = "packages";

/// The module that componentize-py loads, which imports the tool's: `MODULE` is its name.
const ENTRY: &str = include_str!("entry.py");
/// Parses a source. The component has Python 3.14, so an older one rejects nothing: it may not know
/// the syntax.
const CHECK: &str = "import sys
try:
    compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')
except SyntaxError:
    sys.excepthook(*sys.exc_info())
    sys.exit(sys.version_info >= (3, 14))";

pub(super) fn compile(recipe: &Recipe, work: &WorkDir, say: &dyn Fn(&str)) -> Result<Vec<u8>, BuildError> {
    let component = work.path().join("tool.wasm");
    let Some(module) = recipe.source.file_stem() else {
        return Err(BuildError::Usage(format!("{} is not a Python module", recipe.source.display())));
    };
    if let Ok(mut python) = PYTHON.command(&recipe.dir) {
        python.args(["-c", CHECK]).arg(&recipe.source);
        run(python, &recipe.source, say)?;
    }
    let entry = work.path().join("entry");
    let environment = work.path().join("environment");
    for dir in [&entry, &environment.join("lib/site-packages")] {
        fs::create_dir_all(dir).map_err(BuildError::file(dir, "created"))?;
    }
    let file = entry.join("entry.py");
    let text = ENTRY.replace("MODULE", &module.to_string_lossy());
    fs::write(&file, text).map_err(BuildError::file(&file, "written"))?;
    let mut componentize = COMPONENTIZE.command(&recipe.dir)?;
    say("compiling with componentize-py");
    componentize
        // An empty virtual environment, in place of the packages of the Python on the path.
        .env("VIRTUAL_ENV", environment)
        .arg("-d")
        .arg(work.contract()?)
        .args(["-w", WORLD, "componentize", "entry", "-p", ".", "-p"])
        .arg(recipe.sdk()?);
    if recipe.dir.join(PACKAGES).is_dir() {
        componentize.args(["-p", PACKAGES]);
    }
    componentize.arg("-p").arg(entry).arg("-o").arg(&component);
    run(componentize, &recipe.source, say)?;
    fs::read(&component).map_err(BuildError::file(&component, "read"))
}
