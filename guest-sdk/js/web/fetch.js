// `fetch`, over the host's HTTP. Requests that are made together are sent together.
import client from "#http";
import { decode, encode } from "./encoding.js";
import { Headers } from "./headers.js";
import { Promise, whenIdle } from "./promise.js";
import { URL, URLSearchParams } from "./url.js";

const MAX_REDIRECTS = 20;
/** The requests that are sent as soon as nothing else is left to do. */
let pending = [];

export async function fetch(input, init = {}) {
  const redirect = init.redirect ?? "follow";
  let { url, method, headers, body } = requestOf(input, init);
  for (let redirects = 0; ; redirects++) {
    init.signal?.throwIfAborted();
    const answer = await send({ url: url.href, method, headers, body }, init);
    const response = new Response(answer, url.href, redirects > 0);
    const location = response.headers.get("location");
    if (redirect === "manual" || ![301, 302, 303, 307, 308].includes(answer.status) || location === null) {
      return response;
    }
    if (redirect === "error") throw new HttpError("redirected", `The server redirects to ${location}.`);
    if (redirects === MAX_REDIRECTS) throw new HttpError("redirected", "The server redirects too often.");
    const from = url.origin;
    url = new URL(location, url);
    if (answer.status === 303 || (answer.status < 303 && method === "POST")) {
      method = method === "HEAD" ? "HEAD" : "GET";
      body = new Uint8Array();
      headers.delete("content-type");
    }
    if (url.origin !== from) for (const name of ["authorization", "cookie"]) headers.delete(name);
  }
}

/** The error of a request without a response. Its code is the same in every language. */
export class HttpError extends TypeError {
  constructor(code, message) {
    super(message);
    this.name = code === "timed_out" ? "TimeoutError" : "HttpError";
    this.code = code;
  }
}

function requestOf(input, { method = "GET", headers, body }) {
  const request = {
    url: new URL(input.href ?? String(input)),
    method: method.toUpperCase(),
    headers: new Headers(headers),
    body: new Uint8Array(),
  };
  if (body === undefined || body === null) return request;
  const [bytes, type] = bytesOf(body);
  request.body = bytes;
  if (type !== undefined && !request.headers.has("content-type")) request.headers.set("content-type", type);
  return request;
}

function bytesOf(body) {
  if (body instanceof ArrayBuffer) return [new Uint8Array(body)];
  if (ArrayBuffer.isView(body)) return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice()];
  if (body instanceof URLSearchParams) {
    return [encode(body.toString()), "application/x-www-form-urlencoded;charset=UTF-8"];
  }
  return [encode(String(body)), "text/plain;charset=UTF-8"];
}

function send({ url, method, headers, body }, { signal, maxBodyBytes }) {
  return new Promise((resolve, reject) => {
    const one = {
      request: {
        method,
        url,
        headers: [...headers].map(([name, value]) => ({ name, value })),
        body,
        timeoutMs: signal?.timeoutMs ?? null,
        maxBodyBytes: maxBodyBytes ?? null,
      },
      settle: (answer) => (answer.tag === "ok" ? resolve(answer.val) : reject(errorOf(answer.val))),
    };
    pending.push(one);
    signal?.addEventListener("abort", () => {
      pending = pending.filter((other) => other !== one);
      reject(signal.reason);
    });
    whenIdle(sendPending, true);
  });
}

function sendPending() {
  const sent = pending;
  pending = [];
  if (sent.length === 0) return false;
  const answers = client.send(sent.map(({ request }) => request));
  sent.forEach(({ settle }, at) => settle(answers[at]));
  return true;
}

const errorOf = ({ kind, message }) => new HttpError(kind.replaceAll("-", "_"), message);

export class Response {
  #body;

  constructor({ status, headers, body, truncated }, url = "", redirected = false) {
    this.status = status;
    this.ok = status >= 200 && status < 300;
    this.statusText = "";
    this.type = "basic";
    this.url = url;
    this.redirected = redirected;
    this.headers = new Headers(headers.map(({ name, value }) => [name, value]));
    this.truncated = truncated;
    this.bodyUsed = false;
    this.#body = body;
  }

  async bytes() {
    if (this.bodyUsed) throw new TypeError("the body was read before");
    this.bodyUsed = true;
    if (this.truncated) throw new HttpError("too_large", `The answer is longer than ${this.#body.length} bytes.`);
    return this.#body;
  }

  async arrayBuffer() {
    const bytes = await this.bytes();
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }

  async text() {
    return decode(await this.bytes());
  }

  async json() {
    return JSON.parse(await this.text());
  }
}
