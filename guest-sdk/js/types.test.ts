// The types' promises to a tool's author, for `tsc --noEmit`: this file is compiled,
// never run. A line under `@ts-expect-error` must be an error.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import {
  array,
  boolean,
  type Bounded,
  component,
  type Context,
  error,
  type Infer,
  type Integer,
  integer,
  object,
  oneOf,
  optional,
  string,
  suspend,
  tool,
} from "tollgate";
import { run } from "tollgate/testing";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <T extends true>(): T => true as T;

const parameters = object({
  text: string("The text."),
  top: optional(integer("How many.", { minimum: 0 }), 3),
  order: oneOf(["up", "down"]),
  words: array(string()),
  inner: object({ deep: optional(boolean()) }),
});

holds<
  Equal<
    Infer<typeof parameters>,
    {
      text: string;
      top: number;
      order: "up" | "down";
      words: string[];
      inner: { deep: boolean | undefined };
    }
  >
>();

const measure = tool({
  name: "measure",
  description: "Measures.",
  parameters,
  validate: ({ top }) => void top.toFixed(),
  execute({ text, top, order }, context) {
    holds<Equal<typeof context, Context>>();
    // @ts-expect-error: a string has no such method
    text.toFixed();
    // @ts-expect-error: a key's name is a string
    context.read(1);
    // @ts-expect-error: neither of the two
    if (order === "sideways") return error("No.");
    const parent: string | null = context.run.parentRunId;
    context.progress(0.5, parent ?? "alone", "running");
    // @ts-expect-error: no status
    context.progress(1, "over", "over");
    // @ts-expect-error: the facts of a call are read-only
    context.attempt = 2;
    if (context.resume === null) return suspend({ message: "Go on?", responseSchema: boolean() });
    return top + context.attempt;
  },
});

const served = component({ id: "measures", state: { seen: { initial: 0, reducer: "add" } }, tools: [measure] });
run(served, "measure", { text: "a" }, { resume: { value: true } }).mutations[0]?.key.length;
// @ts-expect-error: no such reducer
component({ id: "measures", state: { seen: { reducer: "subtract" } }, tools: [] });
// @ts-expect-error: no tools
component({ id: "measures" });
// @ts-expect-error: the default is of another type
optional(integer(), "three");

interface Arguments {
  text: Bounded<string, { maxLength: 80 }>;
  top?: Integer<0, 20>;
}
const count = ({ text, top = 3 }: Arguments, context: Context): number => text.length + top + context.attempt;
count({ text: "a", top: 3 }, {} as Context).toFixed();
// @ts-expect-error: a number is expected, not a string
count({ text: "a", top: "three" }, {} as Context);
// @ts-expect-error: a property is missing
count({ top: 3 }, {} as Context);

const counts = tool({ name: "count", execute: count });
holds<Equal<(typeof counts)["name"], "count">>();
const third = { description: "One.", execute: () => 1 };
const both = component({ id: "both", tools: [counts, measure, { name: "third", ...third }] });
type Tools = NonNullable<(typeof both)["__component"]>["tools"];
holds<Equal<Tools[0]["name"], "count">>();
holds<Equal<Parameters<Tools[0]["execute"]>[0], Arguments>>();
holds<Equal<Tools[2]["name"], "third">>();
// @ts-expect-error: a tool needs a name
component({ id: "both", tools: [{ execute: count }] });
// @ts-expect-error: a tool with stated parameters needs a description
tool({ name: "count", parameters: object({}), execute: () => 1 });

const bytes = readFileSync("/docs/a");
holds<Equal<typeof bytes, Uint8Array>>();
const text = readFileSync("/docs/a", "utf8");
holds<Equal<typeof text, string>>();
const names = readdirSync("/docs", { recursive: true });
holds<Equal<typeof names, string[]>>();
const missing = statSync("/docs/a", { throwIfNoEntry: false });
holds<Equal<typeof missing, import("node:fs").Stats | undefined>>();
const later = readFile("/docs/a", { encoding: "utf8" });
holds<Equal<typeof later, Promise<string>>>();
// @ts-expect-error
void writeFile("/docs/a", 1);
// @ts-expect-error
readFileSync("/docs/a", "latin1");
