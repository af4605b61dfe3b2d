// Every kind of type that an argument may have. tool.js is the JavaScript version;
// parameters.json is the result for both.
import { component, type Context, type Integer, object, optional, string, tool as stating } from "tollgate";

export const tool = component({
  id: "described",
  tools: [
    { name: "all", execute: all },
    stating({
      name: "stated",
      description: "States what it is.",
      parameters: object({ text: optional(string("A text."), "a") }),
      execute: ({ text }) => text.length,
    }),
    {
      name: "within",
      /** Has its comment where it is used. */
      execute: ({ text }: Text, context) => text + context.toolName,
    },
    { name: "nothing", description: "Takes nothing.", execute: () => "nothing" },
  ],
});

interface Text {
  /** A text. */
  text: string;
}

type Size = 4 | 2 | 1;

/** A tree. */
interface Tree {
  label: string;
  children: Tree[];
}

interface Place {
  /** The name of the place. */
  name: string;
  /**
   * Its code.
   * @pattern ^[0-9]{4}$
   */
  zip?: string;
  /**
   * The country of the place.
   * @default "CH"
   */
  country?: string;
}

interface Arguments {
  /**
   * What to do, in words that
   * the library uses as well.
   *
   * In their order here.
   */
  what: "report" | "error" | "done" | "append";
  /** @maxLength 80 */
  text?: string;
  count?: Integer<0, 1000>;
  /**
   * @exclusiveMinimum -1.5
   * @multipleOf 0.5
   */
  ratio?: number;
  flag?: boolean;
  /** @minItems 1 */
  words: string[];
  size?: Size;
  tags?: string[];
  levels?: ("warn" | "info" | "b" | "a")[];
  place?: Place;
  rows: { name: string; x?: number }[];
  scores: Record<string, Integer>;
  pair: [string, number?, ...boolean[]];
  nobody: string | null;
  either: { kind: "a"; n: number } | "none" | string[];
  tree: Tree;
  any: unknown;
  __proto__: string;
}

const COUNT = 3;

/**
 * Has an argument of
 * every kind.
 *
 * The model reads the first paragraph.
 */
function all(
  {
    text = "plain",
    count = COUNT,
    ratio = -0.5,
    flag = true,
    size = 2,
    tags = ["a", "]"],
    place: { zip = "1234" } = { name: "here" },
  }: Arguments,
  context: Context,
): unknown {
  return [text, count, ratio, flag, size, tags, zip, context.attempt];
}
