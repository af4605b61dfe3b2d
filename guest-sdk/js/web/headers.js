// The headers of requests and responses.

export class Headers {
  #fields = new Map();

  constructor(init = []) {
    const entries = init instanceof Headers || Array.isArray(init) ? init : Object.entries(init);
    for (const [name, value] of entries) this.append(name, value);
  }

  append(name, value) {
    const key = keyOf(name);
    const text = String(value).trim();
    const known = this.#fields.get(key);
    this.#fields.set(key, known === undefined ? text : `${known}, ${text}`);
  }

  set(name, value) {
    this.#fields.set(keyOf(name), String(value).trim());
  }

  get(name) {
    return this.#fields.get(keyOf(name)) ?? null;
  }

  has(name) {
    return this.#fields.has(keyOf(name));
  }

  delete(name) {
    this.#fields.delete(keyOf(name));
  }

  forEach(visit) {
    for (const [name, value] of this) visit(value, name, this);
  }

  *entries() {
    yield* [...this.#fields].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  *keys() {
    for (const [name] of this) yield name;
  }

  *values() {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }
}

function keyOf(name) {
  const key = String(name).toLowerCase();
  if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(key)) throw new TypeError(`"${name}" is not a header's name`);
  return key;
}
