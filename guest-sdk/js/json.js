// Values as the text that the host reads.

/** The JSON of a value; what JSON has no word for is an error that says what it is of. */
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
