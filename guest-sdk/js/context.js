// The call in progress, as its tool sees it.
import call from "#host";
import { json } from "./json.js";
import { reduced } from "./overlay.js";

export class Context {
  #componentId;
  #snapshot;
  #reducers;

  constructor(componentId, facts, state) {
    this.#componentId = componentId;
    this.#reducers = new Map(Object.entries(state).map(([name, { reducer }]) => [this.#key(name), reducer]));
    this.#snapshot = new Map(facts.snapshot.values.map(({ key, value }) => [key, value]));
    this.callId = facts.callId;
    this.toolName = facts.toolName;
    this.run = facts.runIdentity;
    this.agent = facts.agent;
    // 64-bit integers arrive as BigInt.
    this.revision = Number(facts.snapshot.revision);
    this.deadlineMs = facts.deadlineMs;
    this.attempt = facts.attempt;
    this.resume = facts.resume && {
      ...facts.resume,
      value: JSON.parse(facts.resume.value),
      decidedAtMs: Number(facts.resume.decidedAtMs),
    };
    this.mutations = [];
    this.actions = [];
  }

  read(name) {
    const key = this.#key(name);
    const stored = this.#snapshot.get(key) ?? call.readState(key);
    const value = stored === null ? undefined : JSON.parse(stored);
    return this.mutations
      .filter((mutation) => mutation.key === key)
      .reduce((before, { update }) => reduced(this.#reducers.get(key) ?? "replace", before, JSON.parse(update)), value);
  }

  update(name, update) {
    this.mutations.push({ key: this.#key(name), update: json(update, `the update of "${name}"`) });
  }

  addContext(note) {
    this.actions.push({ tag: "add-context", val: note });
  }

  transferTo(agentId) {
    this.actions.push({ tag: "transfer-to-agent", val: agentId });
  }

  escalate() {
    this.actions.push({ tag: "escalate" });
  }

  progress(fraction, message = null, status = "running") {
    call.reportProgress(status, message, fraction);
  }

  activity(kind, content) {
    call.reportActivity(kind, content);
  }

  activityDelta(kind, patch) {
    call.reportActivityDelta(kind, json(patch, "the patch"));
  }

  streamOutput(delta) {
    call.streamOutput(delta);
  }

  log(level, message) {
    call.log(level, message);
  }

  isCancelled() {
    return call.isCancelled();
  }

  #key(name) {
    return name.includes(".") ? name : `${this.#componentId}.${name}`;
  }
}
