//! Checks that the name of a type has one meaning in its crate.

use std::collections::BTreeMap;

use crate::{TextFile, assert_none, text_files};

/// A crate's sources, a name that several of its types share, and the reason.
const EXCEPT: &[(&str, &str, &str)] = &[];

#[test]
fn a_type_name_has_one_definition_in_its_crate() {
    let files = text_files();
    let defined = definitions(&files);
    assert!(defined.len() > 1_000, "only {} names were found", defined.len());
    let several = defined.iter().filter(|(_, places)| places.len() > 1);
    let several: BTreeMap<_, _> = several.collect();
    let is_excepted = |of: &(&str, &str)| EXCEPT.iter().any(|(sources, name, _)| (*sources, *name) == *of);
    let wrong = several.iter().filter(|(of, _)| !is_excepted(of));
    let wrong =
        wrong.map(|((sources, name), places)| format!("{sources}: `{name}` in {}", places.join(", ")));
    assert_none("Give each of these types a name of its own, or define it once:", wrong);
    let needless = EXCEPT.iter().filter(|(sources, name, _)| !several.contains_key(&(*sources, *name)));
    assert_none("These exceptions are needed no longer:", needless.map(|(_, name, _)| name));
}

#[test]
fn definitions_are_found() {
    let text = "pub struct A;\n    enum B {\npub(crate) type C<T> = T;\n#[cfg(not(x))]\nstruct D;\n// struct E;\n\
                impl F for A {\n    type G = u8;\n}\nfn h() {\n    struct I;\n}\n#[cfg(test)]\nmod tests {\n    struct J;\n}\n";
    assert_eq!(types_of(text).collect::<Vec<_>>(), ["A", "B", "C", "I"]);
}

/// Returns the files that define each type, by the crate's sources and the type's name.
fn definitions(files: &[TextFile]) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut defined: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let Some((sources, path)) = file.path.split_once("/src/") else { continue };
        if !sources.starts_with("host") && !sources.starts_with("guest-sdk") || path.contains("templates/") {
            continue;
        }
        for name in types_of(&file.text) {
            defined.entry((sources, name)).or_default().push(path);
        }
    }
    defined
}

/// Returns the names of the types that a source defines outside of its tests. Associated types, and
/// the counterpart of a type that is compiled instead of it, are left out.
fn types_of(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut is_counterpart = false;
    text.lines().filter_map(move |line| {
        let left_out = std::mem::replace(&mut is_counterpart, line.trim_start().starts_with("#[cfg(not("));
        let declaration = line.trim_start();
        let declaration =
            declaration.strip_prefix("pub").map_or(declaration, |rest| match rest.strip_prefix('(') {
                Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
                None => rest.trim_start(),
            });
        let (kind, rest) = declaration.split_once(' ')?;
        let is_type = match kind {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => !line.starts_with(' '),
            _ => false,
        };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (is_type && !left_out && name.starts_with(char::is_uppercase)).then_some(name)
    })
}
