// The JavaScript version of tool.ts.
import { component, object, optional, string } from "tollgate";

/** @import { Bounded, Context, Integer } from "tollgate" */

export const tool = component({
  id: "described",
  tools: [
    { name: "all", execute: all },
    {
      name: "stated",
      description: "States what it is.",
      parameters: object({ text: optional(string("A text."), "a") }),
      execute: ({ text }) => text.length,
    },
    {
      name: "within",
      /**
       * Has its comment where it is used.
       * @param {object} args
       * @param {string} args.text A text.
       */
      execute: ({ text }, context) => text + context.toolName,
    },
    { name: "nothing", description: "Takes nothing.", execute: () => "nothing" },
  ],
});

/** @typedef {4 | 2 | 1} Size */

/**
 * A tree.
 * @typedef {object} Tree
 * @property {string} label
 * @property {Tree[]} children
 */

/**
 * @typedef {object} Place
 * @property {string} name The name of the place.
 * @property {Bounded<string, { pattern: "^[0-9]{4}$" }>} [zip] Its code.
 * @property {string} [country="CH"] The country of the place.
 */

const COUNT = 3;

/**
 * Has an argument of
 * every kind.
 *
 * The model reads the first paragraph.
 *
 * @param {object} args
 * @param {"report" | "error" | "done" | "append"} args.what - What to do, in words that
 *   the library uses as well.
 *
 *   In their order here.
 * @param {Bounded<string, { maxLength: 80 }>} [args.text='plain']
 * @param {Integer<0, 1000>} [args.count]
 * @param {Bounded<number, { exclusiveMinimum: -1.5, multipleOf: 0.5 }>} [args.ratio=-0.5]
 * @param {boolean} [args.flag]
 * @param {Bounded<string[], { minItems: 1 }>} args.words
 * @param {Size} [args.size=2]
 * @param {string[]} [args.tags=["a", "]"]]
 * @param {("warn" | "info" | "b" | "a")[]} [args.levels]
 * @param {Place} [args.place]
 * @param {object[]} args.rows
 * @param {string} args.rows[].name
 * @param {number} [args.rows[].x]
 * @param {Record<string, Integer>} args.scores
 * @param {[string, number?, ...boolean[]]} args.pair
 * @param {?string} args.nobody
 * @param {{ kind: "a", n: number } | "none" | string[]} args.either
 * @param {Tree} args.tree
 * @param {unknown} args.any
 * @param {string} args.__proto__
 * @param {Context} context
 */
function all({ text, count = COUNT, ratio, flag = true, size, tags, place: { zip = "1234" } = { name: "here" } }, context) {
  return [text, count, ratio, flag, size, tags, zip, context.attempt];
}
