// JSON Schema (2020-12) of a tool's parameters, one function for each kind. The
// types of the arguments follow from them (see index.d.ts).

const OPTIONAL = Symbol("optional");

const schema = (type, description, more) => ({ type, ...(description && { description }), ...more });

export const string = (description, more) => schema("string", description, more);
export const integer = (description, more) => schema("integer", description, more);
export const number = (description, more) => schema("number", description, more);
export const boolean = (description, more) => schema("boolean", description, more);
export const array = (items, description, more) => schema("array", description, { items, ...more });

export const oneOf = (values, description) => ({ enum: values, ...(description && { description }) });

/** An optional property; `fallback` is its value in the arguments if omitted. */
export function optional(inner, fallback) {
  const stated = fallback === undefined ? inner : { ...inner, default: fallback };
  return Object.defineProperty({ ...stated }, OPTIONAL, { value: true });
}

export function object(properties, description) {
  const required = Object.keys(properties).filter((name) => !properties[name][OPTIONAL]);
  return schema("object", description, { properties, required, additionalProperties: false });
}
