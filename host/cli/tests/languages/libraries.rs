//! Runs the tests of the guest libraries, each in its own language.

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn the_libraries_pass_their_own_tests() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    // The output of `go` and `python3` if they found tests: finding none is a failure.
    for (folder, step, said) in [
        ("go", "go test -count=1 -v ./...", "--- PASS: TestSchema"),
        ("tests/python", "python3 -m unittest discover", "Ran "),
    ] {
        let tested = Command::new("sh")
            .args(["-c", step])
            .current_dir(sdk.join(folder))
            .env("PYTHONPATH", sdk.join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let words = String::from_utf8([tested.stdout, tested.stderr].concat()).unwrap();
        assert!(tested.status.success(), "{folder}: {words}");
        assert!(words.contains(said) && !words.contains("Ran 0 tests"), "{folder}: {words}");
    }
}
