//! A real registry for tests: Debian's `docker-registry`, which does not list referrers itself.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A registry on this machine, which ends with the test.
pub(crate) struct Registry {
    pub(crate) host: String,
    child: Child,
    _storage: TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says that a program is missing. In CI that is a failure.
pub(crate) fn missing(program: &str) {
    let line = format!("{program} is not installed: apt-get install {program}");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    eprintln!("NOT TESTED: {line}");
}

impl Registry {
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts one with more lines of configuration.
    pub(crate) fn start_with(more: &str) -> Option<Self> {
        // It ends at once if another program has taken its port meanwhile.
        for _ in 0..5 {
            let mut registry = Self::begin(more)?;
            let begun = Instant::now();
            while registry.child.try_wait().unwrap().is_none() {
                if TcpStream::connect(&registry.host).is_ok() {
                    return Some(registry);
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "the registry does not start");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("the registry ends by itself");
    }

    fn begin(more: &str) -> Option<Self> {
        let storage = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:{port}'}}\n{more}",
            storage.path().display()
        );
        let file = storage.path().join("config.yml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            missing("docker-registry");
            return None;
        };
        Some(Self { host: format!("127.0.0.1:{port}"), child, _storage: storage })
    }

    pub(crate) fn echo(&self, tag: &str) -> String {
        format!("{}/acme/echo:{tag}", self.host)
    }
}
