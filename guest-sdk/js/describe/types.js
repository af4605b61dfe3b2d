// Converts types, as the compiler knows them, to JSON Schema (2020-12).
import { fits, keywords, statedDefault, words } from "./comments.js";
import { bracketed, constant, literal } from "./constants.js";
import { inOrder } from "./order.js";
import { LIBRARY_TYPES } from "./program.js";

const BOUNDS = "__bounds"; // of `Bounded` in index.d.ts
const MAX_DEPTH = 32;

/** A type's place: the path of an argument, and the node that the compiler shows. */
class Place {
  constructor(path, node, typeNode, pattern) {
    this.path = path;
    this.node = node;
    /** The type node here, if known. */
    this.typeNode = typeNode;
    /** The destructuring pattern of its values, with their defaults. */
    this.pattern = pattern;
  }
}

export class Types {
  #ts;
  #program;
  #checker;
  #refuse;
  /** Objects that are being described, and those that refer to themselves. */
  #open = new Map();
  #definitions = new Map();
  #root;

  /** Calls `refuse(node, path, message)` for each part that cannot be described. */
  constructor(ts, program, refuse) {
    this.#ts = ts;
    this.#program = program;
    this.#checker = program.getTypeChecker();
    this.#refuse = refuse;
  }

  /** The schema of a tool without arguments. */
  nothing() {
    return { type: "object", properties: {}, required: [], additionalProperties: false };
  }

  /** The schema of the arguments, which are this parameter; `remedy` is for an untyped one. */
  ofArguments(parameter, remedy) {
    const { valueDeclaration: node } = parameter;
    const type = this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(parameter));
    const pattern = node && this.#patternOf(node);
    const place = new Place("", node, this.#typeNodeOf(node), pattern);
    if (type.flags & this.#ts.TypeFlags.Any) return this.#refused(place, `have no type that is known. ${remedy}`);
    if (type.flags & this.#ts.TypeFlags.NonPrimitive) {
      return this.#refused(place, `are an \`object\` of unknown members. ${remedy}`);
    }
    if (this.#isContext(type)) {
      const advice = "which is the second parameter of `execute`. The first one holds the arguments";
      return this.#refused(place, `are the context, ${advice}`);
    }
    const schema = this.#of((this.#root = type), place);
    if (schema.type !== "object") return this.#refused(place, `are no object. ${remedy}`);
    if (this.#definitions.size === 0) return schema;
    return { ...schema, $defs: Object.fromEntries(this.#definitions.values()) };
  }

  #isContext({ symbol }) {
    const files = (symbol?.declarations ?? []).map((node) => node.getSourceFile().fileName);
    return symbol?.getName() === "Context" && files.includes(LIBRARY_TYPES);
  }

  #of(type, place) {
    const { TypeFlags } = this.#ts;
    if (type.flags & TypeFlags.Any) {
      return this.#refused(place, "has no type that is known (`any`). Give it one; `unknown` takes any JSON");
    }
    if (type.flags & TypeFlags.Unknown) return {};
    if (type.isUnion()) return this.#union(type, place);
    if (type.flags & TypeFlags.Null) return { type: "null" };
    const value = literal(this.#ts, this.#checker, type);
    if (value !== undefined) return enumeration([value]);
    if (this.#checker.getPropertyOfType(type, BOUNDS)) return this.#bounded(type, place);
    if (type.flags & TypeFlags.String) return { type: "string" };
    if (type.flags & TypeFlags.Number) return { type: "number" };
    if (type.flags & TypeFlags.NonPrimitive) return { type: "object" };
    if (type.isIntersection()) {
      const plain = type.types.find((kind) => kind.flags & (TypeFlags.StringLike | TypeFlags.NumberLike));
      return plain ? this.#of(plain, place) : this.#object(type, place);
    }
    if (type.flags & TypeFlags.Object) return this.#object(type, place);
    return this.#refused(place, this.#whyNot(type));
  }

  #whyNot(type) {
    const { TypeFlags } = this.#ts;
    const shown = `is of the type ${this.#checker.typeToString(type)}`;
    if (type.flags & TypeFlags.BigIntLike) return `${shown}, which JSON has not. Take an \`Integer\` or a \`string\``;
    if (type.flags & TypeFlags.TemplateLiteral) {
      return `${shown}. Take a \`string\`, and state its form by \`@pattern\``;
    }
    if (type.flags & TypeFlags.TypeParameter) {
      return `${shown}, which is not known before it runs. Take a type without parameters`;
    }
    return `${shown}, which JSON has not. Take a type of JSON and convert it in the function`;
  }

  #union(type, place) {
    const { TypeFlags } = this.#ts;
    const given = type.types.filter((kind) => !(kind.flags & (TypeFlags.Undefined | TypeFlags.Void)));
    if (given.length === 1) return this.#of(given[0], place);
    const members = inOrder(this.#ts, this.#checker, type, given, place.typeNode);
    const values = [];
    const kinds = [];
    for (const member of members) {
      const value = literal(this.#ts, this.#checker, member);
      if (value === undefined) kinds.push(this.#of(member, { ...place, typeNode: undefined }));
      else if (value !== null) values.push(value);
    }
    const both = values.includes(true) && values.includes(false);
    if (both) kinds.unshift({ type: "boolean" });
    const listed = both ? values.filter((value) => typeof value !== "boolean") : values;
    if (listed.length > 0) kinds.unshift(enumeration(listed));
    if (members.some((member) => member.flags & TypeFlags.Null)) kinds.push({ type: "null" });
    return kinds.length === 1 ? kinds[0] : { anyOf: kinds };
  }

  /** `Bounded<T, Keywords>`: a `T` with these keywords. */
  #bounded(type, place) {
    const stated = this.#checker.getTypeOfSymbol(this.#checker.getPropertyOfType(type, BOUNDS));
    const bounds = {};
    for (const keyword of this.#checker.getPropertiesOfType(this.#checker.getNonNullableType(stated))) {
      const value = literal(this.#ts, this.#checker, this.#checker.getTypeOfSymbol(keyword));
      if (value !== undefined) bounds[keyword.getName()] = value;
    }
    const kinds = type.types.filter((kind) => !this.#checker.getPropertyOfType(kind, BOUNDS));
    const inner = kinds.length === 1 ? this.#of(kinds[0], place) : this.#object(type, place);
    if (bounds.type === "integer" && inner.type === "number") return { ...inner, ...bounds };
    return { ...inner, ...this.#fitting(inner, bounds, place) };
  }

  /** The keywords, all of which have to apply to values of this schema. */
  #fitting(schema, found, place) {
    for (const keyword of Object.keys(found)) {
      if (!fits(keyword, schema.type)) {
        this.#refused(place, `has a bound \`${keyword}\`, which says nothing about its type`);
      }
    }
    return found;
  }

  #object(type, place) {
    const name = (type.aliasSymbol ?? type.symbol)?.getName();
    if (this.#checker.isTupleType(type)) return this.#tuple(type, place);
    if (this.#checker.isArrayType(type)) return this.#list(type, place);
    if (type.getCallSignatures().length + type.getConstructSignatures().length > 0) {
      return this.#refused(place, "is a function, which JSON has not. Leave it out of the arguments");
    }
    if (this.#isClass(type)) {
      const advice = "Take a type of JSON, such as `string` or an interface, and convert it in the function";
      return this.#refused(place, `is a \`${name}\`, which JSON has not. ${advice}`);
    }
    const again = this.#definitions.get(type);
    if (again !== undefined) return { $ref: `#/$defs/${again[0]}` };
    if (this.#open.has(type)) {
      this.#open.set(type, true);
      return { $ref: type === this.#root ? "#" : `#/$defs/${name}` };
    }
    if (this.#open.size >= MAX_DEPTH) return this.#refused(place, `nests deeper than ${MAX_DEPTH} objects`);
    this.#open.set(type, false);
    const schema = this.#members(type, place);
    const refersToItself = this.#open.get(type);
    this.#open.delete(type);
    if (!refersToItself || type === this.#root) return schema;
    if ([...this.#definitions.values()].some(([taken]) => taken === name)) {
      this.#refused(place, `refers to a second type of the name \`${name}\`. Give one of them another name`);
    }
    this.#definitions.set(type, [name, schema]);
    return { $ref: `#/$defs/${name}` };
  }

  /** Whether it is an instance of a class: built-in, such as a `Date`, or user-defined. */
  #isClass(type) {
    const { SymbolFlags } = this.#ts;
    if (type.symbol?.flags & SymbolFlags.Class) return true;
    if (!(type.symbol?.flags & SymbolFlags.Interface)) return false;
    return type.symbol.declarations.some((node) => this.#program.isSourceFileDefaultLibrary(node.getSourceFile()));
  }

  #members(type, place) {
    const entries = [];
    const required = [];
    for (const property of this.#checker.getPropertiesOfType(type)) {
      const name = property.getName();
      // JSON has no keys that are symbols.
      if (name === BOUNDS || name.startsWith("__@")) continue;
      const { schema, optional } = this.#property(property, name, place);
      entries.push([name, schema]);
      if (!optional) required.push(name);
    }
    const index = this.#checker.getIndexInfosOfType(type);
    const further = index.map(({ keyType, type: inner, declaration }) => {
      const there = new Place(`${place.path}[]`, declaration ?? place.node, undefined, undefined);
      if (!(keyType.flags & this.#ts.TypeFlags.String)) {
        this.#refused(there, "has names that are no `string`. Take a `Record<string, ...>`");
      }
      return this.#of(inner, there);
    });
    const [additionalProperties = false] = further;
    if (entries.length === 0 && additionalProperties) return { type: "object", additionalProperties };
    return { type: "object", properties: Object.fromEntries(entries), required, additionalProperties };
  }

  #property(property, name, { path, node, pattern }) {
    const declaration = property.valueDeclaration ?? property.declarations?.[0];
    const bound = this.#boundBy(pattern, name);
    const place = new Place(
      path === "" ? name : `${path}.${name}`,
      declaration ?? node,
      this.#typeNodeOf(declaration),
      bound && this.#patternOf(bound),
    );
    const type = this.#checker.getTypeOfSymbol(property);
    const inner = this.#of(type, place);
    const refuse = (message) => this.#refused(place, message);
    const tags = this.#isParameter(declaration) ? {} : keywords(property, refuse);
    const description = words(this.#ts, this.#checker, property);
    const schema = { ...inner, ...(description && { description }), ...this.#fitting(inner, tags, place) };
    const fallback = this.#default(property, declaration, bound, schema, refuse);
    if (fallback !== undefined) schema.default = fallback;
    const { SymbolFlags, TypeFlags } = this.#ts;
    const lacking = type.isUnion() && type.types.some((kind) => kind.flags & TypeFlags.Undefined);
    return { schema, optional: Boolean(property.flags & SymbolFlags.Optional) || lacking || fallback !== undefined };
  }

  /** The default in the code, in a tag, or in JSDoc's brackets. */
  #default(property, declaration, bound, schema, refuse) {
    const stated = [
      bound?.initializer && constant(this.#ts, this.#checker, bound.initializer),
      this.#isParameter(declaration) ? bracketed(this.#ts, declaration) : statedDefault(property, refuse),
    ].filter((value) => value !== undefined);
    if (stated.length === 2 && JSON.stringify(stated[0]) !== JSON.stringify(stated[1])) {
      refuse(`has two defaults, ${JSON.stringify(stated[0])} and ${JSON.stringify(stated[1])}. State one`);
    }
    if (stated.length > 0 && !holds(schema, stated[0])) {
      refuse(`has the default ${JSON.stringify(stated[0])}, which does not fit its type`);
    }
    return stated[0];
  }

  #isParameter(node) {
    return node !== undefined && (this.#ts.isJSDocParameterTag(node) || this.#ts.isJSDocPropertyTag(node));
  }

  #list(type, place) {
    const [inner] = this.#checker.getTypeArguments(type);
    return { type: "array", items: this.#of(inner, this.#item(place, this.#itemNode(place.typeNode))) };
  }

  #tuple(type, place) {
    const { ElementFlags } = this.#ts;
    const { elementFlags, minLength } = type.target;
    const inner = this.#checker.getTypeArguments(type).map((kind) => this.#of(kind, this.#item(place)));
    const rest = elementFlags.findIndex((flags) => flags & ElementFlags.Variable);
    if (rest >= 0 && rest < inner.length - 1) this.#refused(place, "has a rest that is not at its end");
    const prefixItems = rest < 0 ? inner : inner.slice(0, rest);
    return { type: "array", prefixItems, minItems: minLength, items: rest < 0 ? false : inner[rest] };
  }

  #item({ path, node }, typeNode) {
    return new Place(`${path}[]`, node, typeNode, undefined);
  }

  #itemNode(node) {
    if (node === undefined) return undefined;
    if (this.#ts.isParenthesizedTypeNode(node) || this.#ts.isTypeOperatorNode(node)) return this.#itemNode(node.type);
    return this.#ts.isArrayTypeNode(node) ? node.elementType : undefined;
  }

  #typeNodeOf(node) {
    return this.#isParameter(node) ? node.typeExpression?.type : node?.type;
  }

  #patternOf({ name }) {
    return name && this.#ts.isObjectBindingPattern(name) ? name : undefined;
  }

  /** The element of a destructuring pattern that binds this property. */
  #boundBy(pattern, name) {
    const takes = (part) => !part.dotDotDotToken && (part.propertyName ?? part.name).text === name;
    return pattern?.elements.find(takes);
  }

  #refused({ node, path }, message) {
    this.#refuse(node, path, message);
    return {};
  }
}

/** Adds the type if all values have the same. */
function enumeration(values) {
  const kind = (value) => (Number.isInteger(value) ? "integer" : typeof value);
  const [type, ...others] = new Set(values.map(kind));
  return others.length === 0 ? { type, enum: values } : { enum: values };
}

/** Whether a default obviously fits the schema's type. */
function holds({ type, enum: values, minimum, maximum }, value) {
  if (values !== undefined) return values.includes(value);
  if (typeof value === "number" && (value < minimum || value > maximum)) return false;
  if (type === undefined) return true;
  if (type === "integer") return Number.isInteger(value);
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return kind === type;
}
