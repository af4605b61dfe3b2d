//! `text-stats` in every language, compiled and loaded.

use std::path::Path;
use std::process::Command;
use tollgate::Host;
use tollgate::config::Config;
use tollgate::tools::directory;
use tollgate_sandbox::Sandbox;

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

/// Hosts that serve the tools.
pub(crate) struct Tools {
    /// With the default limits: no language needs more.
    pub(crate) host: Host,
    /// With less fuel than an endless call uses, and more than any other.
    pub(crate) limited: Host,
    _folder: tempfile::TempDir,
}

impl Tools {
    /// Compiles what is not compiled yet, and loads it.
    pub(crate) async fn build() -> Self {
        let folder = compiled();
        let host = serve(folder.path(), "").await;
        let limited = serve(folder.path(), "[limits]\nfuel = 1_000_000_000\n").await;
        Self { host, limited, _folder: folder }
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
        build.env("TOLLGATE_DATA", folder.path().join("data"));
        build.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-guests"));
        let said = build.output().unwrap();
        assert!(said.status.success(), "{}: {}", language.name, String::from_utf8_lossy(&said.stderr));
    }
    folder
}

/// A host that serves the `tools` of a directory.
pub(crate) async fn serve(folder: &Path, limits: &str) -> Host {
    let text = format!("[tools]\ndir = \"tools\"\n{limits}");
    let mut config = Config::parse(&folder.join("tollgate.toml"), &text).unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages-cache");
    config.limits.sandbox.cache_dir = Some(cache);
    config.tools_dir = folder.join("tools");
    let sandbox = Sandbox::new(config.limits.sandbox.clone()).unwrap();
    let loaded = directory::load(&sandbox, &config, &|_, _, _: &Path| {}).await.unwrap();
    assert_eq!(loaded.toolbox.refused().len(), 0, "{:?}", loaded.toolbox.refused());
    Host::builder().toolbox(loaded.toolbox).build().unwrap()
}
