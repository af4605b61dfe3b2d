// The story with AG-UI's own client, which verifies the order and the shape of every event.

import assert from "node:assert/strict";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { BASE, HEADERS, decide } from "./elsewhere.mjs";

const version = process.argv[2];
// Version 1 strips what its schema does not have, and says so.
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
let run;
await guarded.runAgent({}, {
  onRunFinishedEvent: ({ event }) => void (run = event.metadata?.tollgate?.runId ?? run),
  onRunStartedEvent: ({ event }) => void (run = event.metadata?.tollgate?.runId ?? run),
});
if (run) {
  const { id } = guarded.pendingInterrupts[0];
  await decide(run, id, true);
  await guarded.runAgent({ resume: buildResumeArray(guarded.pendingInterrupts, { [id]: { status: "cancelled" } }) });
  assert.equal(texts(guarded).at(-1), "It is done.");
}

// Two questions in parallel, of which one is decided elsewhere: the client answers the other one.
const split = agent(thread("split"));
say(split, "ask");
let splitRun;
await split.runAgent({}, {
  onRunStartedEvent: ({ event }) => void (splitRun = event.metadata?.tollgate?.runId ?? splitRun),
});
if (splitRun) {
  const theirs = split.pendingInterrupts.find(({ reason }) => reason === "tool_call");
  const mine = split.pendingInterrupts.find(({ reason }) => reason !== "tool_call");
  await decide(splitRun, theirs.id, true);
  const rest = agent(thread("split"));
  await rest.runAgent({ resume: [{ interruptId: mine.id, status: "resolved", payload: { approved: true } }] });
  assert.equal(texts(rest).at(-1), "It is done.");
}

// Reconnect in the middle: the same request joins the run that works.
const joined = [];
const first = agent(thread("join"));
say(first, "slow");
const second = agent(thread("join"));
second.messages = structuredClone(first.messages);
let joining;
await first.runAgent({ runId: `join-${version}` }, {
  onToolCallEndEvent: () => {
    joining ??= second
      .runAgent({ runId: `join-${version}` }, { onToolCallEndEvent: () => void (joined.push("call"), second.abortRun()) })
      .catch(() => {});
    joining.then(() => first.abortRun());
  },
}).catch(() => {});
await joining;
assert.deepEqual(joined, ["call"]);

// The same request again replays the run.
const again = agent(thread("again"));
say(again, "report");
await again.runAgent({ runId: `run-${version}` });
const twice = agent(thread("again"));
say(twice, "report");
await twice.runAgent({ runId: `run-${version}` });
assert.deepEqual(texts(twice), texts(again));

// Leaving is the only way to stop, and failing is an event.
const slow = agent(thread("slow"));
say(slow, "slow");
await slow.runAgent({}, { onToolCallEndEvent: () => void slow.abortRun() }).catch(() => {});
const fail = agent(thread("fail"));
say(fail, "fail");
const codes = [];
await fail.runAgent({}, { onRunErrorEvent: ({ event }) => void codes.push(event.code), onRunFailed: () => {} }).catch(() => {});
assert.deepEqual(codes, ["failed"]);

assert.deepEqual(warnings.filter((warning) => warning.includes("strip")), []);
console.log(`@ag-ui/client ${version}: the story is done`);
process.exit(0);
