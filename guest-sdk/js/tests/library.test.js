// The library from the perspectives of a tool's author and the host: node --test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as library from "../index.js";
import * as testing from "../testing.js";

const { component, object, optional, string, integer, array } = library;
const { run, reports } = testing;

/** A component with this tool only. */
const only = (tool, more) => component({ id: "one", ...more, tools: [{ name: "one", description: "One.", ...tool }] });
const call = (execute, args = {}, more = {}) => run(only({ execute, ...more }), "one", args);
const described = (tool, more) => only({ execute: () => 1, ...tool }, more).describe();

/** The tool-error that ends a call. */
function refusal(work) {
  try {
    work();
  } catch (refused) {
    return refused;
  }
  throw new Error("nothing was refused");
}

test("what the types declare is what the modules export", () => {
  for (const [module, types] of [[library, "index"], [testing, "testing"]]) {
    const text = readFileSync(new URL(`../${types}.d.ts`, import.meta.url), "utf8");
    const declared = [...text.matchAll(/^export (?:function|class|const) (\w+)/gm)].map(([, name]) => name);
    const exported = Object.keys(module).filter((name) => name !== "default");
    assert.deepEqual(exported.sort(), [...new Set(declared)].sort());
  }
});

test("defaults are filled wherever they are", () => {
  const inner = object({ deep: optional(integer(), 3), wide: optional(array(string()), []) });
  const parameters = object({
    text: optional(string(), "plain"),
    inner,
    rows: array(inner),
    absent: optional(object({ deep: optional(integer(), 3) })),
    whole: optional(inner, { wide: ["a"] }),
    constructor: optional(integer(), 1),
  });
  const { data } = call((args) => args, { inner: { deep: 4 }, rows: [{}, { wide: ["x"] }] }, { parameters }).result;
  assert.deepEqual(data, {
    text: "plain",
    inner: { deep: 4, wide: [] },
    rows: [{ deep: 3, wide: [] }, { deep: 3, wide: ["x"] }],
    whole: { deep: 3, wide: ["a"] },
    constructor: 1,
  });
});

test("defaults are filled through references, and by what further members are", () => {
  const tree = { type: "object", properties: { size: { default: 1 }, left: { $ref: "#/$defs/tree" } } };
  const parameters = {
    type: "object",
    properties: { root: { $ref: "#/$defs/tree" }, again: { $ref: "#" }, pair: { prefixItems: [tree], items: false } },
    additionalProperties: { properties: { more: { default: true } } },
    $defs: { tree },
  };
  const args = { root: { left: {} }, again: { x: {} }, pair: [{}, {}], y: {} };
  assert.deepEqual(call((given) => given, args, { parameters }).result.data, {
    root: { left: { size: 1 }, size: 1 },
    again: { x: { more: true } },
    pair: [{ size: 1 }, {}],
    y: { more: true },
  });
});

test("a call that changes a default changes its own", () => {
  const parameters = object({ list: optional(array(integer()), []) });
  const served = only({ parameters, execute: ({ list }) => list.push(1) });
  assert.equal(run(served, "one", {}).result.data, 1);
  assert.equal(run(served, "one", {}).result.data, 1);
});

test("a promise is no answer", () => {
  for (const tool of [{ execute: async () => 1 }, { execute: () => 1, validate: async () => {} }]) {
    const { tag, val } = refusal(() => run(only(tool), "one", {}));
    assert.equal(tag, "internal");
    assert.match(val, /"one" returned a promise.*write it without async/);
  }
});

test("what cannot be JSON is an error that says of what", () => {
  const cyclic = {};
  cyclic.self = cyclic;
  for (const [execute, words] of [
    [() => ({ big: 1n }), /the answer cannot be written as JSON: .*BigInt/],
    [() => cyclic, /the answer cannot be written as JSON: /],
    [() => () => 1, /the answer is a function/],
    [() => library.success(Symbol("s")), /the answer is a symbol/],
    [(_, context) => context.update("x", undefined), /the update of "x" is undefined/],
    [(_, context) => context.activityDelta("x", [1n]), /the patch cannot/],
    [() => library.suspend({ message: "?", parameters: 1n }), /a ticket's parameters cannot/],
    [() => library.suspend({ message: "?", responseSchema: cyclic }), /a ticket's schema cannot/],
  ]) {
    const { tag, val } = refusal(() => call(execute));
    assert.equal(tag, "internal", `${words}`);
    assert.match(val, words);
  }
  assert.equal(call(() => undefined).result.data, null);
});

test("what is thrown on purpose keeps its kind, in validate too", () => {
  const kinds = ["invalidArguments", "failed", "denied", "notFound", "internal"];
  const tags = ["invalid-arguments", "execution-failed", "denied", "not-found", "internal"];
  for (const [at, kind] of kinds.entries()) {
    const throws = () => {
      throw library[kind]("No.");
    };
    assert.deepEqual(refusal(() => call(throws)), { tag: tags[at], val: "No." });
    assert.deepEqual(refusal(() => call(() => 1, {}, { validate: throws })), { tag: tags[at], val: "No." });
  }
  const { tag, val } = refusal(() => call(() => null.x));
  assert.equal(tag, "internal");
  assert.match(val, /^TypeError: /);
});

test("a key of one's own is read and written, another's only read, unless it is stated", () => {
  const access = (name, key = {}) => {
    const [{ key: whole, read, write, defines }] = described({}, { state: { [name]: key } }).state;
    return [whole, read, write, defines !== null];
  };
  assert.deepEqual(access("own"), ["one.own", true, true, true]);
  assert.deepEqual(access("own", { write: false }), ["one.own", true, false, true]);
  assert.deepEqual(access("other.key"), ["other.key", true, false, false]);
  assert.deepEqual(access("other.key", { write: true }), ["other.key", true, true, false]);
  assert.equal(described({}, { state: { own: {} } }).state[0].defines.initial, "null");
});

test("a tool says of itself what it states", () => {
  const stated = { timeoutMs: 5, maxRetries: 1, idempotent: true, validate() {}, category: "c" };
  const { tools } = described({ name: "two_words", ...stated });
  assert.deepEqual(tools[0], {
    id: "two-words",
    name: "two_words",
    description: "One.",
    parameters: "{}",
    category: "c",
    execution: { timeoutMs: 5, maxRetries: 1, idempotent: true, validates: true },
  });
});

test("progress may be without a fraction", () => {
  reports.length = 0;
  call((_, context) => context.progress(null, "under way"));
  assert.deepEqual(reports, [{ status: "running", message: "under way", progress: null }]);
});
