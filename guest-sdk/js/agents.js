// Running other agents within a call.
import agents from "#agents";
import { denied, failed, notFound } from "./answer.js";
import { json } from "./json.js";

export function runChild({ agent, messages = [], seed = {}, exports = [], streaming = "silent" }) {
  const list = typeof messages === "string" ? [{ role: "user", text: messages }] : messages;
  const request = {
    agentId: agent,
    messages: list,
    seed: Object.entries(seed).map(([key, value]) => ({ key, value: json(value, `the seed of "${key}"`) })),
    exports,
    text: streaming,
  };
  try {
    return new ChildOutcome(agents.runChild(request));
  } catch (error) {
    throw error?.payload?.tag === undefined ? error : refusalOf(error.payload);
  }
}

export class ChildOutcome {
  constructor({ runId, status, response, streamed, output, steps, state, threadState }) {
    this.runId = runId;
    this.status = status.tag;
    this.reason = status.val ?? null;
    this.response = response;
    this.streamed = streamed;
    this.output = output === null ? null : JSON.parse(output);
    this.steps = steps;
    this.state = entriesOf(state);
    this.threadState = entriesOf(threadState);
  }

  completed() {
    if (this.status === "completed") return this;
    const how = HOW[this.status];
    throw failed(`The child agent ${how}${this.reason === null ? "" : `: ${this.reason}`}.`);
  }
}

const HOW = {
  "waiting-input": "waits for input",
  "waiting-auth": "waits for a sign-in",
  suspended: "waits for a person",
  failed: "failed",
  cancelled: "was cancelled",
  timeout: "ran out of time",
};

const entriesOf = (entries) =>
  entries && Object.fromEntries(entries.map(({ key, value }) => [key, JSON.parse(value)]));

function refusalOf({ tag, val }) {
  switch (tag) {
    case "agent-not-found":
      return notFound(`There is no agent \`${val}\`.`);
    case "not-granted":
      return denied(`\`${val}\` is not granted to this component.`);
    case "bad-seed":
      return failed(`The child agent refuses its first state: ${val}.`);
    case "unsupported":
      return failed(`The child agent's backend cannot do what is asked: ${val.join(", ")}.`);
    case "too-deep":
      return failed(`A child agent at depth ${val} is too deep: at most 4 stand below one another.`);
    default:
      return failed(val);
  }
}
