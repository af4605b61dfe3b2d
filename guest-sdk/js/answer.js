// The ways to end a call: an answer, which commits the tool's changes, or a refusal,
// which commits nothing.
import { json } from "./json.js";

export class Answer {
  constructor(status, data, message) {
    this.status = status;
    this.data = data;
    this.message = message;
  }

  static of(returned) {
    return returned instanceof Answer ? returned : success(returned);
  }

  toHost() {
    return {
      status: this.status,
      data: json(this.data ?? null, "the answer"),
      message: this.message ?? null,
    };
  }
}

export function success(data, message) {
  return new Answer({ tag: "success" }, data, message);
}

export function error(message, code) {
  const data = code === undefined ? null : { error: { code, message } };
  return new Answer({ tag: "error" }, data, message);
}

export function suspend(ticket) {
  if (typeof ticket === "string") return new Answer({ tag: "pending", val: null }, null, ticket);
  const { action = "confirm", message, parameters = {}, responseSchema, resumeMode = "replay-tool-call" } = ticket;
  const asked = {
    action,
    message,
    parameters: json(parameters, "a ticket's parameters"),
    responseSchema: responseSchema === undefined ? null : json(responseSchema, "a ticket's schema"),
    resumeMode,
  };
  return new Answer({ tag: "pending", val: asked }, null, message);
}

export class Refusal extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

export const invalidArguments = (message) => new Refusal("invalid-arguments", message);
export const failed = (message) => new Refusal("execution-failed", message);
export const denied = (message) => new Refusal("denied", message);
export const notFound = (message) => new Refusal("not-found", message);
export const internal = (message) => new Refusal("internal", message);
