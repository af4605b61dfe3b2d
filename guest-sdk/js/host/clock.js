import clock from "wasi:clocks/monotonic-clock@0.2.0";
import { poll } from "wasi:io/poll@0.2.0";

/** The clock in nanoseconds. */
export const monotonicNow = () => BigInt(clock.now());

export function sleepUntil(instant) {
  if (instant > monotonicNow()) poll([clock.subscribeInstant(Number(instant))]);
}
