// Values as JSON text for the host.

/** The JSON of a value; a value that JSON cannot represent is an error that names `what`. */
export function json(value, what) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new Error(`${what} cannot be written as JSON: ${error.message}`, { cause: error });
  }
  if (text === undefined) throw new Error(`${what} is ${named(value)}, for which JSON has no word`);
  return text;
}

const named = (value) => (value === undefined ? "undefined" : `a ${typeof value}`);
