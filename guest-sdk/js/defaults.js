// Arguments that were left out, and the defaults that the schema states for them.

/** The value with the defaults that its schema states, within objects and lists too. */
export function filled(value, schema, root = schema) {
  const { properties = {}, items, prefixItems = [], additionalProperties } = resolved(schema, root);
  if (Array.isArray(value)) {
    return value.map((item, at) => filled(item, prefixItems[at] ?? items, root));
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, inner]) => [
    name,
    filled(inner, Object.hasOwn(properties, name) ? properties[name] : additionalProperties, root),
  ]);
  for (const [name, property] of Object.entries(properties)) {
    if (property.default === undefined || Object.hasOwn(value, name)) continue;
    // Each call has a value of its own, which it may change.
    entries.push([name, filled(JSON.parse(JSON.stringify(property.default)), property, root)]);
  }
  return Object.fromEntries(entries);
}

/** The schema that is meant: no schema at all says nothing, and neither does `false`. */
function resolved(schema, root) {
  if (typeof schema !== "object" || schema === null) return {};
  const [, name] = /^#\/\$defs\/(.+)$/.exec(schema.$ref) ?? [];
  if (name === undefined) return schema.$ref === "#" ? root : schema;
  return root.$defs?.[name] ?? {};
}
