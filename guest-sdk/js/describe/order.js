// The order of the members of a union. The compiler sorts them by their first
// occurrence anywhere, which is of no use to a reader.

/** The members of a union in the order of its type node, or of the union's alias. */
export function inOrder(ts, checker, union, members, node) {
  const from = node ?? aliased(ts, union.aliasSymbol);
  if (from === undefined) return members;
  const seen = written(ts, checker, from);
  const rank = (member) => (seen.includes(member) ? seen.indexOf(member) : seen.length);
  return [...members].sort((a, b) => rank(a) - rank(b));
}

function written(ts, checker, node) {
  if (ts.isUnionTypeNode(node)) return node.types.flatMap((inner) => written(ts, checker, inner));
  if (ts.isParenthesizedTypeNode(node)) return written(ts, checker, node.type);
  const type = checker.getTypeFromTypeNode(node);
  if (!type.isUnion()) return [type];
  const alias = ts.isTypeReferenceNode(node) && !node.typeArguments && aliased(ts, type.aliasSymbol);
  return alias ? written(ts, checker, alias) : type.types;
}

/** The type node of an alias, declared in TypeScript or by `@typedef`. */
function aliased(ts, symbol) {
  const isAlias = (node) => ts.isTypeAliasDeclaration(node) || ts.isJSDocTypedefTag(node);
  const declaration = symbol?.declarations?.find(isAlias);
  if (declaration === undefined) return undefined;
  return ts.isTypeAliasDeclaration(declaration) ? declaration.type : declaration.typeExpression?.type;
}
