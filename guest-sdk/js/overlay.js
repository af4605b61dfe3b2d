// A call's own writes, as its later reads see them: each reducer's effect on a value, the
// same as the host's. The host decides when the call commits.

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const listOf = (value) => (Array.isArray(value) ? value : []);

const REDUCERS = {
  replace: (_, update) => update,
  "merge-patch": mergePatch,
  append: (value, update) => [...listOf(value), update],
  add: (value, update) => (value ?? 0) + update,
  union: (value, update) => {
    const texts = [...listOf(value), ...listOf(update)].map((element) => JSON.stringify(element));
    return [...new Set(texts)].sort(byBytes).map((text) => JSON.parse(text));
  },
  max: (value, update) => (update > (value ?? -Infinity) ? update : value),
};

/** The value after an update. */
export const reduced = (reducer, value, update) => REDUCERS[reducer](value, update);

function mergePatch(value, patch) {
  if (!isObject(patch)) return patch;
  const members = new Map(Object.entries(isObject(value) ? value : {}));
  for (const [name, update] of Object.entries(patch)) {
    if (update === null) members.delete(name);
    else members.set(name, mergePatch(members.get(name), update));
  }
  return Object.fromEntries(members);
}

/** The order of UTF-8, which differs from that of UTF-16 above U+FFFF. */
function byBytes(a, b) {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((character, place) => character !== right[place]);
  return at < 0 ? left.length - right.length : left[at].codePointAt(0) - (right[at]?.codePointAt(0) ?? -1);
}
