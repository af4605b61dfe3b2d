// The names that a module has without an import. `tollgate build` injects this file: a module
// gets the names that it uses, and a component the imports that those need.
import "./promise.js";

export { AbortController, AbortSignal } from "./abort.js";
export { console } from "./console.js";
export { TextDecoder, TextEncoder } from "./encoding.js";
export { fetch, Response } from "./fetch.js";
export { Headers } from "./headers.js";
export { clearInterval, clearTimeout, setInterval, setTimeout } from "./timers.js";
export { URL, URLSearchParams } from "./url.js";
