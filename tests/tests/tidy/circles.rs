//! Checks that the modules of a crate import each other in one direction: the files of one folder,
//! and a folder's own file, such as `mod.rs`, and those below it.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{begins_path, code_of, is_of_tests, parts_of, path_within, sources};
use crate::{TextFile, assert_none, text_files};

/// A crate's sources, a module in them that its own folder's file uses and that takes something back,
/// and the reason.
const EXCEPT: &[(&str, &str, &str)] = &[
    ("host/models/src", "providers/frames", "each provider's reader adds to the same frames"),
    ("host/src", "config/grants", "grants are checked against the rest of the configuration"),
];

#[test]
fn files_of_a_folder_import_each_other_in_one_direction() {
    let files = text_files();
    let wrong = sources().flat_map(|sources| {
        let circular = Tree::of(sources, &files).circular_imports();
        circular.into_iter().map(move |import| format!("{sources}: {import}"))
    });
    assert_none("Move what both need into a file of its own:", wrong);
}

/// Files may extend what their folder's own file defines: they may implement its traits, and add
/// methods to its types.
#[test]
fn a_folders_own_file_takes_nothing_from_files_that_take_from_it() {
    let files = text_files();
    let found: Vec<_> = sources()
        .flat_map(|sources| {
            let taken = Tree::of(sources, &files).taken_from_folder();
            taken.into_iter().map(move |(module, names)| (sources, module, names))
        })
        .collect();
    let is_meant = |(of, excepted, _): &(&str, &str, &str), (sources, module, _): &(&str, String, String)| {
        let rest = module.strip_prefix(excepted).filter(|_| of == sources);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let wrong = found.iter().filter(|one| !EXCEPT.iter().any(|except| is_meant(except, one)));
    let wrong = wrong.map(|(sources, module, names)| format!("{sources}: `{module}` takes {names}"));
    assert_none("Move this out of the folder's own file, which uses the one that takes it:", wrong);
    let needless = EXCEPT.iter().filter(|except| !found.iter().any(|one| is_meant(except, one)));
    assert_none("These exceptions are needed no longer:", needless.map(|(_, module, _)| module));
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

#[test]
fn a_path_is_not_one_that_a_statement_of_several_lines_imports() {
    assert_eq!(paths_after("fn f() { one::g() }", "one::").len(), 1);
    assert_eq!(paths_after("pub(crate) use tollgate::{\n    Host,\n    one::X,\n};\n", "one::").len(), 0);
}

#[test]
fn what_a_folders_own_file_uses_and_defines_is_found() {
    let file = |path: &str, text: &str| TextFile { path: format!("src/{path}"), text: text.to_owned() };
    let own = "mod one;\nmod two;\nmod three;\nmod four;\npub use three::C;\nuse two::B;\npub struct A;\n\
               fn f() { one::g(); four::g() }\n";
    let files = [
        file("a/mod.rs", own),
        file("a/one.rs", "use super::{A, f};\n"),
        file("a/two.rs", "use super::A;\nimpl A {}\n"),
        file("a/three.rs", "use super::A;\n"),
        file("a/four.rs", "use super::B;\n"),
    ];
    let found = Tree::of("src", &files).taken_from_folder();
    assert_eq!(found, [("a/one".to_owned(), "A, f".to_owned())]);
}

/// A module's path within its crate, such as `["run", "driver"]`.
type ModulePath = Vec<String>;

/// The modules of a crate with their code.
struct Tree {
    modules: BTreeMap<ModulePath, String>,
    /// The names that each module imports, with the paths that they stand for.
    names: BTreeMap<(ModulePath, String), ModulePath>,
}

/// A path that a module names.
struct NamedPath {
    path: String,
    /// Whether the module only hands it on.
    is_handed_on: bool,
}

impl Tree {
    /// Reads a crate's files, except those of tests.
    fn of(sources: &str, files: &[TextFile]) -> Self {
        let mut tree = Self { modules: BTreeMap::new(), names: BTreeMap::new() };
        for file in files {
            let Some(path) = path_within(sources, file) else { continue };
            let mut parts: ModulePath = path.split('/').map(str::to_owned).collect();
            if parts.iter().any(|name| is_of_tests(name)) {
                continue;
            }
            if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                parts.pop();
            }
            tree.modules.insert(parts, code_of(&file.text));
        }
        for (module, code) in &tree.modules {
            for NamedPath { path: import, .. } in uses(code) {
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

    /// Returns the module in which a path ends, also through names that modules hand on, and the name
    /// of what the path means in it; `None` if it means the module itself.
    fn resolved(&self, path: &[String]) -> (ModulePath, Option<String>) {
        let mut path = path.to_vec();
        // A name may be handed on several times.
        for _ in 0..8 {
            let inside = (0..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length]));
            let length = inside.unwrap_or_default();
            let Some(name) = path.get(length).cloned() else { return (path, None) };
            match self.names.get(&(path[..length].to_vec(), name.clone())) {
                Some(stands_for) if *stands_for != path[..=length] => {
                    path = [stands_for, &path[length + 1..]].concat();
                }
                _ => {
                    path.truncate(length);
                    return (path, Some(name));
                }
            }
        }
        (path, None)
    }

    /// Returns what each module imports: the module that defines it, its name there, and whether it
    /// is only handed on.
    fn imports(&self) -> BTreeSet<(&ModulePath, ModulePath, Option<String>, bool)> {
        let mut imports = BTreeSet::new();
        for (module, code) in &self.modules {
            let children = self.modules.keys().filter(|child| child.len() == module.len() + 1);
            let children =
                children.filter(|child| child.starts_with(module)).filter_map(|child| child.last());
            let prefixes = ["crate::", "super::"].map(str::to_owned).into_iter();
            let prefixes = prefixes.chain(children.map(|child| format!("{child}::")));
            let inline: Vec<NamedPath> = prefixes.flat_map(|prefix| paths_after(code, &prefix)).collect();
            for NamedPath { path, is_handed_on } in uses(code).chain(inline) {
                let path = path.split(" as ").next().unwrap_or_default();
                if let Some(path) = self.absolute(module, path) {
                    let (to, name) = self.resolved(&path);
                    imports.insert((module, to, name, is_handed_on));
                }
            }
        }
        imports
    }

    /// Describes the imports that are part of a circle between the files of one folder.
    fn circular_imports(&self) -> Vec<String> {
        let mut between: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (from, to, ..) in self.imports() {
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

    /// Returns the modules that take what their folder's own file defines, and are used there, with
    /// the names of what they take.
    fn taken_from_folder(&self) -> Vec<(String, String)> {
        let imports = self.imports();
        let mut taken: BTreeMap<&ModulePath, BTreeSet<&str>> = BTreeMap::new();
        for (module, to, name, _) in &imports {
            let Some((_, folder)) = module.split_last().filter(|(_, folder)| *folder == to.as_slice()) else {
                continue;
            };
            let is_used = imports.iter().any(|(by, of, _, is_handed_on)| {
                by.as_slice() == folder && of.starts_with(module) && !is_handed_on
            });
            if let Some(name) = name.as_deref().filter(|name| is_used && defines(&self.modules[to], name)) {
                taken.entry(*module).or_default().insert(name);
            }
        }
        let extends = |module: &ModulePath, names: &BTreeSet<&str>| {
            names.iter().any(|name| implements(&self.modules[module], name))
        };
        let taken = taken.into_iter().filter(|(module, names)| !extends(module, names));
        taken
            .map(|(module, names)| (module.join("/"), names.into_iter().collect::<Vec<_>>().join(", ")))
            .collect()
    }
}

/// Returns whether code defines something of this name.
fn defines(code: &str, name: &str) -> bool {
    const KINDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
    words(code).zip(words(code).skip(1)).any(|(kind, word)| word == name && KINDS.contains(&kind))
}

/// Returns whether code implements a trait of this name, or adds to a type of this name.
fn implements(code: &str, name: &str) -> bool {
    let heads = code.lines().filter(|line| line.starts_with("impl"));
    heads.flat_map(words).any(|word| word == name)
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
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
fn uses(code: &str) -> impl Iterator<Item = NamedPath> + '_ {
    let statements = code.match_indices("use ").filter_map(|(at, word)| {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let (path, _) = code[at + word.len()..].split_once(';')?;
        (before.is_empty() || before.starts_with("pub")).then_some((path, !before.is_empty()))
    });
    statements.flat_map(|(path, is_handed_on)| {
        let paths = expanded(&path.split_whitespace().collect::<Vec<_>>().join(" "));
        paths.into_iter().map(move |path| NamedPath { path, is_handed_on })
    })
}

/// Returns the paths that a path with braces stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, inner)) = path.split_once('{') else { return vec![path.trim().to_owned()] };
    let parts = parts_of(inner).into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{before}{part}"))).collect()
}

/// Returns whether a line begins a `use` statement.
fn begins_import(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "))
}

/// Returns the paths with this prefix that code names outside of `use` statements.
fn paths_after(code: &str, prefix: &str) -> Vec<NamedPath> {
    let paths = code.match_indices(prefix).filter(|(at, _)| begins_path(code, *at)).filter_map(|(at, _)| {
        let end = code[at..].find(|next: char| !next.is_alphanumeric() && !"_:".contains(next));
        let path = code[at..].get(..end.unwrap_or(code.len() - at))?.trim_end_matches(':');
        let statement = code[..at].rsplit(';').next().unwrap_or_default();
        let is_import = statement.lines().any(begins_import);
        (!is_import).then(|| NamedPath { path: path.to_owned(), is_handed_on: false })
    });
    paths.collect()
}
