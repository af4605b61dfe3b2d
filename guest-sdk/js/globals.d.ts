/**
 * The part of the web's interfaces that a tool has without an import.
 * `Promise`, `async` and `await` are the language's own.
 */

/**
 * Sends a request that the operator granted. Redirects are followed by default, and each is judged.
 * The promise is rejected with an `HttpError`, a `TypeError` with a code: `denied`, `bad_request`,
 * `unreachable`, `timed_out`, `too_large`, `bad_response` or `redirected`. Requests that are made
 * together are sent together; timers do not run meanwhile, so use `AbortSignal.timeout`.
 */
declare function fetch(input: string | URL, init?: RequestInit): Promise<Response>;

interface RequestInit {
  method?: string;
  headers?: Headers | Record<string, string> | [string, string][];
  body?: string | ArrayBuffer | ArrayBufferView | URLSearchParams | null;
  redirect?: "follow" | "manual" | "error";
  signal?: AbortSignal;
  /** The longest body that may be read, in bytes; a longer one is `too_large`. Only here. */
  maxBodyBytes?: number;
}

declare class Response {
  private constructor();
  readonly status: number;
  readonly ok: boolean;
  readonly statusText: string;
  readonly url: string;
  readonly redirected: boolean;
  readonly headers: Headers;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

declare class Headers {
  constructor(init?: Headers | Record<string, string> | [string, string][]);
  append(name: string, value: string): void;
  set(name: string, value: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  delete(name: string): void;
  forEach(visit: (value: string, name: string, headers: Headers) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

/** A URL. Hosts are ASCII: write an international name in its `xn--` form. */
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string, base?: string | URL): boolean;
  static parse(url: string, base?: string | URL): URL | null;
  readonly href: string;
  readonly origin: string;
  readonly protocol: string;
  readonly username: string;
  readonly password: string;
  readonly host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}

declare class URLSearchParams {
  constructor(init?: string | Record<string, string> | [string, string][] | URLSearchParams);
  readonly size: number;
  append(name: string, value: string): void;
  set(name: string, value: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string): boolean;
  delete(name: string): void;
  sort(): void;
  forEach(visit: (value: string, name: string, params: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}

declare class AbortSignal {
  private constructor();
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: { type: "abort"; target: AbortSignal }) => void) | null;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
  throwIfAborted(): void;
  static abort(reason?: unknown): AbortSignal;
  static timeout(milliseconds: number): AbortSignal;
  static any(signals: AbortSignal[]): AbortSignal;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array<ArrayBuffer>;
}

/** Decodes UTF-8, the only encoding. */
declare class TextDecoder {
  constructor(label?: string);
  readonly encoding: string;
  decode(input?: ArrayBuffer | ArrayBufferView): string;
}

declare function setTimeout(work: (...args: any[]) => void, delayMs?: number, ...args: any[]): number;
declare function setInterval(work: (...args: any[]) => void, delayMs?: number, ...args: any[]): number;
declare function clearTimeout(id: number | undefined): void;
declare function clearInterval(id: number | undefined): void;
declare function queueMicrotask(work: () => void): void;

/** Writes log lines for the operator; the model never sees them. */
declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  trace(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  assert(holds: unknown, ...values: unknown[]): void;
};
