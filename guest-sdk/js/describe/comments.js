// Reads comments on arguments: words for the model, and keywords of JSON Schema as
// tags.

/** The keywords that are tags, and the JSON types that each applies to. */
const NUMBERS = ["number", "integer"];
const KEYWORDS = new Map([
  ["minimum", NUMBERS],
  ["maximum", NUMBERS],
  ["exclusiveMinimum", NUMBERS],
  ["exclusiveMaximum", NUMBERS],
  ["multipleOf", NUMBERS],
  ["minLength", ["string"]],
  ["maxLength", ["string"]],
  ["pattern", ["string"]],
  ["format", ["string"]],
  ["minItems", ["array"]],
  ["maxItems", ["array"]],
  ["uniqueItems", ["array"]],
  ["minProperties", ["object"]],
  ["maxProperties", ["object"]],
]);
const WORDS = ["pattern", "format"];

/** Returns whether a keyword applies to values of this type. */
export const fits = (keyword, type) => KEYWORDS.get(keyword)?.includes(type) ?? false;

/** The paragraphs of a comment, each on one line. */
export function paragraphs(text) {
  return text
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.split(/\s+/).filter(Boolean).join(" "))
    .filter((paragraph) => paragraph !== "");
}

/** The comment of a symbol, for the model. */
export function words(ts, checker, symbol) {
  const text = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  // Customary between a name and its words, in JavaScript.
  return paragraphs(text).join("\n\n").replace(/^- /, "");
}

/** The tags of a symbol that are keywords; calls `refuse` for invalid values. */
export function keywords(symbol, refuse) {
  const found = {};
  for (const { name, text } of symbol.getJsDocTags()) {
    if (!KEYWORDS.has(name)) continue;
    const value = (text ?? []).map((part) => part.text).join("").trim();
    found[name] = WORDS.includes(name) ? value : parsed(value);
    const wanted = WORDS.includes(name) ? "string" : name === "uniqueItems" ? "boolean" : "number";
    if (typeof found[name] !== wanted) refuse(`has a \`@${name}\` that is not a ${wanted}: ${value}`);
    if (value === "") refuse(`has a \`@${name}\` that says nothing`);
  }
  return found;
}

/** The value of `@default`, if any; calls `refuse` for invalid JSON. */
export function statedDefault(symbol, refuse) {
  const tag = symbol.getJsDocTags().find(({ name }) => name === "default" || name === "defaultValue");
  if (tag === undefined) return undefined;
  const text = (tag.text ?? []).map((part) => part.text).join("").trim();
  const value = parsed(text);
  if (value === undefined) refuse(`has a \`@${tag.name}\` that is not JSON: ${text}. Texts stand between quotes`);
  return value;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
