// An agent on the A2A SDK for JavaScript, for Tollgate to delegate to. Its card offers the binding that
// is the argument: JSONRPC or HTTP+JSON. Prints its address.

import { randomUUID } from "node:crypto";
import { AgentCard, Role, TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";
import express from "express";

const text = (value) => ({ content: { $case: "text", value } });
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const messages = new Map();
const cancelled = new Set();

// Answers by the words of the message.
const executor = {
  async execute({ userMessage, taskId, contextId, task, context }, bus) {
    if (context.tenant !== "acme") throw new Error(`the tenant is ${context.tenant}`);
    const said = userMessage.parts.map((part) => part.content?.value ?? "").join("");
    const message = (words) => ({
      messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [text(words)], taskId, contextId,
      extensions: [], referenceTaskIds: [],
    });
    if (said === "message") {
      bus.publish(AgentEvent.message({ ...message("No task was needed."), taskId: "" }));
      return bus.finished();
    }
    const status = (state, words) => ({ state, message: words && message(words), timestamp: new Date().toISOString() });
    const update = (state, words) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, words) }));
    const artifact = (words, append) =>
      bus.publish(AgentEvent.artifactUpdate({
        taskId, contextId, append, lastChunk: false,
        artifact: { artifactId: "answer", name: "", description: "", parts: [text(words)], extensions: [] },
      }));
    bus.publish(AgentEvent.task({
      ...(task ?? { id: taskId, contextId, artifacts: [], history: [userMessage] }),
      status: status(TaskState.TASK_STATE_WORKING),
    }));
    const count = (messages.get(contextId) ?? 0) + 1;
    messages.set(contextId, count);
    if (task) {
      artifact(`${said} it is.`, false);
    } else if (said === "ask") {
      update(TaskState.TASK_STATE_INPUT_REQUIRED, "Which city?");
      return bus.finished();
    } else if (said === "slow") {
      while (!cancelled.has(taskId)) await wait(20);
      update(TaskState.TASK_STATE_CANCELED);
      return bus.finished();
    } else if (said === "fail") {
      update(TaskState.TASK_STATE_FAILED, "The quota is used up.");
      return bus.finished();
    } else {
      for (const [piece, word] of ["Message ", "number ", `${count}.`].entries()) {
        artifact(word, piece > 0);
        await wait(50);
      }
    }
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  },
  async cancelTask(taskId) {
    cancelled.add(taskId);
  },
};

const binding = process.argv[2];
const handler = { JSONRPC: jsonRpcHandler, "HTTP+JSON": restHandler }[binding];
const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  const card = AgentCard.fromJSON({
    name: "javascript",
    description: "Answers by the words of the message.",
    version: "1",
    supportedInterfaces: [{ url: `${base}/agent`, protocolBinding: binding, protocolVersion: "1.0", tenant: "acme" }],
    capabilities: { streaming: true },
    skills: [{ id: "answer", name: "Answer", description: "Answers.", tags: ["answer"] }],
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  const userBuilder = UserBuilder.noAuthentication;
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/agent", handler({ requestHandler, userBuilder }));
  console.log(base);
});
