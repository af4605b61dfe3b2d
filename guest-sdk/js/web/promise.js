// Promises for the component. The engine runs its own promises' callbacks only after the
// call has returned, which is too late for an answer. These keep them in a queue of their
// own, which `settle` runs. `tollgate build` compiles `async` and `await` to them.

const queue = [];
const idlers = [];

/**
 * Adds work that may settle promises, for when the queue is empty; it returns whether there was
 * any. Work that is `first` is done before all other, such as sleeping.
 */
export function whenIdle(work, isFirst = false) {
  if (idlers.includes(work)) return;
  if (isFirst) idlers.unshift(work);
  else idlers.push(work);
}

export function queueMicrotask(job) {
  queue.push(job);
}

/** Runs the queue until the promise is settled, and returns its value or throws its reason. */
export function settle(value) {
  let settled;
  Promise.resolve(value).then(
    (result) => (settled = { result }),
    (reason) => (settled = { reason }),
  );
  for (;;) {
    runQueue();
    if (settled) break;
    if (!idlers.some((work) => work())) throw new Error("the answer waits for something that never happens");
  }
  if ("reason" in settled) throw settled.reason;
  return settled.result;
}

function runQueue() {
  for (let at = 0; ; at++) {
    if (at === queue.length) {
      queue.length = 0;
      return;
    }
    queue[at]();
  }
}

export class Promise {
  #state = "pending";
  #value;
  #reactions = [];

  constructor(executor) {
    const { resolve, reject } = this.#settlers();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  get [Symbol.toStringTag]() {
    return "Promise";
  }

  #settlers() {
    let isDone = false;
    const once = (settle) => (value) => {
      if (isDone) return;
      isDone = true;
      settle(value);
    };
    return { resolve: once((value) => this.#resolve(value)), reject: once((reason) => this.#settle("rejected", reason)) };
  }

  #resolve(value) {
    if (value === this) return this.#settle("rejected", new TypeError("a promise cannot resolve to itself"));
    if (value === null || (typeof value !== "object" && typeof value !== "function")) {
      return this.#settle("fulfilled", value);
    }
    let then;
    try {
      then = value.then;
    } catch (error) {
      return this.#settle("rejected", error);
    }
    if (typeof then !== "function") return this.#settle("fulfilled", value);
    queueMicrotask(() => {
      const { resolve, reject } = this.#settlers();
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    for (const react of this.#reactions) queueMicrotask(react);
    this.#reactions = undefined;
  }

  then(onFulfilled, onRejected) {
    return new Promise((resolve, reject) => {
      const react = () => {
        const handler = this.#state === "fulfilled" ? onFulfilled : onRejected;
        if (typeof handler !== "function") {
          return this.#state === "fulfilled" ? resolve(this.#value) : reject(this.#value);
        }
        try {
          resolve(handler(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      if (this.#state === "pending") this.#reactions.push(react);
      else queueMicrotask(react);
    });
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(work) {
    if (typeof work !== "function") return this.then(work, work);
    return this.then(
      (value) => Promise.resolve(work()).then(() => value),
      (reason) =>
        Promise.resolve(work()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve(value) {
    return value instanceof Promise ? value : new Promise((resolve) => resolve(value));
  }

  static reject(reason) {
    return new Promise((_, reject) => reject(reason));
  }

  static withResolvers() {
    let settlers;
    const promise = new Promise((resolve, reject) => (settlers = { resolve, reject }));
    return { promise, ...settlers };
  }

  static try(work, ...args) {
    return new Promise((resolve) => resolve(work(...args)));
  }

  static all(values) {
    return collect(values, (keep, _, reject) => [keep, reject]);
  }

  static allSettled(values) {
    return collect(values, (keep) => [
      (value) => keep({ status: "fulfilled", value }),
      (reason) => keep({ status: "rejected", reason }),
    ]);
  }

  static any(values) {
    return new Promise((resolve, reject) => {
      collect(values, (keep) => [resolve, keep]).then(
        (errors) => reject(new AggregateError(errors, "all promises were rejected")),
        reject,
      );
    });
  }

  static race(values) {
    return new Promise((resolve, reject) => {
      for (const value of values) Promise.resolve(value).then(resolve, reject);
    });
  }
}

/** Waits until each value has kept a result; `reactions` are those to one value. */
function collect(values, reactions) {
  return new Promise((resolve, reject) => {
    const results = [];
    let missing = 1;
    const isOne = () => --missing === 0 && resolve(results);
    let at = 0;
    for (const value of values) {
      const place = at++;
      missing++;
      const keep = (result) => {
        results[place] = result;
        isOne();
      };
      Promise.resolve(value).then(...reactions(keep, resolve, reject));
    }
    isOne();
  });
}

globalThis.Promise = Promise;
globalThis.queueMicrotask = queueMicrotask;
