//! Checks the order of the modules of each crate: a module imports only modules before it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{TextFile, assert_none, text_files};

/// The modules of a crate, ground first.
struct Order {
    /// The directory of the crate's sources.
    sources: &'static str,
    /// The modules, each of which may import those before it.
    modules: &'static [&'static str],
}

/// The crates, in the order of `layers.rs`.
const ORDERS: &[Order] = &[
    Order {
        sources: "host/agent/src",
        modules: &[
            "backend",
            "limit_places",
            "name",
            "text",
            "digest",
            "content",
            "message",
            "remote",
            "json",
            "code",
            "context",
            "recorded_inputs",
            "child",
            "outcome",
            "schema",
            "state",
            "hook",
            "descriptor",
            "agents",
            "catalog",
            "prompt",
            "proposal",
            "question",
            "gate",
            "run",
            "composition",
            "egress",
            "health",
            "history",
            "redact",
            "surface",
            "text_calls",
        ],
    },
    Order {
        sources: "host/sandbox/src",
        modules: &[
            "description",
            "limits",
            "budget",
            "error",
            "runtime",
            "ledger",
            "ticker",
            "descriptors",
            "deadline",
            "report",
            "call_limit",
            "component_places",
            "share",
            "config",
            "admission",
            "meter",
            "egress",
            "termination",
            "watchdog",
            "grants",
            "attempt",
            "blocking",
            "console",
            "nondeterminism",
            "redact",
            "instance",
            "charge",
            "v0_1_0",
            "interfaces",
            "engine",
            "load",
            "compile",
            "plain",
            "shared",
            "gate",
            "component",
            "sandbox",
        ],
    },
    Order {
        sources: "host/registry/src",
        modules: &[
            "error",
            "digest",
            "signature",
            "interfaces",
            "reference",
            "trust",
            "client",
            "directory",
            "lock",
            "install",
            "metadata",
            "fetch",
        ],
    },
    Order {
        sources: "host/store/src",
        modules: &[
            "error",
            "audit",
            "charges",
            "checksum",
            "commands",
            "component",
            "commit",
            "limits",
            "runs",
            "coordination_store",
            "request_keys",
            "state_store",
            "run_store",
            "rebase",
            "joined_change",
            "volatile",
            "commit_rows",
            "memory",
            "rules",
            "upkeep",
        ],
    },
    Order {
        sources: "host/models/src",
        modules: &[
            "secret",
            "fault",
            "http_client",
            "provider",
            "providers",
            "retry",
            "scripted",
            "text_calls",
            "config",
        ],
    },
    Order {
        sources: "host/sqlite/src",
        modules: &[
            "audit",
            "explain",
            "private_dir",
            "reserve",
            "lock",
            "process",
            "inbox",
            "sizes",
            "job",
            "store_files",
            "open",
            "turns",
            "state",
            "joined_changes",
            "read",
            "readers",
            "remove",
            "prune",
            "queue",
            "read_only",
            "recent_keys",
            "thread_cache",
            "foreign",
            "verify",
            "thread_queue",
            "write",
            "write_connection",
            "writer",
        ],
    },
    Order {
        sources: "host/postgres/src",
        modules: &[
            "config",
            "error",
            "lease",
            "preparation",
            "connect",
            "statements",
            "hints",
            "settings",
            "audit",
            "record_sizes",
            "prepared_commit",
            "write",
            "conversations",
            "read",
            "commit",
            "turns",
            "inbox",
            "schema",
            "renewal",
            "member",
            "database",
            "components",
            "remove",
            "pruned_threads",
            "record_audit",
            "store",
            "request_keys",
            "copy",
            "prune",
        ],
    },
    Order {
        sources: "host/src",
        modules: &[
            "blocking",
            "sandbox",
            "models",
            "store",
            "config",
            "error",
            "registry",
            "grants",
            "state_key",
            "tools",
            "a2a",
            "gates",
            "stream",
            "plugins",
            "agents",
            "builtin",
            "run",
            "host",
            "metrics",
        ],
    },
    Order {
        sources: "host/mcp/src",
        modules: &[
            "memory_share",
            "mounted_client",
            "call_result",
            "reader",
            "client",
            "connections",
            "sessions",
            "request_limit",
            "disconnects",
            "form",
            "writer",
            "notifications",
            "tool_list",
            "task_runs",
            "suspended_calls",
            "tool_calls",
            "tasks",
            "elicitation",
            "weight",
            "transport",
            "guard",
            "server",
            "http",
            "stdio",
        ],
    },
    Order {
        sources: "host/server/src",
        modules: &[
            "parts",
            "scope",
            "problem",
            "parameters",
            "readiness",
            "pricing",
            "pulse",
            "run_changes",
            "written_events",
            "waiting_runs",
            "sign_in_rate",
            "load",
            "access",
            "operator",
            "state",
            "tool_limits",
            "event_stream",
            "sse",
            "body",
            "access_audit",
            "idempotency",
            "operations",
            "console",
            "console_data",
            "agent_runs",
            "a2a",
            "ag_ui",
            "ai_sdk",
            "mcp",
            "runs",
            "api",
            "openai",
            "protocol_errors",
            "http_guard",
            "auth",
            "router",
            "server",
        ],
    },
    Order {
        sources: "host/cli/src",
        modules: &["globals", "terminal", "render", "session", "project", "verbs", "telemetry"],
    },
];

/// Returns the directories of the sources of all crates.
pub(crate) fn sources() -> impl Iterator<Item = &'static str> {
    ORDERS.iter().map(|order| order.sources)
}

#[test]
fn modules_import_only_those_before_them() {
    let files = text_files();
    let mut wrong = Vec::new();
    for order in ORDERS {
        for ((from, to), by) in order.imports(&files) {
            if order.place(to) > order.place(from) {
                let by = by.into_iter().collect::<Vec<_>>().join(", ");
                wrong.push(format!("{}: `{from}` imports `{to}` in {by}", order.sources));
            }
        }
    }
    assert_none("Move what both need into a module before them:", wrong);
}

#[test]
fn each_module_has_a_place() {
    let files = text_files();
    let is_root = |file: &&TextFile| file.path.starts_with("host/") && file.path.ends_with("/src/lib.rs");
    let crates = files.iter().filter(is_root).filter_map(|file| file.path.strip_suffix("/lib.rs"));
    let unordered = crates.filter(|sources| !ORDERS.iter().any(|order| order.sources == *sources));
    let mut wrong: Vec<String> = unordered.map(|sources| format!("{sources}: it has no order")).collect();
    for order in ORDERS {
        let declared = order.declared(&files);
        let listed: BTreeSet<&str> = order.modules.iter().copied().collect();
        let unlisted = declared.difference(&listed).map(|name| format!("`{name}` has no place"));
        let unknown = listed.difference(&declared).map(|name| format!("`{name}` does not exist"));
        wrong.extend(unlisted.chain(unknown).map(|problem| format!("{}: {problem}", order.sources)));
    }
    assert_none("The order of modules in tests/tests/tidy/modules.rs is out of date:", wrong);
}

#[test]
fn imports_are_found_however_they_are_written() {
    let text = "use crate::a::X;\nuse super::{b::Y, c};\n// use crate::d::Z;\nuse other::crate_e;\n\
                fn f() { crate::g::h() }\n#[cfg(test)]\nmod tests {\n    use crate::i;\n}\n";
    let code = code_of(text);
    let found = names_after(&code, "crate::").chain(names_after(&code, "super::"));
    assert_eq!(found.collect::<Vec<_>>(), ["a", "g", "b", "c"].map(String::from));
    let parts = "pub use a::{B, C as D};\npub(crate) use e::f::G;\nuse h::I;\n";
    let found: Vec<_> = re_exports(parts).collect();
    assert_eq!(
        found,
        [("B", "a"), ("D", "a"), ("G", "e")].map(|(name, of)| (name.to_owned(), of.to_owned()))
    );
}

/// An import from one module of another.
type Import = (&'static str, &'static str);

impl Order {
    /// Returns the place of a module in the order.
    fn place(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|name| *name == module)
    }

    /// Returns the text of the crate's root.
    fn root<'f>(&self, files: &'f [TextFile]) -> &'f str {
        let is_root = |file: &&TextFile| matches!(path_within(self.sources, file), Some("lib" | "main"));
        &files.iter().find(is_root).unwrap_or_else(|| panic!("{} has no root", self.sources)).text
    }

    /// Returns the modules that the crate's root declares in files of their own.
    fn declared<'f>(&self, files: &'f [TextFile]) -> BTreeSet<&'f str> {
        let lines = self.root(files).lines();
        let module = |line: &'f str| {
            let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';')
        };
        lines.filter_map(module).filter(|name| *name != "tests").collect()
    }

    /// Returns the imports between the crate's modules, and the files that contain each.
    fn imports(&self, files: &[TextFile]) -> BTreeMap<Import, BTreeSet<String>> {
        let handed_on: BTreeMap<String, String> = re_exports(&code_of(self.root(files))).collect();
        let mut imports: BTreeMap<Import, BTreeSet<String>> = BTreeMap::new();
        for file in files {
            let Some(path) = path_within(self.sources, file) else { continue };
            let mut parts: Vec<&str> = path.split('/').collect();
            if parts.last() == Some(&"mod") {
                parts.pop();
            }
            if parts.last().is_some_and(|name| is_of_tests(name)) {
                continue;
            }
            let Some(from) = self.modules.iter().find(|name| parts.first() == Some(*name)) else { continue };
            let code = code_of(&file.text);
            let up = "super::".repeat(parts.len());
            for name in names_after(&code, "crate::").chain(names_after(&code, &up)) {
                let module = handed_on.get(&name).unwrap_or(&name);
                let Some(to) = self.modules.iter().find(|known| *known == module) else { continue };
                if from != to {
                    imports.entry((from, to)).or_default().insert(file.name().to_owned());
                }
            }
        }
        imports
    }
}

/// Returns the path of a source within these sources, without its ending; `None` if it is elsewhere.
pub(crate) fn path_within<'f>(sources: &str, file: &'f TextFile) -> Option<&'f str> {
    file.path.strip_prefix(sources)?.strip_prefix('/')?.strip_suffix(".rs")
}

/// Returns whether a module of this name contains tests.
pub(crate) fn is_of_tests(module: &str) -> bool {
    module == "tests" || module.ends_with("_tests")
}

/// Returns the text without comments and without the tests at its end.
pub(crate) fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the first names of the paths that begin with this prefix, including those in braces.
fn names_after<'t>(code: &'t str, prefix: &'t str) -> impl Iterator<Item = String> + 't {
    let begins = code.match_indices(prefix).filter(move |(at, _)| begins_path(code, *at));
    begins.flat_map(move |(at, _)| first_names(&code[at + prefix.len()..]))
}

/// Returns whether a path begins at this position, instead of going on.
pub(crate) fn begins_path(code: &str, at: usize) -> bool {
    !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before))
}

/// Returns the first names of a path, or of the paths in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |path: &str| {
        let path = path.trim_start();
        path.split(|next: char| !next.is_alphanumeric() && next != '_').next().unwrap_or_default().to_owned()
    };
    match path.strip_prefix('{') {
        None => vec![name(path)],
        Some(inner) => parts_of(inner).into_iter().map(name).filter(|name| !name.is_empty()).collect(),
    }
}

/// Returns the parts, separated by commas, of a text up to its closing brace.
pub(crate) fn parts_of(inner: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (at, next) in inner.char_indices() {
        match next {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            '}' => {
                parts.push(&inner[start..at]);
                break;
            }
            _ => {}
        }
    }
    parts
}

/// Returns the names that a crate's root hands on, and the module of each.
fn re_exports(root: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let statements = root.split(';').filter_map(|statement| {
        let statement = statement.trim();
        let at = statement.find("pub use ").map(|at| at + 8);
        let at = at.or_else(|| statement.find("pub(crate) use ").map(|at| at + 15))?;
        let path = &statement[at..];
        let (module, rest) = path.split_once("::")?;
        let (_, names) =
            rest.rsplit_once("::").filter(|(before, _)| !before.contains('{')).unwrap_or(("", rest));
        let names = match names.strip_prefix('{') {
            Some(inner) => parts_of(inner),
            None => vec![names],
        };
        let own = |name: &str| name.rsplit([' ', ':']).next().unwrap_or_default().to_owned();
        let names = names.into_iter().map(|name| own(name.trim())).filter(|name| !name.is_empty());
        Some(names.map(|name| (name, module.to_owned())).collect::<Vec<_>>())
    });
    statements.flatten()
}
