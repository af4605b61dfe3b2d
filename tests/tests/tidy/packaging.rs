//! Checks the syntax of the container recipes and of the systemd unit.

use super::{assert_none, root, text_files};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The instructions of a recipe.
const INSTRUCTIONS: [&str; 17] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Returns the instructions of a recipe with their arguments; a line that ends with a backslash
/// continues.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let words = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    words
        .map(|line| {
            let (instruction, arguments) = line.split_once(' ').unwrap_or((line, ""));
            (instruction.to_owned(), arguments.trim().to_owned())
        })
        .collect()
}

/// Returns what is wrong with a recipe.
fn problems(text: &str, context: &Path) -> Vec<String> {
    let (mut problems, mut stages) = (Vec::new(), BTreeSet::new());
    let found = instructions(text);
    if found.first().is_none_or(|(first, _)| first != "FROM") {
        problems.push("it does not begin with FROM".to_owned());
    }
    for (instruction, arguments) in &found {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        if !INSTRUCTIONS.contains(&instruction.as_str()) || words.is_empty() {
            problems.push(format!("unknown or empty instruction: {instruction} {arguments}"));
        }
        // Arguments in brackets are JSON.
        let list = arguments
            .find('[')
            .filter(|_| ["CMD", "ENTRYPOINT", "HEALTHCHECK", "VOLUME"].contains(&instruction.as_str()));
        if let Some(at) = list
            && serde_json::from_str::<Vec<String>>(&arguments[at..]).is_err()
        {
            problems.push(format!("not a list of strings: {instruction} {arguments}"));
        }
        match (instruction.as_str(), words.as_slice()) {
            ("FROM", [image, rest @ ..]) => {
                if !image.contains(':') && !stages.contains(*image) {
                    problems.push(format!("an image without a tag: {image}"));
                }
                if let [word, stage] = rest
                    && word.eq_ignore_ascii_case("as")
                {
                    stages.insert((*stage).to_owned());
                }
            }
            ("COPY", [from, ..]) if from.starts_with("--from=") => {
                let stage = from.trim_start_matches("--from=");
                if !stages.contains(stage) {
                    problems.push(format!("there is no stage {stage}"));
                }
            }
            ("COPY", [sources @ .., _]) => {
                let missing = sources.iter().filter(|source| !context.join(source).exists());
                problems.extend(missing.map(|source| format!("{source} does not exist")));
            }
            _ => {}
        }
    }
    match found.iter().rfind(|(instruction, _)| instruction == "USER") {
        Some((_, user)) if user.as_str() != "root" && !user.starts_with('0') => {}
        _ => problems.push("it runs as root".to_owned()),
    }
    problems
}

#[test]
fn container_recipes_are_well_formed() {
    let recipes: Vec<_> = text_files().into_iter().filter(|file| file.name() == "Dockerfile").collect();
    assert!(!recipes.is_empty());
    assert_none(
        "container recipes are well-formed and do not run as root",
        recipes.iter().flat_map(|file| {
            problems(&file.text, &root()).into_iter().map(move |problem| format!("{}: {problem}", file.path))
        }),
    );
    for wrong in [
        "RUN true\nUSER 1\n",
        "FROM debian\nUSER 1\n",
        "FROM debian:12\nRUNN true\nUSER 1\n",
        "FROM debian:12\nCMD [\"a\",]\nUSER 1\n",
        "FROM debian:12\nCOPY --from=build /a /b\nUSER 1\n",
        "FROM debian:12\nCOPY no-such-file /b\nUSER 1\n",
        "FROM debian:12\nCMD [\"a\"]\n",
    ] {
        assert_eq!(problems(wrong, &root()).len(), 1, "{wrong}");
    }
}

/// systemd reads the unit without a complaint. CI has systemd; elsewhere the test may be skipped. The
/// program of the unit is not installed, so another takes its place.
#[test]
fn the_unit_is_read_by_systemd() {
    let unit = std::fs::read_to_string(root().join("packaging/tollgate.service")).unwrap();
    let verify = |unit: &str| {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tollgate.service");
        std::fs::write(&file, unit.replace("/usr/local/bin/tollgate", "/bin/true")).unwrap();
        Command::new("systemd-analyze").arg("verify").arg(&file).output().ok()
    };
    let Some(read) = verify(&unit) else {
        let missing =
            "the unit is not checked: systemd-analyze is missing; on Debian: apt-get install systemd";
        eprintln!("SKIPPED: {missing}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return;
    };
    let complaints = |stderr: &[u8]| {
        let text = String::from_utf8_lossy(stderr).into_owned();
        text.lines().filter(|line| line.contains("tollgate.service")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_none("systemd accepts the unit", complaints(&read.stderr));
    let wrong = verify(&unit.replace("UMask=", "UMaskk=")).unwrap();
    assert!(!complaints(&wrong.stderr).is_empty());
}

/// A cargo that builds a program of a few lines, knows one crate, and makes an empty package.
const CARGO: &str = r#"#!/bin/bash
case "$*" in
"build --locked --profile dist -p tollgate-cli")
    mkdir -p target/dist && cp "$0" target/dist/tollgate ;;
"--version") echo "tollgate 1.2.3" ;;
completions*) echo "completions of $2" ;;
man*) echo manual >"$2/tollgate.1" ;;
tree*) echo "one v1.0.0" ;;
metadata*) cat metadata.json ;;
"deb --version") ;;
"deb --no-build --no-strip --profile dist -p tollgate-cli --output "*) touch "${@: -1}/tollgate.deb" ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
"#;

/// The script that a release is made with puts everything into the archive and where the Debian
/// package takes it from, and the workflow runs it.
#[test]
fn a_release_has_the_program_with_its_manual_and_licences() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for file in
        ["scripts/release", "README.md", "SECURITY.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"]
    {
        std::fs::copy(root().join(file), at(file)).unwrap();
    }
    for (program, text) in [
        ("cargo", CARGO),
        ("git", "#!/bin/sh\necho 1\n"),
        ("rustc", "#!/bin/sh\necho host: x86_64-unknown-linux-gnu\n"),
    ] {
        std::fs::write(at(&format!("bin/{program}")), text).unwrap();
        let is_executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(at(&format!("bin/{program}")), is_executable).unwrap();
    }
    let manifest = at("crates/one/Cargo.toml");
    std::fs::write(at("crates/one/LICENSE-MIT"), "MIT").unwrap();
    let package = serde_json::json!({
        "name": "one", "version": "1.0.0", "source": "registry", "license": "MIT", "manifest_path": manifest
    });
    let metadata = serde_json::json!({"packages": [package]});
    std::fs::write(at("metadata.json"), metadata.to_string()).unwrap();

    let path = format!("{}:{}", at("bin/cargo").parent().unwrap().display(), std::env::var("PATH").unwrap());
    let made = Command::new(at("scripts/release"))
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("PROFILE")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let name = "tollgate-1.2.3-x86_64-unknown-linux-gnu";
    let archive = at("target/packages").join(format!("{name}.tar.gz"));
    let listed = Command::new("tar").arg("-tzf").arg(archive).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for file in [
        "tollgate",
        "LICENSE-MIT",
        "completions/tollgate.bash",
        "completions/_tollgate",
        "completions/tollgate.fish",
        "man/tollgate.1",
        "licences/INDEX.tsv",
        "licences/one-1.0.0-LICENSE-MIT.txt",
    ] {
        assert!(listed.lines().any(|line| line == format!("{name}/{file}")), "{file} is not in\n{listed}");
    }
    let sums = std::fs::read_to_string(at("target/packages/SHA256SUMS")).unwrap();
    assert!(sums.contains(&format!("{name}.tar.gz")) && sums.contains("tollgate.deb"), "{sums}");

    let manifest = std::fs::read_to_string(root().join("host/cli/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let staged = assets.iter().filter_map(|asset| asset[0].as_str()?.strip_prefix("../../"));
    let staged: Vec<_> = staged.collect();
    assert!(staged.len() >= 5, "{staged:?}");
    for asset in staged {
        let (folder, last) = asset.rsplit_once('/').unwrap();
        let ending = last.strip_prefix('*');
        let mut files = std::fs::read_dir(place.path().join(folder)).unwrap().map(|file| file.unwrap());
        let fits = |name: &str| ending.map_or(name == last, |ending| name.ends_with(ending));
        assert!(files.any(|file| fits(file.file_name().to_str().unwrap())), "{asset} is not made");
    }
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    for step in ["cargo install --locked cargo-deb", "scripts/release", "target/packages/*.deb"] {
        assert!(workflow.contains(step), "the workflow does not name {step}");
    }
}
