// Expressions whose value is known before anything runs: defaults in the code.

/** The value of a constant expression; undefined if JSON cannot represent it. */
export function constant(ts, checker, node) {
  const of = (inner) => constant(ts, checker, inner);
  if (ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) {
    return of(node.expression);
  }
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isNumericLiteral(node)) return Number(node.text);
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.MinusToken) {
    const value = of(node.operand);
    return typeof value === "number" ? -value : undefined;
  }
  if (ts.isArrayLiteralExpression(node)) return whole(node.elements.map(of));
  if (ts.isObjectLiteralExpression(node)) return object(ts, node, of);
  switch (node.kind) {
    case ts.SyntaxKind.TrueKeyword:
      return true;
    case ts.SyntaxKind.FalseKeyword:
      return false;
    case ts.SyntaxKind.NullKeyword:
      return null;
    default:
      return literal(ts, checker, checker?.getTypeAtLocation(node));
  }
}

/** The value of a literal type; undefined for other types. */
export function literal(ts, checker, type) {
  if (type === undefined) return undefined;
  if (type.isStringLiteral() || type.isNumberLiteral()) return type.value;
  if (type.flags & ts.TypeFlags.BooleanLiteral) return checker.typeToString(type) === "true";
  return type.flags & ts.TypeFlags.Null ? null : undefined;
}

function object(ts, node, of) {
  const entries = node.properties.map((property) => {
    const named = ts.isPropertyAssignment(property) && !ts.isComputedPropertyName(property.name);
    return named ? whole([property.name.text, of(property.initializer)]) : undefined;
  });
  return whole(entries) && Object.fromEntries(entries);
}

/** All of the values; undefined if one is missing. */
const whole = (values) => (values.includes(undefined) ? undefined : values);

/** The default in JSDoc's `[name=VALUE]`, if any. */
export function bracketed(ts, node) {
  const rest = node.getSourceFile().text.slice(node.name.end, node.end);
  const [, from] = /^\s*=\s*(.*)/s.exec(rest) ?? [];
  if (!node.isBracketed || from === undefined) return undefined;
  const text = from.slice(0, closing(from));
  const parsed = ts.createSourceFile("default.js", `(${text})`, ts.ScriptTarget.ES2023);
  const [statement] = parsed.statements;
  return statement && ts.isExpressionStatement(statement) ? constant(ts, undefined, statement.expression) : undefined;
}

/** The position of the bracket that closes the one open at the start of the text. */
function closing(text) {
  let open = 1;
  for (const match of text.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[[\]]/g)) {
    if (match[0] === "[") open += 1;
    if (match[0] === "]" && --open === 0) return match.index;
  }
  return text.length;
}
