// The tour in JavaScript: see ../README.md.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import {
  attach,
  attachFile,
  attachLink,
  array,
  component,
  denied,
  error,
  failed,
  integer,
  internal,
  invalidArguments,
  notFound,
  runChild,
  setting,
  string,
  success,
  suspend,
} from "tollgate";

/** @import { Context, Integer } from "tollgate" */

/**
 * @typedef {object} Place
 * @property {string} name The name of the place.
 * @property {string} [zip] Its code.
 * @property {string} [country="CH"] The country of the place.
 */

/**
 * @typedef {"echo" | "context" | "report" | "reduce" | "fill" | "read" | "trespass" | "act"
 *   | "suspend" | "fail" | "error" | "message" | "big" | "cancel"
 *   | "reread" | "setting" | "child" | "attach" | "file"} Section
 */

export const tool = component({
  id: "tour-js",
  version: "0.1.0",
  state: {
    replaced: { initial: "nothing", schema: string(), scope: "thread", persistent: true },
    merged: {
      initial: {},
      schema: { type: "object", additionalProperties: integer() },
      reducer: "merge-patch",
      scope: "thread",
      persistent: true,
    },
    appended: { initial: [], schema: array(string()), reducer: "append", scope: "thread", persistent: true },
    added: { initial: 0, schema: integer(), reducer: "add", scope: "thread", persistent: true },
    united: { initial: [], schema: array(string()), reducer: "union", scope: "thread", persistent: true },
    greatest: { initial: 0, schema: integer(), reducer: "max", scope: "thread", persistent: true },
    passing: { initial: "nobody", schema: string() },
    large: { initial: "", schema: string(), scope: "thread", persistent: true },
    "shelf.label": {},
  },
  tools: [
    {
      name: "tour_js",
      category: "test",
      timeoutMs: 4000,
      maxRetries: 1,
      idempotent: true,
      validate({ text }) {
        if (text === "forbidden") throw invalidArguments("The text may not be forbidden.");
      },
      execute: tour,
    },
  ],
});

/**
 * Exercises what the contract offers.
 *
 * @param {object} args
 * @param {Section} args.what The action to take.
 * @param {string} [args.how] Which way to do it.
 * @param {string} [args.text] A text.
 * @param {Integer<0, 1000>} [args.count] A number of things.
 * @param {number} [args.ratio] A part of a whole.
 * @param {boolean} [args.flag] Yes or no.
 * @param {string[]} [args.words] Some words.
 * @param {1 | 2 | 4} [args.size] A size.
 * @param {Place} [args.place] A place.
 * @param {Record<string, Integer>} [args.scores] Numbers by name.
 * @param {Context} context
 */
function tour(
  { what, how, text = "plain", count = 3, ratio = 0.5, flag = true, words = [], size = 2, place, scores = {} },
  context,
) {
  return SECTIONS[what]({ what, how, text, count, ratio, flag, words, size, place, scores }, context);
}

const SECTIONS = {
  echo: ({ what, how = null, text, count, ratio, flag, words, size, place, scores }) => {
    const shown = place && { name: place.name, zip: place.zip ?? null, country: place.country };
    return { what, how, text, count, ratio, flag, words, size, place: shown ?? null, scores };
  },

  context: (_, { toolName, revision, deadlineMs, agent, run }) => ({
    tool: toolName,
    revision,
    timely: deadlineMs >= 1 && deadlineMs <= 4000,
    agent: { id: agent.id, description: agent.description, delegates: agent.delegates },
    parent: { run: run.parentRunId, thread: run.parentThreadId, call: run.parentCallId },
  }),

  report(_, context) {
    context.activity("tour", "first stop");
    context.activityDelta("tour", [{ op: "add", path: "/stops", value: 1 }]);
    context.progress(null, null, "pending");
    context.progress(0.25, "under way");
    context.progress(0.5);
    context.progress(null, "broken", "failed");
    context.progress(0.75, "stopped", "cancelled");
    context.progress(1, "there", "done");
    context.streamOutput("one ");
    context.streamOutput("two\n");
    for (const level of ["trace", "debug", "info", "warn", "error"]) context.log(level, level);
    return "reported";
  },

  reduce({ text, count, words }, context) {
    context.update("replaced", text);
    context.update("merged", { [text]: count, gone: null });
    context.update("appended", text);
    context.update("added", count);
    context.update("united", words);
    context.update("greatest", count);
    context.update("passing", text);
    return "reduced";
  },

  fill({ count }, context) {
    context.update("large", "x".repeat(1024 * count));
    return "filled";
  },

  read: (_, context) => ({
    replaced: context.read("replaced"),
    merged: context.read("merged"),
    appended: context.read("appended"),
    added: context.read("added"),
    united: context.read("united"),
    greatest: context.read("greatest"),
    passing: context.read("passing"),
    large: context.read("large").length,
    label: context.read("shelf.label") ?? null,
  }),

  reread(given, context) {
    SECTIONS.reduce(given, context);
    return SECTIONS.read(given, context);
  },

  setting: ({ text }) => setting(text) ?? null,

  file({ text }) {
    writeFileSync("/files/js.txt", text);
    const read = readFileSync("/files/js.txt", "utf8");
    rmSync("/files/js.txt");
    return read;
  },

  attach({ text }) {
    attach("image/png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
    attachFile("tour:///notes.txt", new TextEncoder().encode(text), "text/plain");
    attachLink("https://example.org/tour", text, "A tour.");
    return "attached";
  },

  child({ how, text }) {
    const { response, streamed, steps } = runChild({ agent: text, messages: how ?? "" }).completed();
    return { response, streamed, steps };
  },

  trespass({ text }, context) {
    context.update("shelf.label", text);
    return "trespassed";
  },

  act({ how, text }, context) {
    if (how === "add-context") context.addContext(text);
    else if (how === "transfer") context.transferTo(text);
    else if (how === "escalate") context.escalate();
    else return "unknown";
    return "acted";
  },

  suspend: (given, { resume }) => {
    if (resume === null) return question(given);
    const { action, message, value, reason, decisionId, suspensionId, decidedAtMs } = resume;
    return {
      text: given.text,
      action,
      message,
      value,
      reason,
      decision: decisionId,
      suspension: suspensionId !== "",
      decided: decidedAtMs > 0,
    };
  },

  fail({ how, text }) {
    const kinds = new Map([
      ["invalid-arguments", invalidArguments],
      ["execution-failed", failed],
      ["denied", denied],
      ["not-found", notFound],
      ["internal", internal],
    ]);
    const kind = kinds.get(how);
    if (kind === undefined) return "unknown";
    throw kind(text);
  },

  error({ how, text }) {
    if (how === "coded") return error(text, "full");
    return how === "plain" ? error(text) : "unknown";
  },

  message: ({ count, text }) => success({ count }, text),

  big: ({ count }) => "x".repeat(1024 * count),

  cancel(_, context) {
    context.progress(0, "waiting");
    while (!context.isCancelled());
    context.log("info", "saw the cancellation");
    return error("The run was cancelled.", "cancelled");
  },
};

const MODES = ["replay-tool-call", "use-decision-as-tool-result", "pass-decision-to-tool"];

function question({ how, text, count, words }) {
  if (how === "plain") return suspend(`Go on with ${text}?`);
  if (!MODES.includes(how)) return "unknown";
  return suspend({
    action: "choose",
    message: `Which one, ${text}?`,
    parameters: { words, count },
    responseSchema: { type: ["object", "string", "boolean"] },
    resumeMode: how,
  });
}
