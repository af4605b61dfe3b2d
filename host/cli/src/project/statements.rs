//! Statements of a Rust component about itself, which `build` writes into it: the licence and the
//! source of its package, and all packages that it was built from.

use super::error::BuildError;
use super::toolchains::{WASM_TARGET, cargo_metadata};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tollgate_registry::{Metadata, Package};

/// The fields used here of `cargo metadata`.
#[derive(Deserialize)]
struct Cargo {
    packages: Vec<CargoPackage>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct CargoPackage {
    id: String,
    name: String,
    version: String,
    manifest_path: PathBuf,
    source: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    description: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `None` for ordinary dependencies; `build` and `dev` for others.
    kind: Option<String>,
}

/// Returns the custom sections for each package of the workspace in `dir`, by the package's
/// directory.
///
/// # Errors
/// Cargo cannot be run, or its answer cannot be read.
pub(super) fn of(dir: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, BuildError> {
    // The build has resolved and downloaded everything already.
    let cargo: Cargo = cargo_metadata(dir, &["--offline", "--filter-platform", WASM_TARGET])?;
    let members = cargo.packages.iter().filter(|package| cargo.workspace_members.contains(&package.id));
    let mut found = BTreeMap::new();
    for member in members {
        let Some(project) = member.manifest_path.parent() else { continue };
        let sections = cargo.stated(member).to_sections((member.name.as_str(), member.version.as_str()));
        found.insert(project.to_owned(), sections.map_err(|e| BuildError::Failed(e.to_string()))?);
    }
    Ok(found)
}

impl Cargo {
    fn stated(&self, member: &CargoPackage) -> Metadata {
        let of_build = self.reached(&member.id, true);
        let at_runtime = self.reached(&member.id, false);
        let mut packages: Vec<_> = of_build
            .iter()
            .filter(|id| **id != member.id)
            .filter_map(|id| self.packages.iter().find(|package| package.id == *id))
            .map(|package| package.listed(!at_runtime.contains(package.id.as_str())))
            .collect();
        packages.sort();
        packages.dedup();
        Metadata {
            licence: member.license.clone(),
            source: member.repository.clone(),
            homepage: member.homepage.clone(),
            authors: (!member.authors.is_empty()).then(|| member.authors.join(", ")),
            description: member.description.clone(),
            packages: Some(packages),
            ..Metadata::default()
        }
    }

    /// The ids of all packages that a package needs, with or without those that only builds need.
    fn reached<'a>(&'a self, root: &'a str, with_build: bool) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::from([root]);
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let node = self.resolve.nodes.iter().find(|node| node.id == id);
            for dependency in node.into_iter().flat_map(|node| &node.deps) {
                let is_needed = dependency.dep_kinds.iter().any(|kind| match kind.kind.as_deref() {
                    None => true,
                    Some("build") => with_build,
                    Some(_) => false,
                });
                if is_needed && reached.insert(&dependency.pkg) {
                    open.push(&dependency.pkg);
                }
            }
        }
        reached
    }
}

impl CargoPackage {
    fn listed(&self, is_build: bool) -> Package {
        let source = match self.source.as_deref() {
            None => "local",
            Some(source) if source.contains("github.com/rust-lang/crates.io-index") => "crates.io",
            Some(source) if source.starts_with("sparse+https://index.crates.io/") => "crates.io",
            Some(source) if source.starts_with("git+") => "git",
            Some(_) => "registry",
        };
        Package {
            name: self.name.clone(),
            version: self.version.clone(),
            source: source.to_owned(),
            is_build,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_package_lists_what_it_is_built_from_and_says_what_only_the_build_needs() {
        let package = |name: &str, source: Option<&str>| {
            serde_json::json!({ "id": name, "name": name, "version": "1.0.0", "source": source,
                "manifest_path": format!("/{name}/Cargo.toml"), "license": "MIT", "repository": null,
                "homepage": null, "description": null, "authors": ["Ada"] })
        };
        let on = |name: &str, kind: Option<&str>| serde_json::json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: Vec<serde_json::Value>| serde_json::json!({ "id": name, "deps": deps });
        let index = Some("registry+https://github.com/rust-lang/crates.io-index");
        let cargo: Cargo = serde_json::from_value(serde_json::json!({
            "packages": [package("weather", None), package("serde", index), package("derive", index),
                package("cc", index), package("proptest", index), package("sdk", None)],
            "workspace_members": ["weather"],
            "resolve": { "nodes": [
                node("weather", vec![on("serde", None), on("cc", Some("build")), on("proptest", Some("dev")), on("sdk", None)]),
                node("serde", vec![on("derive", None)]),
                node("derive", vec![on("serde", None)]),
            ] },
        }))
        .unwrap();
        let stated = cargo.stated(&cargo.packages[0]);
        assert_eq!((stated.licence.as_deref(), stated.authors.as_deref()), (Some("MIT"), Some("Ada")));
        let listed: Vec<_> = stated.packages.iter().flatten().collect();
        let listed: Vec<_> = listed
            .iter()
            .map(|package| (package.name.as_str(), package.source.as_str(), package.is_build))
            .collect();
        assert_eq!(
            listed,
            [
                ("cc", "crates.io", true),
                ("derive", "crates.io", false),
                ("sdk", "local", false),
                ("serde", "crates.io", false)
            ]
        );
    }
}
