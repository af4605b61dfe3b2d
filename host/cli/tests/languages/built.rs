//! `text-stats` in every language, compiled and loaded.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tollgate::Host;
use tollgate::config::Config;
use tollgate::tools::{Toolbox, directory};
use tollgate_sandbox::Sandbox;

/// A language, by its directory in `example-tools/text-stats`.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    suffix: &'static str,
}

/// All languages; the others are compared with the first.
pub(crate) const LANGUAGES: [Language; 6] = [
    Language { name: "rust", suffix: "rust" },
    Language { name: "c", suffix: "c" },
    Language { name: "go", suffix: "go" },
    Language { name: "javascript", suffix: "js" },
    Language { name: "typescript", suffix: "ts" },
    Language { name: "python", suffix: "py" },
];

impl Language {
    /// Returns the name of its tool.
    pub(crate) fn tool(&self) -> String {
        format!("text_stats_{}", self.suffix)
    }

    /// Returns the name of its tour.
    pub(crate) fn tour(&self) -> String {
        format!("tour_{}", self.suffix)
    }
}

/// Returns a directory with the tool in every language in `tools`, compiled as a person would
/// unless it is up to date.
pub(crate) fn compiled() -> tempfile::TempDir {
    compiled_from("../../example-tools/text-stats")
}

/// Returns such a directory for another tool, from the directory that holds one for each language.
pub(crate) fn compiled_from(sources: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
    if std::env::var_os("CI").is_some() {
        forget_what_was_built(&sources);
    }
    for language in LANGUAGES {
        let mut build = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        build.args(["build"]).arg(sources.join(language.name)).current_dir(folder.path());
        build.env("TOLLGATE_DATA", folder.path().join("data")).env("TOLLGATE_CACHE", cache());
        build.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-guests"));
        let said = output_of_build(&mut build);
        assert!(said.status.success(), "{}: {}", language.name, String::from_utf8_lossy(&said.stderr));
    }
    folder
}

/// Removes the stamps by which `build` recognizes what is up to date, once per test run. Tests must
/// not depend on the results of another run.
fn forget_what_was_built(sources: &Path) {
    let _alone = alone();
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    let tool = sources.file_name().unwrap().to_str().unwrap();
    let forgotten = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("languages-{tool}.run"));
    if !run.is_empty() && fs::read_to_string(&forgotten).is_ok_and(|before| before == run) {
        return;
    }
    for Language { name, .. } in LANGUAGES {
        let stamp = sources.join(name).join("build").join(name).with_extension("stamp");
        let _ = fs::remove_file(stamp);
    }
    fs::write(forgotten, run).unwrap();
}

/// Returns the directory in which compiled code is kept from one test to the next.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-cache")
}

/// Runs a build while no other test compiles.
pub(crate) fn output_of_build(build: &mut Command) -> Output {
    let _alone = alone();
    build.output().unwrap()
}

/// Returns a lock that is held by the one test that compiles; the others find what it compiled.
/// Compiling all at once would exceed the time limit of each compilation.
fn alone() -> File {
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Returns the limits of each tool as configuration text.
pub(crate) fn limits_of_each(limits: impl Fn(&Language) -> String) -> String {
    let table = |language: &Language| format!("[tools.{}.limits]\n{}\n", language.tool(), limits(language));
    LANGUAGES.iter().map(table).collect()
}

/// Creates a host that serves the `tools` of a directory.
pub(crate) async fn serve(folder: &Path, limits: &str) -> Host {
    let (toolbox, _) = load(folder, limits).await;
    Host::builder().toolbox(toolbox).build().unwrap()
}

/// Loads the `tools` of a directory, and returns them with their sandbox.
pub(crate) async fn load(folder: &Path, limits: &str) -> (Toolbox, Sandbox) {
    let text = format!("[tools]\ndir = \"tools\"\n{limits}");
    let mut config = Config::parse(&folder.join("tollgate.toml"), &text).unwrap();
    config.limits.sandbox.cache_dir = Some(cache());
    config.tools_dir = folder.join("tools");
    let sandbox = Sandbox::new(config.limits.sandbox.clone()).unwrap();
    let _alone = alone();
    let loaded = directory::load(&sandbox, &config, &|_, _, _: &Path| {}).await.unwrap();
    assert_eq!(loaded.toolbox.refused().len(), 0, "{:?}", loaded.toolbox.refused());
    (loaded.toolbox, sandbox)
}
