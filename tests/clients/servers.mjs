// Calls the protocol's own example servers through the program, with the official TypeScript client:
// node servers.mjs TOLLGATE NODE_MODULES
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [tollgate, modules] = process.argv.slice(2);
const place = mkdtempSync(join(tmpdir(), "tollgate-servers-"));
const files = join(place, "files");

/** The configuration of a server that this Node runs. */
function server(name, args = []) {
  const program = join(modules, "@modelcontextprotocol", `server-${name}`, "dist/index.js");
  const env = name === "memory" ? `env = { MEMORY_FILE_PATH = ${JSON.stringify(join(place, "memory.jsonl"))} }\n` : "";
  return `[mcp.${name}]\ncommand = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([program, ...args])}\n${env}`;
}

async function everything(client) {
  const { tools } = await client.listTools();
  const tool = (name) => tools.find((tool) => tool.name === `everything__${name}`);
  const call = async (name, given = {}) => {
    const result = await client.callTool({ name: `everything__${name}`, arguments: given });
    assert.notEqual(result.isError, true, `${name}: ${JSON.stringify(result)}`);
    return result;
  };
  const types = ({ content }) => content.map((block) => block.type);

  assert.match((await call("echo", { message: "hello" })).content[0].text, /hello/);
  const image = (await call("get-tiny-image")).content.find((block) => block.type === "image");
  assert.equal(image.mimeType, "image/png");
  assert.equal(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");
  assert(types(await call("get-annotated-message", { messageType: "success", includeImage: true })).includes("image"));
  assert(types(await call("get-resource-links", { count: 2 })).includes("resource_link"));
  assert(types(await call("get-resource-reference", { resourceType: "Text", resourceId: 1 })).includes("resource"));
  const structured = tool("get-structured-content");
  assert(structured.outputSchema && structured.title, JSON.stringify(structured));
  const weather = await call("get-structured-content", { location: "Chicago" });
  assert.equal(typeof weather.structuredContent.temperature, "number");

  const listed = await call("list_resources");
  const [resource] = listed.structuredContent.resources;
  const read = await call("read_resource", { uri: resource.uri });
  assert(types(read).includes("resource"), JSON.stringify(read));
  const refused = await client.callTool({ name: "everything__read_resource", arguments: { uri: "demo://no/such" } });
  assert.equal(refused.isError, true);

  assert.equal(tool("simulate-research-query"), undefined, "it only runs as a task");
  console.log("server-everything: images, links, resources, schemas and titles arrive");
}

async function filesystem(client) {
  const call = (name, given) => client.callTool({ name: `filesystem__${name}`, arguments: given });
  const path = join(files, "note.txt");
  assert.notEqual((await call("write_file", { path, content: "Buy milk" })).isError, true);
  assert.equal(readFileSync(path, "utf8"), "Buy milk");
  assert.match(JSON.stringify(await call("read_text_file", { path })), /Buy milk/);
  assert.equal((await call("read_text_file", { path: "/etc/passwd" })).isError, true);
  writeFileSync(join(files, "dot.png"), Buffer.from("iVBORw0KGgo=", "base64"));
  const image = await call("read_media_file", { path: join(files, "dot.png") });
  assert.equal(image.content.find((block) => block.type === "image")?.mimeType, "image/png", JSON.stringify(image));
  console.log("server-filesystem: files are written and read, and nothing else");
}

async function memory(client) {
  const call = (name, given) => client.callTool({ name: `memory__${name}`, arguments: given });
  const entities = [{ name: "Ada", entityType: "person", observations: ["likes gates"] }];
  const created = await call("create_entities", { entities });
  assert.notEqual(created.isError, true, JSON.stringify(created));
  assert.match(JSON.stringify(await call("read_graph", {})), /likes gates/);
  const wrong = await call("create_entities", { entities: "Ada" });
  assert.equal(wrong.isError, true);
  console.log("server-memory: it remembers, and arguments are checked before it is asked");
}

try {
  mkdirSync(files);
  const config = server("everything", ["stdio"]) + server("filesystem", [files]) + server("memory");
  writeFileSync(join(place, "tollgate.toml"), config);
  const args = ["mcp", "--config", join(place, "tollgate.toml"), "--data", join(place, "data")];
  const client = new Client({ name: "servers", version: "1" });
  await client.connect(new StdioClientTransport({ command: tollgate, args, stderr: "inherit" }));
  try {
    await everything(client);
    await filesystem(client);
    await memory(client);
  } finally {
    await client.close();
  }
} finally {
  rmSync(place, { recursive: true, force: true });
}
