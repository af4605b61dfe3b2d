//! Tests that a tool in a new project can be built from within the project and granted files as its
//! README shows, and then reads them with its language's own functions.

use crate::built::guests_target;
use crate::projects::{command, said, tollgate};
use std::fs;
use std::path::Path;

const RUST: &str = r#"
use tollgate_sdk::{component, tool};

/// Reads a file.
#[tool]
pub fn reads_rust(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

component! { id: "reads-rust", tools: [reads_rust] }
"#;

const C: &str = r#"
#include "tollgate.h"

#include <stdio.h>

static void reads(tollgate_call *call) {
  json_text path = json_string(json_member(call->args, "path"));
  FILE *file = fopen(path.start, "r");
  char text[100];
  json_writer answer = {0};
  if (file) json_put_string(&answer, text, fread(text, 1, sizeof text, file));
  else json_put(&answer, "null");
  tollgate_succeed(call, &answer);
}

static const tollgate_tool tools[] = {{
    .name = "reads_c", .id = "reads-c", .description = "Reads a file.", .execute = reads,
    .parameters = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}"}};

const tollgate_component_descriptor tollgate_component = {
    .id = "reads-c", .version = "0.1.0", .tools = tools, .tool_count = 1};
"#;

const GO: &str = r#"
package main

import (
	"os"

	"tollgate.dev/tool"
)

func init() {
	reads := tool.New("reads_go", "Reads a file.", reads)
	tool.Serve(tool.Component{ID: "reads-go", Version: "0.1.0", Tools: []tool.Tool{reads}})
}

func main() {}

type args struct {
	Path string `json:"path"`
}

func reads(_ *tool.Call, args args) (any, error) {
	text, err := os.ReadFile(args.Path)
	return string(text), err
}
"#;

const PYTHON: &str = r#"
from tollgate import Component

component = Component("reads-python")


@component.tool()
def reads_python(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


Tool = component.export()
"#;

const TYPESCRIPT: &str = r#"
import { readFile } from "node:fs/promises";
import { component } from "tollgate";

export const tool = component({ id: "reads-typescript", tools: [{ name: "reads_typescript", execute: reads }] });

/** Reads a file. */
async function reads({ path }: { path: string }): Promise<string> {
  return await readFile(path, "utf8");
}
"#;

/// A language, and a tool in it that replaces the file of the new project's tool. JavaScript has the
/// library of TypeScript; the module `files` tests more of it.
const READERS: [(&str, &str, &str); 5] = [
    ("rust", "src/lib.rs", RUST),
    ("c", "tool.c", C),
    ("go", "tool.go", GO),
    ("typescript", "tool.ts", TYPESCRIPT),
    ("python", "tool.py", PYTHON),
];

/// Returns the block of a README that is marked with this language.
fn block<'a>(readme: &'a str, language: &str) -> &'a str {
    let (_, block) = readme.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn every_language_reads_what_was_granted_with_its_own_means() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    for (language, file, source) in READERS {
        let place = tempfile::tempdir().unwrap();
        let name = format!("reads-{language}");
        tollgate(place.path(), &["new", &name, "--lang", language, "--sdk", sdk.to_str().unwrap()]);
        let project = place.path().join(&name);
        fs::write(project.join(file), source).unwrap();
        let readme = fs::read_to_string(project.join("README.md")).unwrap();
        assert!(block(&readme, "console").contains("$ tollgate build "), "{readme}");

        let mut build = command(&project, &["build"]);
        let built = build.env("CARGO_TARGET_DIR", guests_target()).output().unwrap();
        assert!(built.status.success(), "{language}: {}", String::from_utf8_lossy(&built.stderr));
        assert!(place.path().join("tools").join(&name).with_extension("wasm").is_file(), "{language}");

        fs::create_dir(place.path().join("docs")).unwrap();
        fs::write(place.path().join("docs/words.txt"), "one two ä").unwrap();
        let call = |path: &str| {
            let arguments = serde_json::json!({ "path": path }).to_string();
            said(&mut command(place.path(), &["call", &name.replace('-', "_"), &arguments]))
        };
        let (_, answer, _) = call("/docs/words.txt");
        assert!(!answer.contains("one two"), "{language}: nothing is granted yet: {answer}");
        fs::write(place.path().join("tollgate.toml"), block(&readme, "toml")).unwrap();
        let (success, answer, words) = call("/docs/words.txt");
        assert!(success && answer == "one two ä\n", "{language}: {answer}{words}");
        let (_, answer, _) = call("/docs/../words.txt");
        assert!(!answer.contains("one two"), "{language}: {answer}");
    }
}
