// The official TypeScript client takes the tour: node tour.mjs COMMAND ARGS..., or
// node tour.mjs URL TOKEN
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const overHttp = command.startsWith("http://");

/** What a client connects to: a command that it starts, or an address that it has a token for. */
function transport() {
  if (!overHttp) return new StdioClientTransport({ command, args, stderr: "inherit" });
  const headers = { Authorization: `Bearer ${args[0]}` };
  return new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } });
}

async function tour(person) {
  const capabilities = person ? { elicitation: {} } : {};
  const client = new Client({ name: "tour", version: "1" }, { capabilities });
  if (person) {
    const content = { approved: true, comment: "From TypeScript." };
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content }));
  }
  const connection = transport();
  await client.connect(connection);
  const { tools } = await client.listTools();
  const names = new Set(tools.map((tool) => tool.name));
  for (const name of ["echo", "counter", "request_approval", "slow_report"]) assert(names.has(name), name);
  assert.equal(tools.find((tool) => tool.name === "echo").annotations.readOnlyHint, true);

  const call = (name, given, options) => client.callTool({ name, arguments: given }, undefined, options);
  const hello = await call("echo", { text: "hello" });
  assert.equal(hello.content[0].text, "hello");
  const wrong = await call("echo", { txet: "hello" });
  assert.equal(wrong.isError, true);
  assert.equal(wrong.structuredContent.error.code, "invalid_arguments");
  await assert.rejects(call("no_such_tool", {}), /Unknown tool/);

  for (const count of [1, 2]) assert.equal((await call("counter", {})).structuredContent.total, count);
  const several = await Promise.all([...Array(20).keys()].map((n) => call("echo", { text: `${n}` })));
  several.forEach((result, n) => assert.equal(result.content[0].text, `${n}`));

  const steps = [];
  const given = { text: "# One\n\n# Two\n", parts: 2, pause_ms: 1 };
  const report = await call("slow_report", given, { onprogress: ({ progress }) => steps.push(progress) });
  assert(!report.isError, JSON.stringify(report));
  assert(steps.length > 0 && steps.every((step, at) => at === 0 || step > steps[at - 1]), `${steps}`);

  const approved = await call("request_approval", { question: "Shall I?" });
  if (person) assert.equal(approved.structuredContent.approved, true);
  else assert.equal(approved.structuredContent.status, "approval_required");

  const slow = new AbortController();
  const cancelled = call("slow_report", { text: "x", parts: 50, pause_ms: 500 }, { signal: slow.signal });
  setTimeout(() => slow.abort("enough"), 100);
  await assert.rejects(cancelled);
  assert.equal((await call("echo", { text: "still here" })).content[0].text, "still here");
  if (overHttp) await connection.terminateSession();
  await client.close();
  const way = overHttp ? "http" : "stdio";
  console.log(`typescript: ${way}, ${person ? "with" : "without"} forms: the tour is done`);
}

await tour(true);
await tour(false);
