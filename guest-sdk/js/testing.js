// The host's side of a call in a tool's own tests.
//
//   import { run } from "tollgate/testing";
//   import { tool } from "./tool.js";
//
//   const { result, mutations } = run(tool, "shout", { text: "hello" });

/** The tools' reports since `reports.length = 0`. */
export const reports = [];

let cancelled = false;

export default {
  reportActivity: (kind, content) => reports.push({ activity: kind, content }),
  reportActivityDelta: (kind, patch) => reports.push({ activity: kind, patch: JSON.parse(patch) }),
  reportProgress: (status, message, progress) => reports.push({ status, message, progress }),
  streamOutput: (delta) => reports.push({ output: delta }),
  log: (level, message) => reports.push({ level, message }),
  readState: () => null,
  isCancelled: () => cancelled,
};

/** Calls a tool as the host would. */
export function run(component, toolName, args, { state = {}, resume = null, cancel = false } = {}) {
  cancelled = cancel;
  const values = Object.entries(state).map(([key, value]) => ({ key, value: JSON.stringify(value) }));
  component.validateArgs(toolName, JSON.stringify(args));
  const { result, mutations, actions } = component.execute(JSON.stringify(args), {
    callId: "call-1",
    toolName,
    runIdentity: {
      runId: "run-1",
      threadId: "thread-1",
      agentId: "test",
      parentRunId: null,
      parentThreadId: null,
      parentCallId: null,
    },
    agent: { id: "test", description: null, delegates: [] },
    snapshot: { revision: 0, values },
    deadlineMs: 15_000,
    attempt: 1,
    resume: resume && { decidedAtMs: 0, ...resume, value: JSON.stringify(resume.value) },
  });
  return {
    result: { ...result, data: JSON.parse(result.data) },
    mutations: mutations.map(({ key, update }) => ({ key, update: JSON.parse(update) })),
    actions,
  };
}
