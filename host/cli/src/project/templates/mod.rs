//! The files of a new project, for each language. `{{name}}` and `{{sdk}}` stand for the project's
//! name and SDK; `{{tool}}` and others stand for the fields of [`Names`](super::names::Names).

use clap::ValueEnum;

/// The languages that have a project template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Rust, by cargo
    Rust,
    /// C, by zig's compiler
    C,
    /// Go, by its own compiler
    Go,
    /// JavaScript, with QuickJS inside
    #[value(alias = "js")]
    Javascript,
    /// TypeScript, with QuickJS inside
    #[value(alias = "ts")]
    Typescript,
    /// Python, with CPython inside
    #[value(alias = "py")]
    Python,
    /// WebAssembly's text format, without a compiler
    Wat,
}

/// A file's path within the project, and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($language:literal: $($path:literal = $template:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!($language, "/", $template, ".txt")))),+]
    };
}

impl Template {
    /// Returns the template's files.
    pub(crate) fn files(self) -> &'static [File] {
        match self {
            Self::Rust => files!("rust":
                "Cargo.toml" = "Cargo.toml",
                ".cargo/config.toml" = "config.toml",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
                "src/lib.rs" = "lib.rs",
            ),
            Self::C => files!("c":
                "tool.toml" = "tool.toml",
                "tool.c" = "tool.c",
                "test.c" = "test.c",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
            Self::Go => files!("go":
                "tool.toml" = "tool.toml",
                "go.mod" = "go.mod",
                "tool.go" = "tool.go",
                "tool_test.go" = "tool_test.go",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
            Self::Javascript => files!("javascript":
                "tool.toml" = "tool.toml",
                "package.json" = "package.json",
                "tool.js" = "tool.js",
                "tool.test.js" = "tool.test.js",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
            Self::Typescript => files!("typescript":
                "tool.toml" = "tool.toml",
                "package.json" = "package.json",
                "tsconfig.json" = "tsconfig.json",
                "tool.ts" = "tool.ts",
                "tool.test.ts" = "tool.test.ts",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
            Self::Python => files!("python":
                "tool.toml" = "tool.toml",
                "tool.py" = "tool.py",
                "test_tool.py" = "test_tool.py",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
            Self::Wat => files!("wat":
                "tool.toml" = "tool.toml",
                "tool.wat" = "tool.wat",
                ".gitignore" = "gitignore",
                "README.md" = "README.md",
            ),
        }
    }

    /// Returns the file to edit first.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::C => "tool.c",
            Self::Go => "tool.go",
            Self::Javascript => "tool.js",
            Self::Typescript => "tool.ts",
            Self::Python => "tool.py",
            Self::Wat => "tool.wat",
        }
    }
}
