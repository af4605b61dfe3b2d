//! Checks the dependencies between crates: the table of host/ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

use crate::{assert_none, text_files};

/// The allowed dependencies of the crate that decides: data and its checks. Nothing that runs,
/// waits, reads or connects.
const AGENT_MAY_USE: &[&str] = &[
    "serde",
    "serde_json",
    "smol_str",
    "ipnet",
    "thiserror",
    "jsonschema",
    "jsonschema-regex",
    "memchr",
    "regex",
    "regex-automata",
    "sha2",
    "unicode-general-category",
];

/// The crates that may use the engine.
const MAY_USE_WASMTIME: &[&str] = &["tollgate-sandbox", "tollgate-tests"];

/// Large libraries, and the only crates that may build on them. Tests of other crates may use them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("axum", &["tollgate-mcp", "tollgate-server"]),
    ("clap", &["tollgate-cli"]),
    ("genai", &["tollgate-models"]),
    ("indicatif", &["tollgate-cli"]),
    ("rmcp", &["tollgate-mcp"]),
    // The server keeps its keys and sessions in a database of its own.
    ("rusqlite", &["tollgate-server", "tollgate-sqlite"]),
    ("tokio-postgres", &["tollgate-postgres"]),
];

/// Dependencies without the standard library, which the workspace's entry would enable and a
/// member could not disable.
const WITHOUT_STD: &[(&str, &str)] = &[("tollgate-gate", "serde"), ("tollgate-gate", "serde_json")];

/// The project's own crates that each crate may depend on.
const BUILDS_ON: &[(&str, &[&str])] = &[
    ("tollgate-agent", &[]),
    ("tollgate-sandbox", &["tollgate-agent"]),
    ("tollgate-registry", &["tollgate-agent"]),
    ("tollgate-store", &["tollgate-agent"]),
    ("tollgate-models", &["tollgate-agent"]),
    ("tollgate-sqlite", &["tollgate-agent", "tollgate-store"]),
    ("tollgate-postgres", &["tollgate-agent", "tollgate-store"]),
    (
        "tollgate",
        &[
            "tollgate-agent",
            "tollgate-models",
            "tollgate-registry",
            "tollgate-sandbox",
            "tollgate-sqlite",
            "tollgate-store",
        ],
    ),
    ("tollgate-mcp", &["tollgate", "tollgate-agent", "tollgate-sandbox"]),
    // The server mounts the protocol, and limits connections and requests in the same way.
    ("tollgate-server", &["tollgate", "tollgate-agent", "tollgate-mcp"]),
    (
        "tollgate-cli",
        &[
            "tollgate",
            "tollgate-agent",
            "tollgate-mcp",
            "tollgate-postgres",
            "tollgate-registry",
            "tollgate-sandbox",
            "tollgate-server",
        ],
    ),
    ("tollgate-sdk-macros", &[]),
    ("tollgate-sdk", &["tollgate-sdk-macros"]),
    ("tollgate-gate", &[]),
    ("tollgate-artifacts", &[]),
    ("tollgate-tests", &[]),
    ("tollgate-libfuzzer", &["tollgate-fuzz"]),
    (
        "tollgate-fuzz",
        &["tollgate", "tollgate-agent", "tollgate-registry", "tollgate-sandbox", "tollgate-artifacts"],
    ),
];

#[test]
fn what_decides_depends_on_nothing_that_acts() {
    let agent = &manifests()["tollgate-agent"];
    assert_none(
        "tollgate-agent may not depend on:",
        agent.dependencies.iter().filter(|name| !AGENT_MAY_USE.contains(&name.as_str())),
    );
}

/// A lint restricts the functions that it may call (host/agent/clippy.toml); here the lint cannot
/// be switched off, except in tests.
#[test]
fn what_decides_acts_nowhere_by_exception() {
    let files = text_files();
    let agent = files.iter().filter(|file| file.path.starts_with("host/agent/src/"));
    let outside_tests = |text: &str| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let excepted = agent.filter(|file| outside_tests(&file.text).contains("clippy::disallowed"));
    assert_none("These switch the lint off:", excepted.map(|file| &file.path));
}

/// The lint denies it; this test permits it in a single place of the host.
#[test]
fn unsafe_code_is_where_machine_code_is_loaded_and_nowhere_else() {
    let allowed = ["allow(unsafe", "_code"].concat();
    let files = text_files();
    let with = files.iter().filter(|file| file.path.starts_with("host/") && file.text.contains(&allowed));
    assert_none(
        "Unsafe code belongs into host/sandbox/src/load/native.rs:",
        with.filter(|file| file.path != "host/sandbox/src/load/native.rs").map(|file| &file.path),
    );
}

#[test]
fn only_the_sandbox_knows_wasmtime() {
    let manifests = manifests();
    let users = manifests.iter().filter(|(name, manifest)| {
        let all = || manifest.dependencies.iter().chain(&manifest.for_tests);
        all().any(|name| name.starts_with("wasmtime")) && !MAY_USE_WASMTIME.contains(&name.as_str())
    });
    assert_none("These may not depend on wasmtime:", users.map(|(name, _)| name));
}

#[test]
fn large_libraries_are_used_by_their_crates_alone() {
    let manifests = manifests();
    let mut wrong = Vec::new();
    for (library, allowed) in MAY_USE {
        let uses = |manifest: &Manifest| manifest.dependencies.iter().any(|name| name == library);
        let users: BTreeSet<&str> =
            manifests.iter().filter(|(_, m)| uses(m)).map(|(name, _)| name.as_str()).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        wrong.extend(users.difference(&allowed).map(|name| format!("{name} on {library}")));
        wrong.extend(
            allowed
                .difference(&users)
                .map(|name| format!("{name} does not depend on {library}: remove it here")),
        );
    }
    assert_none("These may not depend on libraries that others keep away from them:", wrong);
}

#[test]
fn crates_build_on_those_below_them_alone() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests().iter().filter(|(name, _)| name.starts_with("tollgate")) {
        let below = BUILDS_ON.iter().find(|(of, _)| of == name).map(|(_, below)| *below);
        let below = below.unwrap_or_else(|| panic!("{name} has no place in the table of layers yet"));
        let ours = manifest.dependencies.iter().filter(|name| name.starts_with("tollgate"));
        wrong.extend(ours.filter(|of| !below.contains(&of.as_str())).map(|of| format!("{name} on {of}")));
    }
    assert_none("No crate may build on one beside or above it:", wrong);
}

#[test]
fn every_crate_takes_the_lints_and_versions_of_its_workspace() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        if !manifest.lints {
            wrong.push(format!("{name}: [lints] workspace = true is missing"));
        }
        let excepted = |own: &String| WITHOUT_STD.contains(&(name.as_str(), own.as_str()));
        for own in manifest.own_versions.iter().filter(|own| !excepted(own)) {
            wrong.push(format!("{name}: {own} has a version of its own"));
        }
    }
    assert_none("Lints and versions are the workspace's:", wrong);
}

struct Manifest {
    /// All dependencies for any target, including build scripts.
    dependencies: BTreeSet<String>,
    for_tests: BTreeSet<String>,
    /// Dependencies without `workspace = true`.
    own_versions: Vec<String>,
    lints: bool,
}

/// Returns the manifests of all crates of the repository, by name.
fn manifests() -> BTreeMap<String, Manifest> {
    text_files()
        .iter()
        .filter(|file| file.name() == "Cargo.toml")
        .filter_map(|file| {
            let table: Table = file.text.parse().unwrap_or_else(|why| panic!("{}: {why}", file.path));
            let name = table.get("package")?.get("name")?.as_str()?.to_owned();
            Some((name, Manifest::read(&table)))
        })
        .collect()
}

impl Manifest {
    fn read(table: &Table) -> Manifest {
        let mut manifest = Manifest {
            dependencies: BTreeSet::new(),
            for_tests: BTreeSet::new(),
            own_versions: Vec::new(),
            lints: table.get("lints").and_then(|lints| lints.get("workspace")) == Some(&Value::Boolean(true)),
        };
        manifest.take_dependencies(table);
        for target in table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values) {
            manifest.take_dependencies(target.as_table().expect("a target is a table"));
        }
        manifest
    }

    fn take_dependencies(&mut self, of: &Table) {
        for (section, is_built_in) in
            [("dependencies", true), ("build-dependencies", true), ("dev-dependencies", false)]
        {
            let Some(section) = of.get(section).and_then(Value::as_table) else { continue };
            let names = if is_built_in { &mut self.dependencies } else { &mut self.for_tests };
            names.extend(section.keys().cloned());
            let own =
                section.iter().filter(|(_, value)| value.get("workspace") != Some(&Value::Boolean(true)));
            self.own_versions.extend(own.map(|(name, _)| name.clone()));
        }
    }
}
