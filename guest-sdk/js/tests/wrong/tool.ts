// Types that cannot be described, each with its own message: see typescript.rs among the
// tests of the languages.
import { type Bounded, component, type Context, type Integer } from "tollgate";

class Own {
  x = 1;
}

interface Arguments {
  date: Date;
  map: Map<string, number>;
  own: Own;
  call(): void;
  symbol: symbol;
  bigint: bigint;
  any: any;
  gone: Missing;
  nested: { deep: [Set<string>] };
  template: `${number}px`;
  keys: Record<number, string>;
  /** @minimum few */
  few: number;
  /** @minLength 3 */
  length: number;
  bounded: Bounded<string, { maximum: 3 }>;
  /** @default three */
  three?: string;
  /** @default 3 */
  other?: string;
  /** @default 3 */
  two?: number;
  six?: Integer<0, 5>;
}

/** Has arguments that are no JSON. */
function wrong({ two = 4, six = 6 }: Arguments): number {
  return two + six;
}

const widened = { name: "widened", description: "Has no name of its own.", execute: () => 1 };
const described = { description: "Described." };

export const tool = component({
  id: "wrong",
  tools: [
    { name: "wrong", execute: wrong },
    { ...described, name: "later", execute: async () => 1 }, // nothing is wrong with it
    { name: "silent", execute: () => 1 },
    { name: "generic", ...described, execute: <T>(args: { a: T }) => args.a },
    { name: "loose", ...described, execute: (args: any) => args },
    { name: "open", ...described, execute: (args: object) => args },
    { name: "text", ...described, execute: (text: string) => text },
    { name: "first", ...described, execute: (context: Context) => context.attempt },
    widened,
  ],
});
