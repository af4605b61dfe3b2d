//! A small component in as many versions as a test needs. Each answers with its version.

use std::path::Path;
use std::time::Duration;
use tollgate::config::{Config, LimitsConfig};
use tollgate::tools::LoadedTools;
use tollgate::tools::directory::{self, Watch};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;
use tollgate_artifacts::{Expectation, Guest};
use tollgate_sandbox::{Compiler, Sandbox, SandboxConfig};

/// Returns a component `version` whose tool `version` answers with this number.
pub(crate) fn version(number: u32) -> Vec<u8> {
    guest(&format!(
        ";; Says which version it is.\n;;\n;; returns: {{\"ok\": {{\"result\": {{\"data\": \"{number}\"}}}}}}\n;; expects: succeeds\n"
    ))
}

/// Returns such a component whose tool traps.
pub(crate) fn trapping(number: u32) -> Vec<u8> {
    guest(&format!(
        ";; Traps, in version {number}.\n;;\n;; expects: succeeds\n\n(data (memory $memory) (i32.const 64) \"{number}\")\n(func $execute (param $call i32) (result i32) (unreachable))\n"
    ))
}

/// Returns such a component that reads the state of another.
pub(crate) fn curious(number: u32) -> Vec<u8> {
    guest(&format!(
        ";; Asks for more.\n;;\n;; descriptor: {{\"state\": [{{\"key\": \"mail.box\", \"read\": true, \"write\": false}}]}}\n;; returns: {{\"ok\": {{\"result\": {{\"data\": \"{number}\"}}}}}}\n;; expects: succeeds\n"
    ))
}

/// Returns such a component whose tool has this description.
pub(crate) fn saying(number: u32, words: &str) -> Vec<u8> {
    guest(&format!(
        ";; Says something of itself.\n;;\n;; descriptor: {{\"tools\": [{{\"description\": \"{words}\"}}]}}\n;; returns: {{\"ok\": {{\"result\": {{\"data\": \"{number}\"}}}}}}\n;; expects: succeeds\n"
    ))
}

/// Returns a component with this id and one tool with this name and answer.
pub(crate) fn component(id: &str, tool: &str, answer: &str) -> Vec<u8> {
    guest(&format!(
        ";; Has an id and a tool.\n;;\n;; descriptor: {{\"id\": \"{id}\", \"tools\": [{{\"id\": \"{id}-tool\", \"name\": \"{tool}\"}}]}}\n;; returns: {{\"ok\": {{\"result\": {{\"data\": \"{answer}\"}}}}}}\n;; expects: succeeds\n"
    ))
}

/// Returns a component with this id and one tool of the same name, whose schema has this many large patterns.
pub(crate) fn with_patterns(id: &str, patterns: usize) -> Vec<u8> {
    guest(&format!(
        ";; Has patterns.\n;;\n;; descriptor: {{\"id\": \"{id}\", \"tools\": [{{\"id\": \"{id}\", \"name\": \"{id}\", \"parameters\":\n;;   {{\"$join\": [\"{{\\\"type\\\": \\\"object\\\", \\\"properties\\\": {{\",\n;;   {{\"$count\": [\"\\\"a@\\\": {{\\\"pattern\\\": \\\"[a-z]{{2500}}@\\\"}}\", {patterns}]}}, \"}}}}\"]}}}}]}}\n;; expects: succeeds\n"
    ))
}

fn guest(source: &str) -> Vec<u8> {
    let source = Box::leak(source.to_owned().into_boxed_str());
    Guest { name: "version", attack: "", limit: "", expects: Expectation::Succeeds, source }.bytes()
}

/// A host that serves a separate directory.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) sandbox: Sandbox,
    pub(crate) config: std::sync::Arc<Config>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::compiling(Compiler::InProcess)
    }

    /// Creates a place whose components are compiled in this way.
    pub(crate) fn compiling(compiler: Compiler) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tools")).unwrap();
        let sandbox = Sandbox::new(SandboxConfig {
            compiler,
            concurrent_calls: 16,
            cache_dir: Some(folder.path().join("cache")),
            ..LimitsConfig::default().sandbox
        });
        let config = Config { tools_dir: folder.path().join("tools"), ..Config::default() };
        Self { folder, sandbox: sandbox.unwrap(), config: config.into() }
    }

    /// Puts a file into the directory atomically.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let part = self.folder.path().join("part");
        std::fs::write(&part, bytes).unwrap();
        std::fs::rename(part, self.path(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("tools").join(name)
    }

    pub(crate) async fn load(&self) -> LoadedTools {
        directory::load(&self.sandbox, &self.config, &|_, _, _: &Path| {}).await.unwrap()
    }

    pub(crate) async fn host(&self) -> (Host, LoadedTools) {
        let loaded = self.load().await;
        (Host::builder().toolbox(loaded.toolbox.clone()).build().unwrap(), loaded)
    }

    /// Creates a host that is kept up to date.
    pub(crate) async fn watched(&self) -> (Host, Watch) {
        let (host, loaded) = self.host().await;
        let (watch, problem) = host.watch(self.sandbox.clone(), self.config.clone(), &loaded);
        assert!(problem.is_none(), "{problem:?}");
        (host, watch)
    }
}

/// Returns the answer of the tool `version`: a number, or a code.
pub(crate) async fn asked(host: &Host) -> String {
    match host.call(CallRequest::from_json("version", "{}")).await.unwrap().last_call.unwrap().end.clone() {
        CallEnd::Result(result) => result.data.to_string(),
        CallEnd::Fault(fault) => fault.code.to_string(),
    }
}

/// Waits until the tool gives this answer.
pub(crate) async fn until(host: &Host, wanted: &str) {
    let soon = tokio::time::Instant::now() + Duration::from_secs(20);
    while asked(host).await != wanted {
        assert!(tokio::time::Instant::now() < soon, "it never answers {wanted}, but {}", asked(host).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
