//! `text-stats` in every language, compiled and loaded.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
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

/// Returns a directory with the tool in every language in `tools`.
pub(crate) fn compiled() -> tempfile::TempDir {
    compiled_from("../../example-tools/text-stats")
}

/// Returns such a directory for another tool, from the directory that holds one for each language. The
/// first test of a run compiles the tool as a person would, and the others copy the result.
pub(crate) fn compiled_from(sources: &str) -> tempfile::TempDir {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
    let tool = sources.file_name().unwrap().to_str().unwrap();
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("languages-{tool}"));
    fs::create_dir_all(&built).unwrap();
    let lock = File::create(built.join("lock")).unwrap();
    lock.lock().unwrap();
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    let of_run = built.join("run");
    if run.is_empty() || fs::read_to_string(&of_run).ok().as_ref() != Some(&run) {
        build_each(&sources, &built);
        fs::write(&of_run, &run).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for language in &LANGUAGES {
        for file in fs::read_dir(built.join(language.name).join("tools")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), tools.join(file.file_name())).unwrap();
        }
    }
    folder
}

/// Compiles a tool in every language, two at a time, each in a directory of its own.
fn build_each(sources: &Path, built: &Path) {
    let left = Mutex::new(LANGUAGES.iter());
    let next = || left.lock().unwrap().next();
    let build_some = || {
        while let Some(language) = next() {
            build(&sources.join(language.name), language, &built.join(language.name));
        }
    };
    thread::scope(|scope| {
        scope.spawn(build_some);
        build_some();
    });
}

fn build(source: &Path, language: &Language, place: &Path) {
    if std::env::var_os("CI").is_some() {
        // Tests must not depend on the results of another run, so nothing is recognized as up to date.
        let _ = fs::remove_file(source.join("build").join(language.name).with_extension("stamp"));
    }
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place).unwrap();
    let mut build = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    build.args(["build"]).arg(source).current_dir(place);
    build.env("TOLLGATE_DATA", place.join("data")).env("TOLLGATE_CACHE", cache());
    build.env("CARGO_TARGET_DIR", guests_target());
    let said = build.output().unwrap();
    assert!(said.status.success(), "{}: {}", language.name, String::from_utf8_lossy(&said.stderr));
}

/// Returns the directory in which compiled code is kept from one test to the next.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-cache")
}

/// Returns the target directory of the example tools, in which their library is compiled already.
pub(crate) fn guests_target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("example-tools")
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
    let loaded = directory::load(&sandbox, &config, &|_, _, _: &Path| {}).await.unwrap();
    assert_eq!(loaded.toolbox.refused().len(), 0, "{:?}", loaded.toolbox.refused());
    (loaded.toolbox, sandbox)
}
