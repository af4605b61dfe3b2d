//! The names in a new project, adapted to languages in which not every name is valid.

use super::Template;
use super::error::BuildError;
use tollgate_agent::name;

/// The names in a new project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// The tool's name, which the model calls.
    pub(super) tool: String,
    /// The tool's function.
    pub(super) function: String,
    /// In Python, the argument that names the tool if its function cannot have that name.
    pub(super) named: String,
    /// The package, in Rust.
    pub(super) package: String,
}

impl Names {
    /// Derives the names of a project from its name.
    ///
    /// # Errors
    /// The name is not valid for a component, or for its tool.
    pub(super) fn of(name: &str, template: Template) -> Result<Self, BuildError> {
        if !name::is_id(name) || name::is_reserved_id(name) {
            return Err(BuildError::Usage(format!(
                "\"{}\" cannot be a tool's name: it must fit [a-z][a-z0-9-]{{0,63}}, such as word-count, and not be host or tollgate",
                name.escape_debug()
            )));
        }
        let mut names = Self {
            tool: name.replace('-', "_"),
            function: name.replace('-', "_"),
            named: String::new(),
            package: name.to_owned(),
        };
        let unfit = match template {
            _ if name::is_reserved_name(&names.tool) => Some("the host itself has a tool of this name"),
            Template::Rust => names.fit_rust(),
            Template::Python => names.fit_python(),
            Template::Wat => names.fit_component(name),
            Template::C | Template::Go | Template::Javascript | Template::Typescript => None,
        };
        let example = if template == Template::Wat { "word-count".to_owned() } else { format!("my-{name}") };
        match unfit {
            Some(why) => Err(BuildError::Usage(format!(
                "\"{name}\" cannot be the name of this tool: {why}. Choose another, such as {example}"
            ))),
            None => Ok(names),
        }
    }

    fn fit_rust(&mut self) -> Option<&'static str> {
        let tool = self.tool.as_str();
        if ["crate", "self", "super"].contains(&tool) {
            return Some("a Rust function cannot have this name");
        }
        let is_keyword = RUST_KEYWORDS.contains(&tool);
        if is_keyword {
            self.function = format!("r#{tool}");
        }
        if is_keyword || RUST_PACKAGES.contains(&tool) {
            self.package.push_str("-tool");
        }
        None
    }

    fn fit_python(&mut self) -> Option<&'static str> {
        if PYTHON_NAMES.contains(&self.tool.as_str()) {
            self.function.push('_');
            self.named = format!("name=\"{}\", ", self.tool);
        }
        None
    }

    /// Checks the rule for a component's own names: every word begins with a letter.
    fn fit_component(&mut self, name: &str) -> Option<&'static str> {
        self.tool = name.to_owned();
        let is_word = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
        (!name.split('-').all(is_word))
            .then_some("the words of a component's function, between hyphens, each begin with a letter")
    }
}

/// Keywords of any edition that can name a function after `r#`.
const RUST_KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// Crates that come with the compiler, and the one that every tool depends on.
const RUST_PACKAGES: [&str; 6] = ["alloc", "core", "proc_macro", "std", "test", "tollgate_sdk"];
/// Keywords, and names that a module with a tool already uses.
const PYTHON_NAMES: [&str; 38] = [
    "and",
    "as",
    "assert",
    "async",
    "await",
    "bool",
    "break",
    "class",
    "component",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "float",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "int",
    "is",
    "lambda",
    "list",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "str",
    "try",
    "while",
    "with",
    "yield",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(name: &str, template: Template) -> [String; 4] {
        let Names { tool, function, named, package } = Names::of(name, template).unwrap();
        [tool, function, named, package]
    }

    #[test]
    fn a_name_that_the_language_has_taken_is_written_otherwise() {
        assert_eq!(names("word-count", Template::Rust), ["word_count", "word_count", "", "word-count"]);
        assert_eq!(names("match", Template::Rust), ["match", "r#match", "", "match-tool"]);
        assert_eq!(names("test", Template::Rust), ["test", "test", "", "test-tool"]);
        assert_eq!(names("class", Template::Python), ["class", "class_", "name=\"class\", ", "class"]);
        assert_eq!(names("word-count", Template::Python), ["word_count", "word_count", "", "word-count"]);
        assert_eq!(names("word-count", Template::Wat)[0], "word-count");
        assert_eq!(names("match", Template::Go)[1], "match");
    }

    #[test]
    fn what_cannot_be_written_is_refused_with_a_name_that_can() {
        for (name, template, why) in [
            ("super", Template::Rust, "such as my-super"),
            ("search-history", Template::C, "the host itself has a tool of this name"),
            ("tollgate-x", Template::Go, "the host itself has a tool of this name"),
            ("word-2", Template::Wat, "begin with a letter"),
            ("a--b", Template::Wat, "begin with a letter"),
            ("Hello", Template::Rust, "it must fit"),
        ] {
            let said = Names::of(name, template).unwrap_err().to_string();
            assert!(said.contains(why), "{name}: {said}");
        }
    }
}
