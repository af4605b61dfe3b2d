// Timers. Nothing else happens while the call waits for one, so the wait is a sleep.
import { monotonicNow, sleepUntil } from "#clock";
import { whenIdle } from "./promise.js";

const NANOSECONDS = 1_000_000n;
const timers = new Map();
let last = 0;

function start(work, delayMs, args, repeats) {
  if (typeof work !== "function") throw new TypeError("a timer needs a function");
  const delay = BigInt(Math.max(0, Math.trunc(Number(delayMs) || 0))) * NANOSECONDS;
  const id = ++last;
  timers.set(id, { id, due: monotonicNow() + delay, work: () => work(...args), every: repeats ? delay : undefined });
  whenIdle(fire);
  return id;
}

export const setTimeout = (work, delayMs, ...args) => start(work, delayMs, args, false);
export const setInterval = (work, delayMs, ...args) => start(work, delayMs, args, true);

export function clearTimeout(id) {
  timers.delete(id);
}

export const clearInterval = clearTimeout;

/** Waits for the timer that is due next and runs it. */
function fire() {
  let next;
  for (const timer of timers.values()) if (next === undefined || timer.due < next.due) next = timer;
  if (next === undefined) return false;
  sleepUntil(next.due);
  if (next.every === undefined) timers.delete(next.id);
  else next.due += next.every > 0n ? next.every : NANOSECONDS;
  next.work();
  return true;
}
