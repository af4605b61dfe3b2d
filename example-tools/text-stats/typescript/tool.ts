// text-stats in TypeScript: what a text is made of.
import { type Answer, boolean, component, type Context, error, failed, type Integer, suspend } from "tollgate";

interface Arguments {
  /** The text. */
  text: string;
  /** How many of the most frequent words to list. */
  top?: Integer<0, 20>;
  /** How often to measure it. */
  rounds?: Integer<1, 1_000_000_000>;
  /** Whether to ask a person first. */
  confirm?: boolean;
}

interface Frequency {
  word: string;
  count: number;
}

interface Statistics {
  bytes: number;
  characters: number;
  words: number;
  lines: number;
  top: Frequency[];
  seen: number;
}

export const tool = component({
  id: "text-stats-ts",
  version: "0.1.0",
  state: { "words-seen": { initial: 0, reducer: "add", scope: "thread", persistent: true } },
  tools: [{ name: "text_stats_ts", category: "text", idempotent: true, execute: textStats }],
});

/**
 * Counts the bytes, characters, words and lines of a text, and lists its most frequent
 * words.
 */
function textStats(
  { text, top = 3, rounds = 1, confirm = false }: Arguments,
  context: Context,
): Statistics | Answer {
  if (text === "") return error("There is no text to measure.", "empty_text");
  if (text.includes("\0")) throw failed("The text holds a NUL character.");
  const bytes = utf8Length(text);
  if (confirm && !context.resume) return question(bytes);
  if (context.resume?.value === false) return error("The person said no.", "declined");
  context.log("debug", surroundings(context));
  context.progress(0, "measuring");
  let counts = new Map<string, number>();
  for (let round = 0; round < rounds; round++) {
    if (context.isCancelled()) return error("The run was cancelled.", "cancelled");
    counts = countWords(text);
  }
  const words = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const seen: number = context.read("words-seen");
  context.update("words-seen", words);
  const most = mostFrequent(counts, top);
  for (const { word, count } of most) context.streamOutput(`${count} ${word}\n`);
  context.progress(1, `measured ${words} words`, "done");
  return { bytes, characters: [...text].length, words, lines: countLines(text), top: most, seen };
}

// Whose call it is, for the operator.
function surroundings({ callId, attempt, run }: Context): string {
  return `call ${callId}, attempt ${attempt}: agent ${run.agentId}, run ${run.runId}, thread ${run.threadId}`;
}

function question(bytes: number): Answer {
  return suspend({
    action: "measure",
    message: `Measure ${bytes} bytes?`,
    parameters: { bytes },
    responseSchema: boolean(),
  });
}

function countWords(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of text.split(/[ \t\n\r\v\f]+/)) {
    if (word === "") continue;
    const key = word.replace(/[A-Z]+/g, (upper) => upper.toLowerCase());
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

function mostFrequent(counts: Map<string, number>, top: number): Frequency[] {
  return [...counts]
    .map(([word, count]) => ({ word, count }))
    .sort((a, b) => b.count - a.count || byCodePoint(a.word, b.word))
    .slice(0, top);
}

function byCodePoint(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  const at = left.findIndex((character, index) => character !== right[index]);
  return at < 0 ? left.length - right.length : codePoint(left[at]) - codePoint(right[at]);
}

// -1 past a text's end, which sorts before everything.
function codePoint(character: string | undefined): number {
  return character?.codePointAt(0) ?? -1;
}

function countLines(text: string): number {
  return text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}

function utf8Length(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const code = codePoint(character);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}
