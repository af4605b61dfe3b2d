#![allow(clippy::unwrap_used)]
use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

fn of(bytes: &str) -> Fingerprint {
    Fingerprint::of(bytes.as_bytes())
}

struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn open(&self) -> Cache {
        self.of_engine(1, 1 << 20)
    }

    fn of_engine(&self, engine: u8, max_bytes: u64) -> Cache {
        Cache::open(&self.path(), Compatibility([engine; 32]), max_bytes).unwrap()
    }

    fn entries(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_string_lossy().ends_with(ENTRY)).collect()
    }

    fn entry(&self) -> PathBuf {
        let mut entries = self.entries();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }
}

/// Returns the parsed words of an entry.
fn words_in(cache: &Cache, of: &Fingerprint) -> CachedDescription {
    cache.words(of).unwrap().parse().unwrap()
}

fn code(text: &str) -> Artifact {
    Artifact::compiled(text.as_bytes().to_vec(), 7, 9)
}

fn words(times: usize) -> CachedDescription {
    let description = "A tool that is described at length. ".repeat(times);
    let tool = tollgate_agent::descriptor::ToolDescriptor::new("a", "a", description);
    let descriptor = ComponentDescriptor {
        id: "x".to_owned(),
        version: "1".to_owned(),
        tools: vec![tool],
        state: Vec::new(),
    };
    let imports = vec![Import { interface: "wasi:io/poll@0.2.0".to_owned(), power: None }];
    CachedDescription { digest: "abc".to_owned(), descriptor, imports, left_out: None }
}

#[test]
fn what_was_kept_is_found_by_the_next_process() {
    let rig = Rig::new();
    rig.open().keep(&of("aaaa"), Some(&words(1)), &code("code")).unwrap();
    let kept = rig.open().code(&of("aaaa"), MAX_ENTRY_BYTES).unwrap();
    assert_eq!((kept.bytes(), kept.images(), kept.metadata_bytes()), (&b"code"[..], 7, 9));
    let found = words_in(&rig.open(), &of("aaaa"));
    assert_eq!((found.digest, found.descriptor), (words(1).digest, words(1).descriptor));
    assert_eq!(found.imports, words(1).imports);
    assert!(
        rig.open().words(&of("bbbb")).is_none() && rig.open().code(&of("bbbb"), MAX_ENTRY_BYTES).is_none()
    );
    rig.open().keep(&of("bbbb"), None, &code("more")).unwrap();
    assert!(rig.open().words(&of("bbbb")).is_none());
    assert_eq!(rig.open().code(&of("bbbb"), MAX_ENTRY_BYTES).unwrap().bytes(), b"more");
    // A descriptor longer than the first read.
    rig.open().keep(&of("cccc"), Some(&words(2_000)), &code("most")).unwrap();
    assert_eq!(words_in(&rig.open(), &of("cccc")).descriptor, words(2_000).descriptor);
    assert_eq!(rig.open().code(&of("cccc"), MAX_ENTRY_BYTES).unwrap().bytes(), b"most");
}

#[test]
fn directory_and_files_are_this_users_alone() {
    let rig = Rig::new();
    rig.open().keep(&of("aaaa"), None, &code("code")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&rig.path()), 0o700);
    assert_eq!(mode(&rig.path().join(KEY)), 0o600);
    assert_eq!(mode(&rig.entry()), 0o600);

    fs::set_permissions(rig.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Cache::open(&rig.path(), Compatibility([1; 32]), 1).err().unwrap();
    assert!(refused.contains("chmod 700"), "{refused}");
    let link = rig.folder.path().join("link");
    std::os::unix::fs::symlink(rig.path(), &link).unwrap();
    assert!(Cache::open(&link, Compatibility([1; 32]), 1).is_err());
}

/// Flips each byte of an entry, and tries each prefix of it.
#[test]
fn poisoned_and_truncated_entries_are_rejected_and_removed() {
    let rig = Rig::new();
    let cache = rig.open();
    cache.keep(&of("aaaa"), Some(&words(1)), &code("code")).unwrap();
    let whole = fs::read(rig.entry()).unwrap();
    let path = rig.entry();
    for at in 0..whole.len() {
        let mut poisoned = whole.clone();
        poisoned[at] ^= 1;
        for bytes in [poisoned.as_slice(), &whole[..at]] {
            fs::write(&path, bytes).unwrap();
            let of_the_code = at >= whole.len() - 4;
            assert_eq!(cache.words(&of("aaaa")).is_some(), of_the_code, "byte {at}");
            assert_eq!(path.exists(), of_the_code);
            fs::write(&path, bytes).unwrap();
            assert!(cache.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none(), "byte {at}");
            assert!(!path.exists(), "what is not authentic is removed");
        }
    }
    fs::write(&path, [whole.as_slice(), b"x"].concat()).unwrap();
    assert!(cache.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none());
    fs::write(&path, &whole).unwrap();
    assert!(cache.code(&of("aaaa"), MAX_ENTRY_BYTES).is_some());
}

#[test]
fn entries_of_another_component_engine_or_installation_are_rejected() {
    let rig = Rig::new();
    let cache = rig.open();
    cache.keep(&of("aaaa"), None, &code("code")).unwrap();
    let entry = rig.entry();

    fs::copy(&entry, rig.path().join(cache.name_of(&of("bbbb")))).unwrap();
    assert!(cache.code(&of("bbbb"), MAX_ENTRY_BYTES).is_none(), "another component's");

    let newer = rig.of_engine(2, 1 << 20);
    assert!(newer.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none(), "found by no other engine");
    fs::copy(&entry, rig.path().join(newer.name_of(&of("aaaa")))).unwrap();
    assert!(newer.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none(), "another engine's");

    let elsewhere = Rig::new();
    let other = elsewhere.open();
    fs::copy(&entry, elsewhere.path().join(other.name_of(&of("aaaa")))).unwrap();
    assert!(other.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none(), "another installation's");
}

#[test]
fn entries_are_not_read_through_links_and_pipes() {
    let rig = Rig::new();
    let cache = rig.open();
    cache.keep(&of("aaaa"), None, &code("code")).unwrap();
    let (entry, moved) = (rig.entry(), rig.folder.path().join("moved"));
    fs::rename(&entry, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &entry).unwrap();
    assert!(cache.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none());
    fs::remove_file(&entry).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &entry, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert!(cache.code(&of("aaaa"), MAX_ENTRY_BYTES).is_none());
}

#[test]
fn a_damaged_key_is_replaced_and_opens_nothing() {
    let rig = Rig::new();
    rig.open().keep(&of("aaaa"), None, &code("code")).unwrap();
    fs::write(rig.path().join(KEY), b"short").unwrap();
    assert!(rig.open().code(&of("aaaa"), MAX_ENTRY_BYTES).is_none());
    rig.open().keep(&of("aaaa"), None, &code("code")).unwrap();
    assert!(rig.open().code(&of("aaaa"), MAX_ENTRY_BYTES).is_some());
}

#[test]
fn the_directory_stays_within_its_bound_and_loses_the_oldest() {
    let rig = Rig::new();
    let cache = rig.of_engine(1, 1_000);
    let long_ago = SystemTime::now() - Duration::from_secs(10_000);
    for number in 0..20_u32 {
        cache.keep(&of(&number.to_string()), None, &code(&"x".repeat(100))).unwrap();
        let path = rig.path().join(cache.name_of(&of(&number.to_string())));
        let at = long_ago + Duration::from_secs(u64::from(number));
        File::open(path).unwrap().set_modified(at).unwrap();
    }
    let bytes: u64 = rig.entries().iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes <= 1_000, "{bytes}");
    assert!(cache.code(&of("0"), MAX_ENTRY_BYTES).is_none());
    assert!(cache.code(&of("19"), MAX_ENTRY_BYTES).is_some());
    cache.keep(&of("large"), None, &code(&"x".repeat(2_000))).unwrap();
    assert!(cache.code(&of("large"), MAX_ENTRY_BYTES).is_none(), "what would fill it alone is not kept");
    assert!(cache.code(&of("19"), MAX_ENTRY_BYTES).is_some());
}

#[test]
fn an_entry_that_is_used_is_kept_longer() {
    let rig = Rig::new();
    let cache = rig.open();
    cache.keep(&of("aaaa"), Some(&words(1)), &code("code")).unwrap();
    let old = SystemTime::now() - Duration::from_secs(10_000);
    File::open(rig.entry()).unwrap().set_modified(old).unwrap();
    assert!(cache.words(&of("aaaa")).is_some());
    let modified = fs::metadata(rig.entry()).unwrap().modified().unwrap();
    assert!(modified.elapsed().unwrap() < Duration::from_secs(1_000));
}

#[test]
fn many_processes_agree_on_one_key() {
    let rig = Rig::new();
    let path = rig.path();
    let opened: Vec<Cache> = std::thread::scope(|scope| {
        let open = || Cache::open(&path, Compatibility([1; 32]), 1 << 20).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(opened.iter().all(|cache| cache.key == opened[0].key));
    assert!(rig.folder.path().join("cache").read_dir().unwrap().count() == 1, "nothing is left but the key");
}
