//! `node:fs` of a tool does what it does in Node: the same steps run in both, with the same results.

use crate::projects::{command, tollgate};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Steps below a directory, each with its result or its error.
const STEPS: &str = r#"
import fs, { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import * as later from "node:fs/promises";

export async function steps(root) {
  const results = [];
  const step = async (work) => {
    try {
      results.push((await work()) ?? null);
    } catch ({ code, message }) {
      results.push([code, message.split(":")[0]]);
    }
  };
  const at = (path) => `${root}/${path}`;
  const kinds = (entries) => entries.map((it) => [it.name, it.parentPath.replace(root, "ROOT"), it.isFile(), it.isDirectory()]).sort();
  const facts = ({ size, mtime, mtimeMs }) => [size, mtime instanceof Date, Date.now() - mtimeMs < 60_000];
  await step(() => fs.mkdirSync(at("a/b"), { recursive: true }) && "made");
  await step(() => fs.mkdirSync(at("a/b"), { recursive: true }));
  await step(() => fs.mkdirSync(at("a")));
  await step(() => fs.mkdirSync(at("none/b")));
  await step(() => writeFileSync(at("a/one"), "wörds"));
  await step(() => later.writeFile(at("a/b/two"), new Uint8Array([104, 105]), { flag: "wx" }));
  await step(() => writeFileSync(at("a/one"), "again", { flag: "wx" }));
  await step(() => fs.appendFileSync(at("a/one"), " more"));
  await step(() => later.appendFile(at("a/new"), "begun"));
  await step(() => readFileSync(at("a/one"), "utf8"));
  await step(() => readFileSync(at("./a/../a/b//two")).toString());
  await step(() => later.readFile(at("a/one"), { encoding: "utf-8" }));
  await step(() => [...readFileSync(at("a/b/two"))]);
  await step(() => readFileSync(at("a/none"), "utf8"));
  await step(() => readFileSync(at("a")));
  await step(() => readFileSync(at("a/one/x")));
  await step(() => readdirSync(at("a")).sort());
  await step(() => readdirSync(root, { recursive: true }).sort());
  await step(() => kinds(readdirSync(at("a"), { withFileTypes: true })));
  await step(async () => kinds(await later.readdir(root, { withFileTypes: true, recursive: true })));
  await step(() => readdirSync(at("a/one")));
  await step(() => readdirSync(at("none")));
  await step(() => facts(statSync(at("a/one"))));
  await step(() => [statSync(at("a")).isDirectory(), fs.lstatSync(at("a/one")).isFile()]);
  await step(() => statSync(at("none")));
  await step(() => statSync(at("none"), { throwIfNoEntry: false }));
  await step(() => [existsSync(at("a")), existsSync(at("none"))]);
  await step(() => later.access(at("none")));
  await step(() => fs.copyFileSync(at("a/one"), at("copy")));
  await step(() => later.rename(at("copy"), at("a/b/moved")));
  await step(() => readFileSync(at("a/b/moved"), "utf8"));
  await step(() => fs.renameSync(at("none"), at("b")));
  await step(() => fs.rmdirSync(at("a")));
  await step(() => fs.unlinkSync(at("none")));
  await step(() => fs.rmSync(at("none"), { force: true }));
  await step(() => fs.unlinkSync(at("a/one")));
  await step(() => later.rm(at("a"), { recursive: true }));
  await step(() => readdirSync(root));
  const large = "0123456789".repeat(120_000);
  await step(() => fs.promises.writeFile(at("large"), large));
  await step(() => readFileSync(at("large"), "utf8") === large);
  return results;
}
"#;

const TOOL: &str = r#"
import { component } from "tollgate";
import { steps } from "./steps.js";

export const tool = component({ id: "files", tools: [{ name: "files", timeoutMs: 60_000, execute }] });

/** Goes through the steps. */
function execute() {
  return steps("/files");
}
"#;

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn files_of_a_tool_in_javascript_are_those_of_node() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk").canonicalize().unwrap();
    let place = tempfile::tempdir().unwrap();
    tollgate(place.path(), &["new", "files", "--lang", "javascript", "--sdk", sdk.to_str().unwrap()]);
    fs::write(place.path().join("files/tool.js"), TOOL).unwrap();
    fs::write(place.path().join("files/steps.js"), STEPS).unwrap();
    for directory in ["of-tool", "of-node"] {
        fs::create_dir(place.path().join(directory)).unwrap();
    }
    let grants =
        "[grants.files]\nfiles = [{ host = \"of-tool\", guest = \"/files\", access = \"read-write\" }]\n";
    fs::write(place.path().join("tollgate.toml"), grants).unwrap();
    let built = command(place.path(), &["build", "files"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let of_tool: Value =
        serde_json::from_str(&tollgate(place.path(), &["call", "files", "{}", "--json"])).unwrap();

    let program = "import('./files/steps.js').then(async ({ steps }) => console.log(JSON.stringify(await steps(process.argv[1]))))";
    let node = Command::new("node")
        .args(["-e", program])
        .arg(place.path().join("of-node"))
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    let of_node: Value = serde_json::from_slice(&node.stdout).unwrap();
    let (of_tool, of_node) = (of_tool["data"].as_array().unwrap(), of_node.as_array().unwrap());
    assert_eq!(of_tool.len(), of_node.len());
    for (at, (tool, node)) in of_tool.iter().zip(of_node).enumerate() {
        assert_eq!(tool, node, "step {}", at + 1);
    }
}
