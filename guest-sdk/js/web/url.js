// URL and URLSearchParams for the schemes that a tool meets. Hosts are ASCII: an
// international name has to be written in its `xn--` form.
import { decode, encode } from "./encoding.js";

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
const SCHEME = /^([a-z][a-z0-9+.-]*:)(.*)$/is;
const FORBIDDEN_IN_HOST = /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/;

const isSpecial = (protocol) => Object.hasOwn(PORTS, protocol);

/** Percent-encodes what the expression finds, and everything that is not ASCII. */
const escape = (text, unsafe) =>
  text.replace(/[^\0-\x7f]+/g, encodeURIComponent).replace(unsafe, (character) =>
    `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
const escapePath = (text) => escape(text, /[\0-\x20"#<>?`{}\x7f]/g);
const escapeQuery = (text) => escape(text, /[\0-\x20"#'<>\x7f]/g);
const escapeFragment = (text) => escape(text, /[\0-\x20"<>`\x7f]/g);
const escapeUser = (text) => escape(text, /[\0-\x20"#/:;<=>?@[\\\]^`{|}\x7f]/g);

export class URL {
  #protocol;
  #username = "";
  #password = "";
  #hostname = "";
  #port = "";
  #path = "";
  #query = "";
  #fragment = "";
  #hasHost = false;
  #params;

  constructor(url, base) {
    const text = String(url).trim().replace(/[\t\n\r]/g, "");
    const from = base === undefined ? undefined : new URL(base);
    const [, protocol, rest] = SCHEME.exec(text) ?? [];
    if (protocol !== undefined) this.#parse(protocol.toLowerCase(), rest);
    else if (from !== undefined) this.#resolve(from, text);
    else throw new TypeError(`"${text}" is not a URL`);
    this.#params = new URLSearchParams(this.#query);
    this.#params.onChange = (query) => (this.#query = query);
  }

  static canParse(url, base) {
    return URL.parse(url, base) !== null;
  }

  static parse(url, base) {
    try {
      return new URL(url, base);
    } catch {
      return null;
    }
  }

  #parse(protocol, text) {
    this.#protocol = protocol;
    const [, before, query, fragment] = /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(text);
    let path = isSpecial(protocol) ? before.replaceAll("\\", "/") : before;
    if (isSpecial(protocol) || path.startsWith("//")) {
      const [, authority, rest] = /^\/*([^/]*)(.*)$/s.exec(path);
      this.#authority(authority);
      path = rest;
    }
    this.#setPath(path);
    this.#setQuery(query);
    this.#fragment = escapeFragment(fragment ?? "");
  }

  #resolve(from, text) {
    if (!from.#hasHost && !text.startsWith("#")) throw new TypeError(`"${text}" cannot be resolved from ${from.href}`);
    if (/^[/\\]{2}/.test(text)) return this.#parse(from.#protocol, text);
    this.#protocol = from.#protocol;
    this.#username = from.#username;
    this.#password = from.#password;
    this.#hostname = from.#hostname;
    this.#port = from.#port;
    this.#hasHost = from.#hasHost;
    const [, before, query, fragment] = /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(text);
    const path = isSpecial(this.#protocol) ? before.replaceAll("\\", "/") : before;
    if (path === "") this.#path = from.#path;
    else this.#setPath(path.startsWith("/") ? path : from.#path.replace(/[^/]*$/, "") + path);
    if (path === "" && query === undefined) this.#query = from.#query;
    else this.#setQuery(query);
    this.#fragment = escapeFragment(fragment ?? "");
  }

  #authority(text) {
    const [, user, host] = /^(?:(.*)@)?([^@]*)$/s.exec(text);
    if (user !== undefined) {
      const [name, ...word] = user.split(":");
      this.#username = escapeUser(name);
      this.#password = escapeUser(word.join(":"));
    }
    const [, name, port] = /^(\[[0-9a-f:.]*\]|[^:]*)(?::(\d*))?$/is.exec(host) ?? [];
    if (name === undefined || (name === "" && isSpecial(this.#protocol))) throw new TypeError(`"${host}" is not a host`);
    this.#hostname = hostOf(name);
    this.#setPort(port ?? "");
    this.#hasHost = true;
  }

  #setPort(text) {
    const port = text === "" ? "" : String(Number(text));
    if (!(Number(port) <= 65_535)) throw new TypeError(`${text} is not a port`);
    this.#port = port === PORTS[this.#protocol] ? "" : port;
  }

  #setPath(text) {
    this.#path = this.#hasHost ? withoutDots(escapePath(text)) : escape(text, /[\0-\x1f\x7f]/g);
  }

  #setQuery(text) {
    this.#query = escapeQuery(text ?? "");
  }

  get href() {
    const user = this.#username === "" && this.#password === "" ? "" : `${this.#username}${this.#password && `:${this.#password}`}@`;
    const authority = this.#hasHost ? `//${user}${this.host}` : "";
    return `${this.#protocol}${authority}${this.#path}${this.search}${this.hash}`;
  }
  get origin() {
    return isSpecial(this.#protocol) ? `${this.#protocol}//${this.host}` : "null";
  }
  get protocol() {
    return this.#protocol;
  }
  get username() {
    return this.#username;
  }
  get password() {
    return this.#password;
  }
  get host() {
    return this.#port === "" ? this.#hostname : `${this.#hostname}:${this.#port}`;
  }
  get hostname() {
    return this.#hostname;
  }
  set hostname(name) {
    this.#hostname = hostOf(String(name));
  }
  get port() {
    return this.#port;
  }
  set port(port) {
    this.#setPort(String(port));
  }
  get pathname() {
    return this.#path;
  }
  set pathname(path) {
    this.#setPath(String(path));
  }
  get search() {
    return this.#query === "" ? "" : `?${this.#query}`;
  }
  set search(query) {
    this.#setQuery(String(query).replace(/^\?/, ""));
    this.#params.replace(this.#query);
  }
  get searchParams() {
    return this.#params;
  }
  get hash() {
    return this.#fragment === "" ? "" : `#${this.#fragment}`;
  }
  set hash(fragment) {
    this.#fragment = escapeFragment(String(fragment).replace(/^#/, ""));
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
}

function hostOf(name) {
  const host = name.startsWith("[") ? name : percentDecoded(name);
  if (!name.startsWith("[") && FORBIDDEN_IN_HOST.test(host)) throw new TypeError(`"${name}" is not a host`);
  if (/[^\0-\x7f]/.test(host)) throw new TypeError(`"${name}" is not a host: write it in its xn-- form`);
  return host.toLowerCase();
}

function withoutDots(path) {
  const kept = [];
  const parts = path.split("/").slice(path.startsWith("/") ? 1 : 0);
  parts.forEach((part, at) => {
    const plain = part.replace(/%2e/gi, ".");
    const isLast = at === parts.length - 1;
    if (plain === "..") kept.pop();
    else if (plain !== ".") kept.push(part);
    if (isLast && (plain === ".." || plain === ".")) kept.push("");
  });
  return `/${kept.join("/")}`;
}

/** Decodes `%XX`; what is not of this form stays. */
function percentDecoded(text) {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escaped) =>
    decode(Uint8Array.from(escaped.slice(1).split("%"), (byte) => parseInt(byte, 16))),
  );
}

const formDecoded = (text) => percentDecoded(text.replaceAll("+", " "));
const formEncoded = (text) =>
  encodeBytes(encode(text)).replaceAll("%20", "+");
const encodeBytes = (bytes) =>
  Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9*\-._]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");

export class URLSearchParams {
  #entries = [];
  /** @internal */
  onChange;

  constructor(init = "") {
    if (typeof init === "string") this.#entries = parsed(init);
    else if (init instanceof URLSearchParams || Array.isArray(init)) for (const [name, value] of init) this.append(name, value);
    else for (const [name, value] of Object.entries(init)) this.append(name, value);
  }

  /** @internal */
  replace(query) {
    this.#entries = parsed(query);
  }

  #change(entries) {
    this.#entries = entries;
    this.onChange?.(this.toString());
  }

  append(name, value) {
    this.#change([...this.#entries, [String(name), String(value)]]);
  }

  set(name, value) {
    const at = this.#entries.findIndex(([known]) => known === name);
    if (at < 0) return this.append(name, value);
    this.#change(
      this.#entries
        .map((entry, place) => (place === at ? [name, String(value)] : entry))
        .filter(([known], place) => place === at || known !== name),
    );
  }

  delete(name) {
    this.#change(this.#entries.filter(([known]) => known !== name));
  }

  get(name) {
    return this.#entries.find(([known]) => known === name)?.[1] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([known]) => known === name).map(([, value]) => value);
  }

  has(name) {
    return this.#entries.some(([known]) => known === name);
  }

  sort() {
    this.#change([...this.#entries].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
  }

  forEach(visit) {
    for (const [name, value] of this.#entries) visit(value, name, this);
  }

  get size() {
    return this.#entries.length;
  }

  *entries() {
    for (const [name, value] of this.#entries) yield [name, value];
  }

  *keys() {
    for (const [name] of this.#entries) yield name;
  }

  *values() {
    for (const [, value] of this.#entries) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#entries.map(([name, value]) => `${formEncoded(name)}=${formEncoded(value)}`).join("&");
  }
}

function parsed(query) {
  const parts = query.replace(/^\?/, "").split("&").filter(Boolean);
  return parts.map((part) => {
    const [name, ...value] = part.split("=");
    return [formDecoded(name), formDecoded(value.join("="))];
  });
}
