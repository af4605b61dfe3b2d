//! Runs a project's own tests with the tools of its language. The tests call the tool as a plain
//! function, outside the sandbox.

use super::error::BuildError;
use super::languages::{self, GO, NODE, NPM, PACKAGES, PYTHON, Program, ZIG};
use super::recipe::{Language, RECIPE, Recipe};
use super::{cargo, target_dir};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the tests of the project in `dir`, with their output on standard error. Returns whether they
/// passed.
///
/// # Errors
/// There is no project, it has no tests, or a program is missing.
pub(crate) fn test(dir: &Path, say: &dyn Fn(&str)) -> Result<bool, BuildError> {
    if dir.join("Cargo.toml").is_file() {
        let target_dir = target_dir(dir);
        let _lock = cargo::lock_target(dir, target_dir.as_deref(), say)?;
        let mut cargo = cargo::cargo(target_dir.as_deref());
        cargo.arg("test").current_dir(dir);
        return passes(cargo, "cargo test", say);
    }
    if !dir.join(RECIPE).is_file() {
        return Err(BuildError::Usage(format!(
            "no project in {}: it has no Cargo.toml and no {RECIPE}; name its directory",
            dir.display()
        )));
    }
    let recipe = Recipe::load(dir)?;
    let needs: &[&Program] = match recipe.language {
        Language::C => &[&ZIG],
        Language::Go => &[&GO],
        Language::JavaScript | Language::TypeScript => &[&NODE, &NPM],
        Language::Python => &[&PYTHON],
        Language::Wat => &[],
    };
    languages::check_programs(recipe.language, needs.iter().copied().cloned().collect())?;
    match recipe.language {
        Language::C => c(&recipe, say),
        Language::Go => {
            let mut go = GO.command(&recipe.dir)?;
            go.args(["test", "./..."]);
            passes(go, "go test ./...", say)
        }
        Language::JavaScript | Language::TypeScript => javascript(&recipe, say),
        Language::Python => {
            let mut python = PYTHON.command(&recipe.dir)?;
            let path = [recipe.sdk()?.to_owned(), recipe.dir.join(PACKAGES)];
            let path = std::env::join_paths(path).map_err(|e| BuildError::Usage(e.to_string()))?;
            python.args(["-m", "unittest"]).env("PYTHONPATH", path);
            passes(python, "python3 -m unittest", say)
        }
        Language::Wat => Err(BuildError::Usage(
            "a tool in the text format has no tests of its own; call it with `tollgate call`".to_owned(),
        )),
    }
}

fn c(recipe: &Recipe, say: &dyn Fn(&str)) -> Result<bool, BuildError> {
    let (sdk, out) = (recipe.sdk()?, recipe.dir.join("build"));
    let source = recipe.dir.join("test.c");
    if !source.is_file() {
        return Err(BuildError::Usage(format!("{} is missing; it holds the tests", source.display())));
    }
    fs::create_dir_all(&out).map_err(BuildError::file(&out, "created"))?;
    let program = out.join("test");
    let mut zig = ZIG.command(&recipe.dir)?;
    zig.args(["cc", "-I"]).arg(sdk).arg("-o").arg(&program).arg(&source).arg(&recipe.source);
    zig.arg(sdk.join("tollgate_testing.c"));
    if !passes(zig, "zig cc test.c", say)? {
        return Ok(false);
    }
    let mut test = Command::new(&program);
    test.current_dir(&recipe.dir);
    passes(test, "build/test", say)
}

fn javascript(recipe: &Recipe, say: &dyn Fn(&str)) -> Result<bool, BuildError> {
    // npm runs the tests with node, whose absence it reports badly.
    NODE.command(&recipe.dir)?;
    if !recipe.dir.join("node_modules").is_dir() {
        let mut npm = NPM.command(&recipe.dir)?;
        npm.args(["install", "--no-audit", "--no-fund", "--no-update-notifier"]);
        if !passes(npm, "npm install", say)? {
            return Ok(false);
        }
    }
    let run = |arguments: &[&str], shown| {
        let mut npm = NPM.command(&recipe.dir)?;
        npm.args(arguments).arg("--no-update-notifier").env("PATH", Program::search_path());
        passes(npm, shown, say)
    };
    Ok(run(&["test"], "npm test")?
        && (!has_script(&recipe.dir, "check") || run(&["run", "check"], "npm run check")?))
}

/// Returns whether `package.json` has this script. New projects in TypeScript have `check`, which checks types.
fn has_script(dir: &Path, name: &str) -> bool {
    let package = fs::read(dir.join("package.json")).ok();
    let package = package.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    package.is_some_and(|package| package["scripts"][name].is_string())
}

fn passes(mut command: Command, shown: &str, say: &dyn Fn(&str)) -> Result<bool, BuildError> {
    say(&format!("running {shown}"));
    command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    let status = command.spawn().and_then(|child| languages::wait(child, shown, say));
    let status = status.map_err(|e| BuildError::Failed(format!("{shown} cannot be run: {e}")))?;
    Ok(status.success())
}
