// AbortController and AbortSignal.
import { setTimeout } from "./timers.js";

const named = (name, message) => Object.assign(new Error(message), { name });

export class AbortSignal {
  #listeners = [];
  aborted = false;
  reason = undefined;
  onabort = null;
  /** The milliseconds of `AbortSignal.timeout`, which `fetch` passes to the host. */
  timeoutMs = undefined;

  addEventListener(type, listener) {
    if (type === "abort") this.#listeners.push(listener);
  }

  removeEventListener(type, listener) {
    if (type === "abort") this.#listeners = this.#listeners.filter((known) => known !== listener);
  }

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }

  /** @internal */
  trigger(reason = named("AbortError", "the operation was aborted")) {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const event = { type: "abort", target: this };
    this.onabort?.(event);
    for (const listener of this.#listeners) (listener.handleEvent ?? listener).call(this, event);
  }

  static abort(reason) {
    const signal = new AbortSignal();
    signal.trigger(reason);
    return signal;
  }

  static timeout(ms) {
    const signal = new AbortSignal();
    signal.timeoutMs = ms;
    setTimeout(() => signal.trigger(named("TimeoutError", "the operation timed out")), ms);
    return signal;
  }

  static any(signals) {
    const signal = new AbortSignal();
    for (const one of signals) {
      if (one.aborted) signal.trigger(one.reason);
      one.addEventListener("abort", () => signal.trigger(one.reason));
      if (one.timeoutMs !== undefined) signal.timeoutMs = Math.min(signal.timeoutMs ?? Infinity, one.timeoutMs);
    }
    return signal;
  }
}

export class AbortController {
  signal = new AbortSignal();

  abort(reason) {
    this.signal.trigger(reason);
  }
}
