// The host's side of a call in a tool's own tests. `fetch`, timers and so on are those of
// the program that runs the tests.
//
//   import { run } from "tollgate/testing";
//   import { tool } from "./tool.js";
//
//   const { result, mutations } = run(tool, "shout", { text: "hello" });

/** The tools' reports since `reports.length = 0`. */
export const reports = [];

/** The child runs that tools asked for since `children.length = 0`. */
export const children = [];

/** The images, files and links that tools attached since `attachments.length = 0`. */
export const attachments = [];

let given = {};

export default {
  reportActivity: (kind, content) => reports.push({ activity: kind, content }),
  reportActivityDelta: (kind, patch) => reports.push({ activity: kind, patch: JSON.parse(patch) }),
  reportProgress: (status, message, progress) => reports.push({ status, message, progress }),
  streamOutput: (delta) => reports.push({ output: delta }),
  log: (level, message) => reports.push({ level, message }),
  readState: () => null,
  isCancelled: () => given.cancel ?? false,
  get: (name) => given.settings?.[name] ?? null,
  attach(mimeType, data, uri) {
    attachments.push({ mimeType, data, uri });
  },
  link(uri, name, description) {
    attachments.push({ uri, name, description });
  },
  runChild(request) {
    children.push(request);
    const outcome = given.children?.shift();
    if (outcome === undefined) throw { payload: { tag: "agent-not-found", val: request.agentId } };
    const { status = "completed", reason, output = null, ...rest } = outcome;
    const facts = { runId: "child-1", response: null, streamed: rest.response ?? "", steps: 1, state: null, threadState: null };
    const written = output === null ? null : JSON.stringify(output);
    return { ...facts, ...rest, output: written, status: { tag: status, val: reason } };
  },
};

/** The counterpart of web/attempt.js: the tests' own program waits. */
export function attempt(work, finish, fail) {
  try {
    const returned = work();
    return typeof returned?.then === "function" ? returned.then(finish).catch(fail) : finish(returned);
  } catch (error) {
    return fail(error);
  }
}

/** Calls a tool as the host would. Returns a promise if the tool or its check does. */
export function run(component, toolName, args, { state = {}, resume = null, ...more } = {}) {
  given = more;
  // The component's other keys have their initial values.
  const own = component.describe().state.filter(({ key, read, defines }) => read && defines && !(key in state));
  const values = [
    ...Object.entries(state).map(([key, value]) => ({ key, value: JSON.stringify(value) })),
    ...own.map(({ key, defines }) => ({ key, value: defines.initial })),
  ];
  const call = {
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
  };
  const execute = () => component.execute(JSON.stringify(args), call);
  const checked = component.validateArgs(toolName, JSON.stringify(args));
  const output = checked === undefined ? execute() : checked.then(execute);
  return typeof output.then === "function" ? output.then(parsed) : parsed(output);
}

const parsed = ({ result, mutations, actions }) => ({
  result: { ...result, data: JSON.parse(result.data) },
  mutations: mutations.map(({ key, update }) => ({ key, update: JSON.parse(update) })),
  actions,
});
