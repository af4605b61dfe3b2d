// The library from the perspectives of a tool's author and the host: node --test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as library from "../index.js";
import { withStack } from "../lines.js";
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
    const exported = Object.keys(module).filter((name) => !["default", "attempt"].includes(name));
    assert.deepEqual(exported.sort(), [...new Set(declared)].sort());
  }
});

test("a stack has the lines of the sources", () => {
  globalThis.tollgateLines = { sources: ["src/tool.ts", "../lib.js"], runs: [[10, 0, 3], [20, 1, 1]] };
  const error = Object.assign(new Error("no"), {
    stack: "    at f (/tool.js:12:7)\n    at g (tool.js:20)\n    at h (tool.js:2:1)\n    at i (other_tool.js:12)\n",
  });
  const lines = withStack(error).split("\n");
  delete globalThis.tollgateLines;
  assert.deepEqual(lines.slice(0, 4), ["Error: no", "    at f (src/tool.ts:5)", "    at g (../lib.js:1)", "    at h (tool.js:2:1)"]);
  assert.equal(withStack("thrown"), "thrown");
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

test("a tool may promise its answer, and its check too", async () => {
  const refused = only({ execute: async () => 1, validate: async () => Promise.reject(library.failed("No.")) });
  await assert.rejects(run(refused, "one", {}), { tag: "execution-failed", val: "No." });
  assert.equal((await call(async ({ a }) => a, { a: 1 })).result.data, 1);
  await assert.rejects(call(async () => null.x), ({ tag, val }) => tag === "internal" && /TypeError/.test(val));
});

test("s10: a call's own writes are visible to its reads, by each reducer", () => {
  const initial = { replace: "a", "merge-patch": { a: { b: 1, c: 2 }, d: 3 }, append: [1], add: 1, union: ["b"], max: 3 };
  const updates = {
    replace: [2],
    "merge-patch": { a: { b: null, e: 4 }, d: [5] },
    append: [2],
    add: -3,
    union: ["c", "b", "\u{10000}", "\uffff", "a"],
    max: 3.5,
  };
  const after = {
    replace: [2],
    "merge-patch": { a: { c: 2, e: 4 }, d: [5] },
    append: [1, [2]],
    add: -2,
    union: ["a", "b", "c", "\uffff", "\u{10000}"],
    max: 3.5,
  };
  const state = Object.fromEntries(Object.keys(initial).map((reducer) => [reducer, { reducer }]));
  const execute = (_, context) => {
    for (const [reducer, update] of Object.entries(updates)) context.update(reducer, update);
    context.update("other.key", "new");
    return [Object.fromEntries(Object.keys(initial).map((name) => [name, context.read(name)])), context.read("other.key")];
  };
  const values = Object.fromEntries(Object.entries(initial).map(([name, value]) => [`one.${name}`, value]));
  const { result, mutations } = run(only({ execute }, { state }), "one", {}, { state: values });
  assert.deepEqual(result.data, [after, "new"]);
  assert.equal(mutations.length, 7);
});

test("a key without a value has its initial one", () => {
  const state = { count: { initial: 3, reducer: "add" }, secret: { initial: 1, read: false } };
  const execute = (_, context) => {
    const before = context.read("count");
    context.update("count", 2);
    return [before, context.read("count"), context.read("secret") ?? null, context.read("other.key") ?? null];
  };
  const read = (given) => run(only({ execute }, { state }), "one", {}, given).result.data;
  assert.deepEqual([read({}), read({ state: { "one.count": 7 } })], [[3, 5, null, null], [7, 9, null, null]]);
});

test("k14: a tool reads settings and runs child agents", () => {
  const execute = (_, context) => [library.setting("api"), library.setting("other") ?? null,
    library.runChild({ agent: "helper", messages: "Do it.", seed: { "a.b": 1 } }).completed().response];
  const given = { settings: { api: "https://a.test" }, children: [{ response: "Done." }] };
  testing.children.length = 0;
  assert.deepEqual(run(only({ execute }), "one", {}, given).result.data, ["https://a.test", null, "Done."]);
  assert.deepEqual(testing.children, [{ agentId: "helper", messages: [{ role: "user", text: "Do it." }],
    seed: [{ key: "a.b", value: "1" }], exports: [], text: "silent" }]);
  const fails = (children) => refusal(() => run(only({ execute }), "one", {}, { children }));
  assert.deepEqual(fails([]), { tag: "not-found", val: "There is no agent `helper`." });
  assert.deepEqual(fails([{ status: "failed", reason: "No tokens" }]),
    { tag: "execution-failed", val: "The child agent failed: No tokens." });
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
  const unsent = () => {
    throw Object.assign(new TypeError("Not granted."), { name: "HttpError", code: "denied" });
  };
  assert.deepEqual(refusal(() => call(unsent)), { tag: "denied", val: "Not granted." });
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
