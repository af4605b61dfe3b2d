// Waits for what a tool returns, within a component: an instance serves one call, so
// everything that the call waits for happens here.
import { settle } from "./promise.js";

/** Calls `finish` with the value that `work` returns or promises, or `fail` with its error. */
export function attempt(work, finish, fail) {
  try {
    const returned = work();
    return finish(typeof returned?.then === "function" ? settle(returned) : returned);
  } catch (error) {
    return fail(error);
  }
}
