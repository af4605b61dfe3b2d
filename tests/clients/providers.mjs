// Runs an agent of the program with aimock, a server of the providers' protocols by others, and
// through a LiteLLM proxy: node providers.mjs TOLLGATE TOOLS_DIR [LITELLM]
//
// TOOLS_DIR has the component `echo`. Each provider streams, calls a tool and reads its result, limits
// the rate once, breaks off once in mid-stream, and refuses a request for good.
import { LLMock } from "@copilotkit/aimock";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [tollgate, toolsDir, litellm] = process.argv.slice(2);
const place = mkdtempSync(join(tmpdir(), "tollgate-providers-"));
// The key that the proxy accepts; the mock accepts any.
const KEY = `sk-${randomBytes(32).toString("hex")}`;
const mock = new LLMock({ port: 0 });

/** Runs a program, and returns its exit code and what it wrote. */
function run(command, args, env) {
  const child = spawn(command, args, { cwd: place, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].on("data", (piece) => (said[stream] += piece));
  return new Promise((resolve, reject) => {
    child.on("error", reject).on("close", (code) => resolve({ code, ...said }));
  });
}

/** Asks the agent at this provider; its events, or how it failed. */
async function ask(provider, baseUrl, prompt) {
  const config = `[model]
provider = "${provider}"
model = "mock"
base_url = "${baseUrl}"
api_key_env = "MOCK_KEY"
[model.retry]
first_pause_ms = 10
[agents.assistant]
tools = ["echo"]
`;
  writeFileSync(join(place, "tollgate.toml"), config);
  const said = await run(tollgate, ["run", prompt, "--json"], { MOCK_KEY: KEY, TOLLGATE_DATA: join(place, "data") });
  return { ...said, events: said.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line)) };
}

/** What a provider answers: a call, then the text that its result leads to. */
function answers() {
  const call = { toolCalls: [{ id: "call_1", name: "echo", arguments: '{"text":"seven"}' }] };
  mock.on({ userMessage: "How many", hasToolResult: false }, call);
  mock.on({ userMessage: "How many", hasToolResult: true }, { content: "There are seven, says the tool." });
  const long = "This text is long enough to come in several pieces.";
  mock.on({ userMessage: "Break off", sequenceIndex: 0 }, { content: long }, { truncateAfterChunks: 2, chunkSize: 5 });
  mock.on({ userMessage: "Break off" }, { content: long }, { chunkSize: 5 });
  mock.on({ userMessage: "Greet" }, { content: "Hello there, Ada." }, { chunkSize: 4 });
  mock.on({ userMessage: "Refuse" }, { error: { message: "the key is not valid", type: "invalid_request_error" }, status: 401 });
}

/** Makes a request that has to be repeated once. */
async function twice(name, request) {
  mock.clearRequests();
  const answered = await request();
  assert.equal(mock.getRequests().length, 2, `${name}: the request is repeated once`);
  return answered;
}

async function story(name, provider, baseUrl) {
  const greeted = await ask(provider, baseUrl, "Greet me.");
  assert.equal(greeted.code, 0, `${name}: ${greeted.stderr}`);
  const deltas = greeted.events.filter((event) => JSON.stringify(event).includes("text_delta"));
  assert(deltas.length > 1, `${name} streams: ${greeted.stdout}`);
  assert.match(greeted.stdout, /Hello there, Ada\./, name);

  const counted = await ask(provider, baseUrl, "How many are there?");
  assert.equal(counted.code, 0, `${name}: ${counted.stderr}${counted.stdout}`);
  assert.match(counted.stdout, /There are seven, says the tool\./, name);

  mock.nextRequestError(429, { message: "slow down", type: "rate_limit_error" });
  const limited = await twice(name, () => ask(provider, baseUrl, "Greet me again."));
  assert.equal(limited.code, 0, `${name}, after a rate limit: ${limited.stderr}`);
  assert.match(limited.stdout, /Hello there, Ada\./, name);

  mock.resetMatchCounts();
  const broken = await twice(name, () => ask(provider, baseUrl, "Break off."));
  assert.equal(broken.code, 0, `${name}, after a broken stream: ${broken.stderr}${broken.stdout}`);
  assert.match(broken.stdout, /several pieces\./, name);

  const refused = await ask(provider, baseUrl, "Refuse it.");
  assert.equal(refused.code, 1, `${name}: ${refused.stdout}`);
  assert.match(refused.stdout + refused.stderr, /not valid|refused|401/i, name);
  console.log(`${name}: it streams, calls, retries and refuses`);
}

/** Starts a LiteLLM proxy before the mock; what ends it, and its address. */
async function proxy(mockUrl) {
  const config = `model_list:
  - model_name: mock
    litellm_params: { model: openai/mock, api_base: "${mockUrl}/v1", api_key: mock }
litellm_settings: { num_retries: 0, telemetry: false }
`;
  writeFileSync(join(place, "litellm.yaml"), config);
  const port = 20000 + (process.pid % 20000);
  const env = { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_MODE: "PRODUCTION", LITELLM_MASTER_KEY: KEY };
  const args = ["--config", join(place, "litellm.yaml"), "--host", "127.0.0.1", "--port", `${port}`];
  const child = spawn(litellm, args, { cwd: place, env, stdio: ["ignore", "ignore", "pipe"] });
  let errors = "";
  child.stderr.on("data", (piece) => (errors = (errors + piece).slice(-4000)));
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error(`the proxy ended: ${errors}`);
    const is = await fetch(`${url}/health/liveliness`).catch(() => null);
    if (is?.ok) return { url, end: () => child.kill() };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  child.kill();
  throw new Error(`the proxy did not start: ${errors}`);
}

try {
  mkdirSync(join(place, "tools"));
  copyFileSync(join(toolsDir, "echo.wasm"), join(place, "tools/echo.wasm"));
  answers();
  await mock.start();
  await story("openai", "openai", `${mock.url}/v1`);
  await story("anthropic", "anthropic", `${mock.url}/v1`);
  await story("gemini", "gemini", `${mock.url}/v1beta`);
  await story("ollama", "ollama", mock.url);
  if (litellm) {
    const between = await proxy(mock.url);
    try {
      await story("openai behind LiteLLM", "openai", `${between.url}/v1`);
    } finally {
      between.end();
    }
  }
} finally {
  await mock.stop();
  rmSync(place, { recursive: true, force: true });
}
