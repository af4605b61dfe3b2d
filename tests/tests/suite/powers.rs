//! The grants of hostile guests that attack what they were granted.

use std::path::Path;
use tempfile::TempDir;
use tollgate_agent::egress::Egress;
use tollgate_artifacts::Guest;
use tollgate_sandbox::{FileAccess, FileGrant, Grants, HttpGrant};

/// The number of bytes that may be written to the directory.
const QUOTA_BYTES: u64 = 1 << 20;

/// A directory with traps in it, beside a file that no guest may read.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let granted = folder.path().join("granted");
        std::fs::create_dir_all(granted.join("inside")).unwrap();
        // Separate from the others' files: one guest moves it while others are called.
        std::fs::create_dir_all(granted.join("nested")).unwrap();
        std::fs::write(folder.path().join("outside"), "nobody's").unwrap();
        std::fs::write(granted.join("inside/file"), "its own").unwrap();
        std::fs::File::create(granted.join("inside/large")).unwrap().set_len(QUOTA_BYTES).unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, granted.join(name)).unwrap();
        link("../outside", "link");
        link("..", "up");
        make_pipe(&granted.join("pipe"));
        Self { folder }
    }

    /// Returns the grants of this guest.
    pub fn grants(&self, guest: &Guest) -> Grants {
        guest.powers().iter().fold(Grants::default(), |grants, power| match power.as_str() {
            "files" => {
                let directory = self.folder.path().join("granted");
                let grant = FileGrant::open(&directory, "/", FileAccess::ReadWrite).unwrap();
                grants.with_files(grant.with_quota(QUOTA_BYTES))
            }
            "http" => {
                let everywhere = vec!["http://*".parse().unwrap(), "https://*".parse().unwrap()];
                grants.with_http(HttpGrant::new(Egress::new(everywhere, Vec::new())))
            }
            other => panic!("{}: there is no power `{other}`", guest.name),
        })
    }
}

fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}
