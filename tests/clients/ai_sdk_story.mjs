// The story with the AI SDK: the transport and the reader of messages that `useChat` uses.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, readUIMessageStream } from "ai";
import { BASE, HEADERS, approve, cancelled } from "./elsewhere.mjs";

const version = process.argv[2];
const query = version.startsWith("6") ? "?v=6" : "";
const transport = new DefaultChatTransport({
  api: `${BASE}/ai-sdk/assistant${query}`,
  headers: HEADERS,
  prepareReconnectToStreamRequest: ({ id }) => ({
    api: `${BASE}/ai-sdk/assistant/${id}/stream${query}`,
    headers: HEADERS,
  }),
});
const user = (id, text) => ({ id, role: "user", parts: [{ type: "text", text }] });
const text = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text);
const tools = (message) => message.parts.filter((part) => part.type === "dynamic-tool");

async function send(chatId, messages) {
  return transport.sendMessages({ chatId, messages, trigger: "submit-message", abortSignal: undefined });
}

// Reads a stream to its end; `seen` receives each state of the message.
async function read(stream, message, seen = () => {}) {
  let last;
  for await (const state of readUIMessageStream({ stream, message, terminateOnError: true })) {
    last = state;
    await seen(state);
  }
  return last;
}

const hello = await read(await send("hello", [user("1", "hello")]));
assert.deepEqual(text(hello), ["Hello there, my friend."]);
assert.equal(hello.metadata.usage.totalTokens, 15);

// Progress is transient: it is in the stream, and not in the message.
const progress = [];
const watched = new TransformStream({
  transform(chunk, controller) {
    if (chunk.type === "data-progress") progress.push(chunk.data);
    controller.enqueue(chunk);
  },
});
const report = await read((await send("report", [user("1", "report")])).pipeThrough(watched));
assert.ok(progress.length > 0);
assert.ok(progress.every(({ toolCallId }) => toolCallId === tools(report)[0].toolCallId), progress);
assert.deepEqual(text(report), ["One moment.", "It is done."]);
assert.equal(tools(report)[0].state, "output-available");

// Two questions in parallel: both are decided in one request, and the same message continues.
const question = user("1", "ask");
const asked = await read(await send("ask", [question]));
assert.deepEqual(tools(asked).map((part) => part.state), ["approval-requested", "approval-requested"]);
for (const part of tools(asked)) {
  part.state = "approval-responded";
  part.approval = { ...part.approval, approved: true };
}
assert.ok(lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [question, asked] }));
const done = await read(await send("ask", [question, asked]), asked);
assert.equal(done.id, asked.id);
assert.deepEqual(tools(done).map((part) => part.state), ["output-available", "output-available"]);
assert.equal(text(done).at(-1), "It is done.");

// A refused call is denied.
const guarded = user("1", "guarded");
const refused = await read(await send("refused", [guarded]));
Object.assign(tools(refused)[0], {
  state: "approval-responded",
  approval: { ...tools(refused)[0].approval, approved: false, reason: "not today" },
});
const denied = await read(await send("refused", [guarded, refused]), refused);
assert.equal(tools(denied)[0].state, "output-denied");

// Decided elsewhere: the client's own answer comes too late, and the message continues.
const elsewhere = await read(await send("elsewhere", [guarded]));
await approve(elsewhere.metadata.runId, tools(elsewhere)[0].approval.id);
Object.assign(tools(elsewhere)[0], {
  state: "approval-responded",
  approval: { ...tools(elsewhere)[0].approval, approved: false },
});
const late = await read(await send("elsewhere", [guarded, elsewhere]), elsewhere);
assert.equal(tools(late)[0].state, "output-available");
assert.equal(text(late).at(-1), "It is done.");

// Two questions in parallel, of which one is decided elsewhere: the client answers the other one.
const split = await read(await send("split", [question]));
const [one, other] = tools(split);
const theirs = one.toolName === "echo" ? one : other;
const mine = theirs === one ? other : one;
await approve(split.metadata.runId, theirs.approval.id);
Object.assign(mine, { state: "approval-responded", approval: { ...mine.approval, approved: true } });
const rest = await read(await send("split", [question, split]), split);
assert.equal(text(rest).at(-1), "It is done.");

// Reconnect in the middle: the message is replayed from its start. Then stop it.
const slow = await send("slow", [user("1", "slow")]);
const begun = await slow.getReader().read();
assert.equal(begun.value.type, "start");
let stopped = false;
const resumed = await read(await transport.reconnectToStream({ chatId: "slow" }), undefined, async (state) => {
  if (stopped || tools(state).length === 0) return;
  stopped = true;
  const response = await fetch(`${BASE}/ai-sdk/assistant/slow/stop`, { method: "POST", headers: HEADERS });
  assert.equal(response.status, 204);
});
assert.equal(resumed.id, begun.value.messageId);
assert.equal(await transport.reconnectToStream({ chatId: "slow" }), null);
await cancelled("slow");

await assert.rejects(read(await send("fail", [user("1", "fail")])), /quota/);
console.log(`ai ${version}: the story is done`);
