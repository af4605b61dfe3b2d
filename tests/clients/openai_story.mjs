// The story with OpenAI's library for Node: chat completions and responses.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { VERSION } from "openai/version";
import { BASE, KEY, approve } from "./elsewhere.mjs";

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, timeout: 60_000 });
const chat = (prompt, more = {}, options = {}) =>
  client.chat.completions.create({ model: "assistant", messages: [{ role: "user", content: prompt }], ...more }, options);

// Streams a chat; decides its questions elsewhere.
async function streamed(prompt, options = {}) {
  const read = { text: "", reasoning: "", finish: null };
  for await (const chunk of await chat(prompt, { stream: true }, options)) {
    for (const { delta, finish_reason } of chunk.choices) {
      assert.equal(delta.tool_calls, undefined);
      read.text += delta.content ?? "";
      read.reasoning += delta.reasoning_content ?? "";
      read.finish = finish_reason ?? read.finish;
    }
    for (const asked of chunk.tollgate?.waiting ?? []) {
      await approve(asked.run_id, asked.suspension_id);
    }
  }
  return read;
}

// A chat is cancelled by leaving it, ten seconds later: left.py looks.
for await (const _ of await chat("slow", { stream: true, metadata: { thread_id: `left-${VERSION}` } })) break;

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["assistant", "other"]);

assert.equal((await chat("hello")).choices[0].message.content, "Hello there, my friend.");
const report = await streamed("report");
assert.equal(report.text, "One moment.\n\nIt is done.");
assert.match(report.reasoning, /slow_report runs[^]*slow_report reports: /);
assert.match((await streamed("ask")).text, /console\/waiting[^]*It is done\.$/);

// Reconnect in the middle: the same request with the same key joins the run.
const keyed = { headers: { "Idempotency-Key": randomUUID() } };
for await (const _ of await chat("steady", { stream: true }, keyed)) break;
assert.equal((await streamed("steady", keyed)).text, "One moment.\n\nIt is done.");

await assert.rejects(chat("fail"), (error) => error.status === 502 && error.code === "failed");

const response = await client.responses.create({ model: "assistant", input: "report" });
assert.deepEqual(response.output.map((item) => item.type), ["message", "mcp_call", "message"]);
const types = [];
for await (const event of await client.responses.create({ model: "assistant", input: "report", stream: true })) {
  types.push(event.type);
}
assert.equal(types[0], "response.created");
assert.equal(types.at(-1), "response.completed");
for (const type of ["response.output_text.delta", "response.mcp_call.in_progress", "response.mcp_call.completed"]) {
  assert.ok(types.includes(type), type);
}

const asked = await client.responses.create({ model: "assistant", input: "ask" });
const requests = asked.output.filter((item) => item.type === "mcp_approval_request");
assert.equal(requests.length, 2);
const answer = (item) => ({ type: "mcp_approval_response", approval_request_id: item.id, approve: true });
const done = await client.responses.create({
  model: "assistant",
  previous_response_id: asked.id,
  input: requests.map(answer),
});
assert.equal(done.output_text, "It is done.");

// Two questions in parallel, of which one is decided elsewhere: the client answers the other one.
const split = await client.responses.create({ model: "assistant", input: "ask" });
const [mine, theirs] = split.output.filter((item) => item.type === "mcp_approval_request");
await approve(split.tollgate.run_id, theirs.id);
const rest = await client.responses.create({
  model: "assistant", previous_response_id: split.id, input: [answer(mine)],
});
assert.equal(rest.output_text, "It is done.");

// Decided elsewhere: the client's own answer comes too late, and it gets the response that followed.
const guarded = await client.responses.create({ model: "assistant", input: "guarded" });
const request = guarded.output.find((item) => item.type === "mcp_approval_request");
await approve(guarded.tollgate.run_id, request.id);
const late = await client.responses.create({
  model: "assistant", previous_response_id: guarded.id, input: [{ ...answer(request), approve: false }],
});
assert.equal(late.output_text, "It is done.");

// Reconnect in the middle: a response in the background is retrieved until it has ended.
let current = await client.responses.create({ model: "assistant", input: "report", background: true });
while (current.status === "in_progress") {
  await new Promise((resolve) => setTimeout(resolve, 50));
  current = await client.responses.retrieve(current.id);
}
assert.deepEqual([current.status, current.output_text], ["completed", "One moment.It is done."]);

const slow = await client.responses.create({ model: "assistant", input: "slow", background: true });
assert.equal((await client.responses.cancel(slow.id)).status, "cancelled");
assert.equal((await client.responses.create({ model: "assistant", input: "fail" })).status, "failed");
console.log(`openai ${VERSION} for Node: the story is done`);
