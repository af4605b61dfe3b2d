// `console` writes log lines for the operator. Lines written before a call begins are lost.
import call from "#host";
import { current } from "../current.js";
import { withStack } from "../lines.js";

const write = (level) => (...values) => {
  if (current.isCalled) call.log(level, values.map(shown).join(" "));
};

function shown(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return withStack(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

export const console = {
  log: write("info"),
  info: write("info"),
  debug: write("debug"),
  trace: write("trace"),
  warn: write("warn"),
  error: write("error"),
  assert: (holds, ...values) => holds || console.error("assertion failed:", ...values),
};
