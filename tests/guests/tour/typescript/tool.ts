// The tour in TypeScript: see ../README.md.
import { readFile, rm, writeFile } from "node:fs/promises";
import {
  attach,
  attachFile,
  attachLink,
  type Answer,
  array,
  component,
  type Context,
  denied,
  error,
  failed,
  integer,
  type Integer,
  internal,
  invalidArguments,
  notFound,
  runChild,
  setting,
  string,
  success,
  suspend,
  type Ticket,
} from "tollgate";

interface Place {
  /** The name of the place. */
  name: string;
  /** Its code. */
  zip?: string;
  /**
   * The country of the place.
   * @default "CH"
   */
  country?: string;
}

interface Arguments {
  /** The action to take. */
  what:
    | "echo"
    | "context"
    | "report"
    | "reduce"
    | "fill"
    | "read"
    | "trespass"
    | "act"
    | "suspend"
    | "fail"
    | "error"
    | "message"
    | "big"
    | "cancel"
    | "reread"
    | "setting"
    | "child"
    | "attach"
    | "file";
  /** Which way to do it. */
  how?: string;
  /** A text. */
  text?: string;
  /** A number of things. */
  count?: Integer<0, 1000>;
  /** A part of a whole. */
  ratio?: number;
  /** Yes or no. */
  flag?: boolean;
  /** Some words. */
  words?: string[];
  /** A size. */
  size?: 1 | 2 | 4;
  /** A place. */
  place?: Place;
  /** Numbers by name. */
  scores?: Record<string, Integer>;
}

/** The arguments with their defaults. */
type Given = Required<Omit<Arguments, "how" | "place">> & { how: string | undefined; place: Place | undefined };

export const tool = component({
  id: "tour-ts",
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
      name: "tour_ts",
      category: "test",
      timeoutMs: 4000,
      maxRetries: 1,
      idempotent: true,
      validate({ text }: Arguments) {
        if (text === "forbidden") throw invalidArguments("The text may not be forbidden.");
      },
      execute: tour,
    },
  ],
});

/** Exercises what the contract offers. */
function tour(
  { what, how, text = "plain", count = 3, ratio = 0.5, flag = true, words = [], size = 2, place, scores = {} }: Arguments,
  context: Context,
): unknown {
  return SECTIONS[what]({ what, how, text, count, ratio, flag, words, size, place, scores }, context);
}

const SECTIONS: Record<Arguments["what"], (given: Given, context: Context) => unknown> = {
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
    for (const level of ["trace", "debug", "info", "warn", "error"] as const) context.log(level, level);
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

  reread(given: Given, context: Context) {
    SECTIONS.reduce(given, context);
    return SECTIONS.read(given, context);
  },

  setting: ({ text }: Given) => setting(text) ?? null,

  async file({ text }: Given) {
    await writeFile("/files/ts.txt", text);
    const read = await readFile("/files/ts.txt", "utf8");
    await rm("/files/ts.txt");
    return read;
  },

  attach({ text }: Given) {
    attach("image/png", new Uint8Array([0x89, 0x50, 0x4e, 0x47]));
    attachFile("tour:///notes.txt", new TextEncoder().encode(text), "text/plain");
    attachLink("https://example.org/tour", text, "A tour.");
    return "attached";
  },

  child({ how, text }: Given) {
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
    const kind = kinds.get(how ?? "");
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

const MODES = ["replay-tool-call", "use-decision-as-tool-result", "pass-decision-to-tool"] as const;

function question({ how, text, count, words }: Given): Answer | string {
  if (how === "plain") return suspend(`Go on with ${text}?`);
  const resumeMode: Ticket["resumeMode"] = MODES.find((mode) => mode === how);
  if (resumeMode === undefined) return "unknown";
  return suspend({
    action: "choose",
    message: `Which one, ${text}?`,
    parameters: { words, count },
    responseSchema: { type: ["object", "string", "boolean"] },
    resumeMode,
  });
}
