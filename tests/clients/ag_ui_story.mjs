// The story with AG-UI's own client, which verifies the order and the shape of every event.

import assert from "node:assert/strict";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { BASE, HEADERS, approve, runOf } from "./elsewhere.mjs";

const version = process.argv[2];
// The client says what it drops because its schema does not have it.
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

function agent(threadId) {
  return new HttpAgent({ url: `${BASE}/ag-ui/assistant`, headers: HEADERS, threadId });
}

let messages = 0;
function say(agent, content) {
  messages += 1;
  agent.addMessage({ id: `user-${messages}`, role: "user", content });
}

const thread = (name) => `${name}-${version}`;
const texts = (agent) =>
  agent.messages.filter((message) => message.role === "assistant" && message.content).map((m) => m.content);

// Leaving is the only way to stop. The run ends ten seconds later: left.py looks.
const slow = agent(thread("left"));
say(slow, "slow");
await slow.runAgent({}, { onToolCallEndEvent: () => void slow.abortRun() }).catch(() => {});

const hello = agent(thread("hello"));
say(hello, "hello");
await hello.runAgent();
assert.deepEqual(texts(hello), ["Hello there, my friend."]);

const report = agent(thread("report"));
say(report, "report");
const activities = [];
await report.runAgent({}, { onActivitySnapshotEvent: ({ event }) => void activities.push(event.activityType) });
assert.deepEqual(texts(report), ["One moment.", "It is done."]);
assert.ok(activities.includes("tollgate.call"), activities);
assert.equal(report.messages.filter((message) => message.role === "tool").length, 1);

// A second run of the thread has calls of its own.
say(report, "report");
await report.runAgent();
const calls = (agent) => agent.messages.flatMap((message) => message.toolCalls ?? []);
assert.deepEqual(calls(report).map((call) => JSON.parse(call.function.arguments).parts), [3, 3]);
assert.equal(new Set(calls(report).map((call) => call.id)).size, 2);

// Another agent works, with a tool of its own.
const delegate = agent(thread("delegate"));
say(delegate, "delegate");
const results = [];
await delegate.runAgent({}, { onToolCallResultEvent: ({ event }) => void results.push(event.toolCallId) });
assert.equal(texts(delegate).at(-1), "It is done.");
assert.equal(new Set(results).size, version.startsWith("0") ? 1 : 2, results);
calls(delegate).forEach((call) => JSON.parse(call.function.arguments));

// It asks: its question is one of the run, and the answer reaches it.
const consult = agent(thread("consult"));
say(consult, "consult");
await consult.runAgent();
const yes = Object.fromEntries(consult.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload: true }]));
await consult.runAgent({ resume: buildResumeArray(consult.pendingInterrupts, yes) });
assert.equal(texts(consult).at(-1), "It is done.");
assert.equal(consult.pendingInterrupts.length, 0);

// Two questions in parallel: all are answered together, or nothing is decided.
const ask = agent(thread("ask"));
say(ask, "ask");
await ask.runAgent();
assert.equal(ask.pendingInterrupts.length, 2);
const open = structuredClone(ask.pendingInterrupts);
const answers = Object.fromEntries(
  open.map(({ id, reason }) => [
    id,
    { status: "resolved", payload: reason === "tool_call" ? true : { approved: true } },
  ]),
);
const resume = buildResumeArray(open, answers);
const failed = [];
const watch = { onRunErrorEvent: ({ event }) => void failed.push(event.code), onRunFailed: () => {} };
const half = agent(thread("ask"));
await half.runAgent({ resume: resume.slice(0, 1) }, watch).catch(() => {});
assert.deepEqual(failed, ["wrong_resume"]);
await ask.runAgent({ resume });
assert.equal(texts(ask).at(-1), "It is done.");
assert.equal(ask.pendingInterrupts.length, 0);
assert.equal(ask.messages.filter((message) => message.role === "tool").length, 2);

// Decided elsewhere: the client's own answer comes too late, and the stream has what followed.
const guarded = agent(thread("guarded"));
say(guarded, "guarded");
await guarded.runAgent();
const suspension = async (threadId, interrupt) => {
  const { run_id } = await runOf(threadId);
  assert.ok(interrupt.id.startsWith(`${run_id}/`), interrupt.id);
  return [run_id, interrupt.id.slice(run_id.length + 1)];
};
const [asked] = guarded.pendingInterrupts;
await approve(...(await suspension(thread("guarded"), asked)));
const no = { [asked.id]: { status: "cancelled" } };
await guarded.runAgent({ resume: buildResumeArray(guarded.pendingInterrupts, no) });
assert.equal(texts(guarded).at(-1), "It is done.");

// Two questions in parallel, of which one is decided elsewhere: the client answers the other one.
const split = agent(thread("split"));
say(split, "ask");
await split.runAgent();
const theirs = split.pendingInterrupts.find(({ reason }) => reason === "tool_call");
const mine = split.pendingInterrupts.find(({ reason }) => reason !== "tool_call");
await approve(...(await suspension(thread("split"), theirs)));
const rest = agent(thread("split"));
await rest.runAgent({ resume: [{ interruptId: mine.id, status: "resolved", payload: { approved: true } }] });
assert.equal(texts(rest).at(-1), "It is done.");

// Reconnect in the middle: the same request joins the run that works, also once the first client has left.
const first = agent(thread("join"));
say(first, "steady");
const second = agent(thread("join"));
second.messages = structuredClone(first.messages);
let joining;
await first.runAgent({ runId: `join-${version}` }, {
  onToolCallEndEvent: () => {
    joining ??= second.runAgent({ runId: `join-${version}` });
    first.abortRun();
  },
}).catch(() => {});
await joining;
assert.deepEqual(texts(second), ["One moment.", "It is done."]);
assert.equal((await runOf(thread("join"))).status, "completed");

// The same request again replays the run.
const again = agent(thread("again"));
say(again, "report");
await again.runAgent({ runId: `run-${version}` });
const twice = agent(thread("again"));
say(twice, "report");
await twice.runAgent({ runId: `run-${version}` });
assert.deepEqual(texts(twice), texts(again));

// Failing is an event.
const fail = agent(thread("fail"));
say(fail, "fail");
const codes = [];
await fail.runAgent({}, { onRunErrorEvent: ({ event }) => void codes.push(event.code), onRunFailed: () => {} }).catch(() => {});
assert.deepEqual(codes, ["failed"]);

assert.deepEqual(warnings, []);
console.log(`@ag-ui/client ${version}: the story is done`);
process.exit(0);
