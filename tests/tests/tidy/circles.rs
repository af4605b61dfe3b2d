//! Checks that the files of one folder import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{code_of, parts_of, sources};
use crate::{TextFile, assert_none, text_files};

/// A folder's own file, such as `mod.rs`, and the files below it may import each other.
#[test]
fn files_of_a_folder_import_each_other_in_one_direction() {
    let files = text_files();
    let wrong = sources().flat_map(|sources| {
        let circular = Tree::of(sources, &files).circular_imports();
        circular.into_iter().map(move |import| format!("{sources}: {import}"))
    });
    assert_none("Move what both need into a file of its own:", wrong);
}

#[test]
fn circles_are_found_through_names_that_are_handed_on() {
    let file = |path: &str, text: &str| TextFile { path: format!("src/{path}"), text: text.to_owned() };
    let files = [
        file("lib.rs", "mod a;\npub use a::Deep;\n"),
        file(
            "a/mod.rs",
            "mod one;\nmod two;\nmod three;\npub use two::Deep;\npub use one::{Low, High as Top};\n",
        ),
        file("a/one.rs", "use super::{Deep,\n    Top};\n"),
        file("a/two.rs", "fn f() { crate::a::Low::g() }\n"),
        file("a/three.rs", "use super::one;\n#[cfg(test)]\nmod tests {\n    use super::super::two;\n}\n"),
    ];
    let found = Tree::of("src", &files).circular_imports();
    assert_eq!(found, ["`a/one` and `a/two` import each other", "`a/two` and `a/one` import each other"]);
}

/// A module's path within its crate, such as `["run", "driver"]`.
type ModulePath = Vec<String>;

/// The modules of a crate with their code.
struct Tree {
    modules: BTreeMap<ModulePath, String>,
    /// The names that each module imports, with the paths that they stand for.
    names: BTreeMap<(ModulePath, String), ModulePath>,
}

impl Tree {
    /// Reads a crate's files, except those of tests.
    fn of(sources: &str, files: &[TextFile]) -> Self {
        let mut tree = Self { modules: BTreeMap::new(), names: BTreeMap::new() };
        for file in files {
            let path = file.path.strip_prefix(sources).and_then(|rest| rest.strip_prefix('/'));
            let Some(path) = path.and_then(|path| path.strip_suffix(".rs")) else { continue };
            let mut parts: ModulePath = path.split('/').map(str::to_owned).collect();
            if parts.iter().any(|name| name == "tests" || name.ends_with("_tests")) {
                continue;
            }
            if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                parts.pop();
            }
            tree.modules.insert(parts, code_of(&file.text));
        }
        for (module, code) in &tree.modules {
            for import in uses(code) {
                let (path, name) = match import.split_once(" as ") {
                    Some((path, name)) => (path, name),
                    None => (import.as_str(), import.rsplit("::").next().unwrap_or_default()),
                };
                if let Some(path) = tree.absolute(module, path) {
                    tree.names.insert((module.clone(), name.to_owned()), path);
                }
            }
        }
        tree
    }

    /// Returns the path from the crate's root; `None` for paths into other crates.
    fn absolute(&self, module: &[String], path: &str) -> Option<ModulePath> {
        let first = path.split("::").next()?;
        let is_child = || self.modules.contains_key(&[module, &[first.to_owned()]].concat());
        if !matches!(first, "crate" | "self" | "super") && !is_child() {
            return None;
        }
        let mut absolute = if first == "crate" { Vec::new() } else { module.to_vec() };
        for name in path.split("::") {
            match name.trim() {
                "crate" | "self" => {}
                "super" => drop(absolute.pop()),
                name => absolute.push(name.to_owned()),
            }
        }
        Some(absolute)
    }

    /// Returns the module in which a path ends, also through names that modules hand on.
    fn module_of(&self, path: &[String]) -> ModulePath {
        let mut path = path.to_vec();
        // A name may be handed on several times.
        for _ in 0..8 {
            let inside = (0..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length]));
            let length = inside.unwrap_or_default();
            let Some(name) = path.get(length) else { return path };
            match self.names.get(&(path[..length].to_vec(), name.clone())) {
                Some(stands_for) if *stands_for != path[..=length] => {
                    path = [stands_for, &path[length + 1..]].concat();
                }
                _ => {
                    path.truncate(length);
                    return path;
                }
            }
        }
        path
    }

    /// Returns the modules that each module imports.
    fn imports(&self) -> BTreeSet<(&ModulePath, ModulePath)> {
        let mut imports = BTreeSet::new();
        for (module, code) in &self.modules {
            let used = uses(code).map(|path| path.split(" as ").next().unwrap_or_default().to_owned());
            let inline = ["crate::", "super::"].into_iter().flat_map(|prefix| paths_after(code, prefix));
            for path in used.chain(inline) {
                if let Some(path) = self.absolute(module, &path) {
                    imports.insert((module, self.module_of(&path)));
                }
            }
        }
        imports
    }

    /// Describes the imports that are part of a circle between the files of one folder.
    fn circular_imports(&self) -> Vec<String> {
        let mut between: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (from, to) in self.imports() {
            let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if shared < from.len() && shared < to.len() {
                between.entry(from[..=shared].to_vec()).or_default().insert(to[..=shared].to_vec());
            }
        }
        let pairs = between.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        let circular = pairs.filter(|(from, to)| reachable(&between, to).contains(from));
        circular
            .map(|(from, to)| format!("`{}` and `{}` import each other", from.join("/"), to.join("/")))
            .collect()
    }
}

/// Returns the modules that a module reaches by imports.
fn reachable<'t>(
    between: &'t BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    from: &'t ModulePath,
) -> BTreeSet<&'t ModulePath> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        open.extend(between.get(next).into_iter().flatten().filter(|to| seen.insert(*to)));
    }
    seen
}

/// Returns the paths of all `use` statements, each on its own.
fn uses(code: &str) -> impl Iterator<Item = String> + '_ {
    let statements = code.match_indices("use ").filter_map(|(at, word)| {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let (path, _) = code[at + word.len()..].split_once(';')?;
        (before.is_empty() || before.starts_with("pub")).then_some(path)
    });
    statements.flat_map(|path| expanded(&path.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Returns the paths that a path with braces stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, inner)) = path.split_once('{') else { return vec![path.trim().to_owned()] };
    let parts = parts_of(inner).into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{before}{part}"))).collect()
}

/// Returns the paths with this prefix that code names outside of `use` statements with braces.
fn paths_after<'c>(code: &'c str, prefix: &'c str) -> impl Iterator<Item = String> + 'c {
    code.match_indices(prefix).filter_map(|(at, _)| {
        let is_inside =
            code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before));
        let end = code[at..].find(|next: char| !next.is_alphanumeric() && !"_:".contains(next));
        let path = code[at..].get(..end.unwrap_or(code.len() - at))?.trim_end_matches(':');
        (!is_inside).then(|| path.to_owned())
    })
}
