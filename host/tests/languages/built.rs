//! `text-stats` in every language, compiled and loaded.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tollgate::Host;
use tollgate::config::Config;
use tollgate::tools::{Toolbox, directory};
use tollgate_sandbox::{Sandbox, SandboxConfig};

/// A language, by its directory in `example-tools/text-stats`.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    suffix: &'static str,
}

/// All of them; the first is what the others are compared to.
pub(crate) const LANGUAGES: [Language; 6] = [
    Language { name: "rust", suffix: "rust" },
    Language { name: "c", suffix: "c" },
    Language { name: "go", suffix: "go" },
    Language { name: "javascript", suffix: "js" },
    Language { name: "typescript", suffix: "ts" },
    Language { name: "python", suffix: "py" },
];

impl Language {
    /// The name of its tool.
    pub(crate) fn tool(&self) -> String {
        format!("text_stats_{}", self.suffix)
    }
}

/// A directory whose `tools` hold the tool in every language, compiled as a person
/// would where it is not compiled yet.
pub(crate) fn compiled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/text-stats");
    for language in LANGUAGES {
        let mut build = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        build.args(["build"]).arg(sources.join(language.name)).current_dir(folder.path());
        build.env("TOLLGATE_DATA", folder.path().join("data")).env("TOLLGATE_CACHE", cache());
        build.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-guests"));
        let file = Path::new("build").join(language.name).with_extension("wasm");
        let said = output_of_build(&mut build, &sources.join(language.name).join(file));
        assert!(said.status.success(), "{}: {}", language.name, String::from_utf8_lossy(&said.stderr));
    }
    folder
}

/// Where compiled code is kept from one test to the next.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-cache")
}

/// Runs a build, alone. On a machine that is too busy to compile the component in the time
/// that it may take, it is compiled here, where there is no such bound, and the build made
/// once more, which then finds it in the cache.
pub(crate) fn output_of_build(build: &mut Command, wasm: &Path) -> Output {
    let _alone = alone();
    let first = build.output().unwrap();
    if first.status.success() || !String::from_utf8_lossy(&first.stderr).contains("it took longer than") {
        return first;
    }
    let wasm = wasm.to_owned();
    let compiled = std::thread::spawn(move || {
        let config = SandboxConfig { cache_dir: Some(cache()), ..SandboxConfig::default() };
        let sandbox = Sandbox::new(config).unwrap();
        let compile = async { sandbox.load(&wasm).await.unwrap().prepare().await.unwrap() };
        tollgate_sandbox::runtime().unwrap().block_on(compile);
    });
    compiled.join().unwrap();
    let second = build.output().unwrap();
    Output { stderr: [first.stderr, second.stderr].concat(), ..second }
}

/// Held by the one test that compiles now: what it compiled, the others find. All at once
/// they would take longer than a component may be compiled.
fn alone() -> File {
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// The limits of each tool, as a configuration has them.
pub(crate) fn limits_of_each(limits: impl Fn(&Language) -> String) -> String {
    let table = |language: &Language| format!("[tools.{}.limits]\n{}\n", language.tool(), limits(language));
    LANGUAGES.iter().map(table).collect()
}

/// A host that serves the `tools` of a directory.
pub(crate) async fn serve(folder: &Path, limits: &str) -> Host {
    let (toolbox, _) = load(folder, limits).await;
    Host::builder().toolbox(toolbox).build().unwrap()
}

/// The `tools` of a directory, and the sandbox that they run in.
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
