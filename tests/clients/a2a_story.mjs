// The story with the A2A SDK for JavaScript, by both bindings.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { BASE, HEADERS, approve } from "./elsewhere.mjs";

const { TASK_STATE_AUTH_REQUIRED: AUTH, TASK_STATE_INPUT_REQUIRED: INPUT, TASK_STATE_COMPLETED: DONE } = TaskState;
const fetchImpl = (url, init = {}) => fetch(url, { ...init, headers: { ...Object.fromEntries(new Headers(init.headers)), ...HEADERS } });

function say(content, taskId = "") {
  const part = typeof content === "string" ? { $case: "text", value: content } : { $case: "data", value: content };
  const message = {
    messageId: randomUUID(), contextId: "", taskId, role: Role.ROLE_USER, parts: [{ content: part }],
    extensions: [], referenceTaskIds: [],
  };
  return { tenant: "", message };
}

// Reads a stream to its end, or until `seen` returns true.
async function told(stream, seen = () => false) {
  const story = { task: undefined, text: "", states: [], questions: [], progress: [] };
  const status = ({ state, message }) => {
    story.states.push(state);
    for (const { content } of message?.parts ?? []) {
      if (content.$case === "data") story.questions = content.value.questions;
      if (content.$case === "text") story.progress.push(content.value);
    }
  };
  const words = (artifact) => artifact.parts.map(({ content }) => content.value).join("");
  for await (const { payload } of stream) {
    if (payload.$case === "task") {
      story.task = payload.value;
      story.text = payload.value.artifacts.map(words).join("");
      status(payload.value.status);
    } else if (payload.$case === "artifactUpdate") {
      story.text = (payload.value.append ? story.text : "") + words(payload.value.artifact);
    } else if (payload.$case === "statusUpdate") {
      status(payload.value.status);
    }
    if (await seen(story)) break;
  }
  return story;
}

const send = (client, content, task) => client.sendMessageStream(say(content, task));

async function play(name) {
  const transports = [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })];
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports, preferredTransports: [name], cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  const client = await new ClientFactory(options).createFromUrl(`${BASE}/a2a/assistant/`, ".well-known/agent-card.json");

  // Text, and a sandboxed tool with progress.
  const hello = await told(send(client, "hello"));
  assert.deepEqual([hello.text, hello.states.at(-1)], ["Hello there, my friend.", DONE]);
  const report = await told(send(client, "report"));
  assert.equal(report.text, "One moment.\n\nIt is done.");
  assert.ok(report.progress.some((words) => words.includes("slow_report")), report.progress);
  const task = await client.getTask({ tenant: "", id: report.task.id });
  assert.equal(task.artifacts[0].parts[0].content.value, report.text);

  // Two questions in parallel: the tool's is answered here, the gate's elsewhere, and the stream continues.
  let isDecided = false;
  const ask = await told(send(client, "ask"), async ({ task, states, questions }) => {
    if (isDecided || states.at(-1) !== AUTH || questions.length < 2) return false;
    isDecided = true;
    const mine = questions.find(({ gate }) => gate === null);
    const theirs = questions.find(({ gate }) => gate !== null);
    const answer = { suspension_id: mine.suspension_id, answer: { approved: true } };
    await told(send(client, answer, task.id), ({ states }) => states.at(-1) === AUTH);
    await approve(task.id, theirs.suspension_id);
    return false;
  });
  assert.deepEqual([ask.states.at(-1), ask.text], [DONE, "One moment.\n\nIt is done."]);

  // A tool's question ends the stream; its answer continues the task, once.
  const asked = await told(send(client, "approve"));
  assert.equal(asked.states.at(-1), INPUT);
  const answer = { suspension_id: asked.questions[0].suspension_id, answer: { approved: true } };
  const done = await told(send(client, answer, asked.task.id));
  assert.deepEqual([done.task.id, done.states.at(-1)], [asked.task.id, DONE]);
  await assert.rejects(told(send(client, answer, asked.task.id)), /ended/);

  // Reconnect in the middle, cancel, and fail.
  const slow = await told(send(client, "slow"), ({ task }) => task !== undefined);
  const following = told(client.resubscribeTask({ tenant: "", id: slow.task.id }));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const cancelled = await client.cancelTask({ tenant: "", id: slow.task.id });
  assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
  assert.equal((await following).states.at(-1), TaskState.TASK_STATE_CANCELED);
  assert.equal((await told(send(client, "fail"))).states.at(-1), TaskState.TASK_STATE_FAILED);
  await assert.rejects(client.getTask({ tenant: "", id: "guessed" }));
  const listed = await client.listTasks({ tenant: "", pageSize: 2, pageToken: "", contextId: "", status: 0 });
  assert.equal(listed.tasks.length, 2);
  assert.ok(listed.nextPageToken);
}

for (const name of ["JSONRPC", "HTTP+JSON"]) await play(name);
console.log("@a2a-js/sdk: the story is done");
process.exit(0);
