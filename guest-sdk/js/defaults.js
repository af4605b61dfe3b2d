// Fills in omitted arguments with the defaults of the schema. The work to do is
// determined once, when the component is created, which is before any call.

/**
 * Returns a function that fills a schema's defaults into a value, also within objects and
 * lists; undefined if the schema has none.
 */
export function fillerOf(schema, root = schema, known = new Map()) {
  const stated = resolved(schema, root);
  if (stated === undefined) return undefined;
  if (known.has(stated)) return known.get(stated);
  let fill;
  // A schema may refer to itself: it is then known but not finished.
  known.set(stated, (value) => fill?.(value));
  const of = (inner) => fillerOf(inner, root, known);
  const [object, array] = [objectFiller(stated, of), arrayFiller(stated, of)];
  if (object || array) {
    fill = (value) => (Array.isArray(value) ? array?.(value) : isObject(value) && object?.(value));
  }
  known.set(stated, fill);
  return fill;
}

function objectFiller({ properties = {}, additionalProperties }, of) {
  const members = Object.entries(properties)
    .map(([name, inner]) => ({ name, fresh: freshOf(inner.default), fill: of(inner) }))
    .filter(({ fresh, fill }) => fresh || fill);
  const further = of(additionalProperties);
  if (members.length === 0 && further === undefined) return undefined;
  return (value) => {
    for (const { name, fresh, fill } of members) {
      if (fresh && !Object.hasOwn(value, name)) {
        // Not by assignment: `__proto__` is a name like any other.
        Object.defineProperty(value, name, { value: fresh(), writable: true, enumerable: true, configurable: true });
      }
      if (fill && Object.hasOwn(value, name)) fill(value[name]);
    }
    if (further === undefined) return;
    for (const name of Object.keys(value)) if (!Object.hasOwn(properties, name)) further(value[name]);
  };
}

function arrayFiller({ prefixItems = [], items }, of) {
  const [first, rest] = [prefixItems.map(of), of(items)];
  if (rest === undefined && !first.some(Boolean)) return undefined;
  return (value) => value.forEach((item, at) => (at < first.length ? first[at] : rest)?.(item));
}

/** Creates a new copy of the default for each call, which may change it. */
function freshOf(fallback) {
  if (fallback === undefined) return undefined;
  if (!isObject(fallback)) return () => fallback;
  const text = JSON.stringify(fallback);
  return () => JSON.parse(text);
}

const isObject = (value) => typeof value === "object" && value !== null;

/** Resolves references; a missing schema, `true` and `false` have no defaults. */
function resolved(schema, root) {
  if (!isObject(schema)) return undefined;
  const [, name] = /^#\/\$defs\/(.+)$/.exec(schema.$ref) ?? [];
  if (name !== undefined) return root.$defs?.[name];
  return schema.$ref === "#" ? root : schema;
}
