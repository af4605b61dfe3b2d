// Finds the tools of a module by the type of its export `tool`.
import { paragraphs } from "./comments.js";
import { Types } from "./types.js";

const TYPE_OF_ARGUMENTS = [
  "Give the first parameter of `execute` a type",
  "(an interface in TypeScript, `@param` in JavaScript), or state `parameters`",
].join(" ");
const NAME_AS_TEXT = [
  "the name of a tool is not known before it runs. Write it as a text,",
  "within `component({ ... })` or `tool({ ... })`, or state `parameters` and `description`",
].join(" ");
const DESCRIPTION = "Write a comment (`/** ... */`) on its `execute`, or state `description`";

/**
 * The description and the parameters of each tool by its name, unless the tool states them.
 * Calls `refuse` for each part that cannot be described.
 */
export function describedTools(ts, program, source, refuse) {
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(source);
  const tools = statedTools(ts, checker, file);
  if (tools === undefined) {
    refuse(file, "the module exports no `tool` that `component` made. Write: export const tool = component({ ... })");
    return {};
  }
  const derived = tools.map((type) => new Tool(ts, program, type, file, refuse).derived());
  return Object.fromEntries(derived.filter((entry) => entry !== undefined));
}

/** The types of the tools in `component({ tools })`. */
function statedTools(ts, checker, file) {
  const module = checker.getSymbolAtLocation(file);
  const exported = module && checker.getExportsOfModule(module).find((symbol) => symbol.getName() === "tool");
  if (exported === undefined) return undefined;
  const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
  const component = propertyType(checker, checker.getTypeOfSymbol(symbol), "__component");
  const list = component && propertyType(checker, component, "tools");
  if (list === undefined) return undefined;
  const inner = checker.getTypeArguments(list);
  return checker.isTupleType(list) ? inner : inner.flatMap((type) => (type.isUnion() ? type.types : [type]));
}

function propertyType(checker, type, name) {
  const property = checker.getPropertyOfType(type, name);
  return property && checker.getNonNullableType(checker.getTypeOfSymbol(property));
}

class Tool {
  #ts;
  #program;
  #checker;
  #type;
  #file;
  #refuse;

  constructor(ts, program, type, file, refuse) {
    this.#ts = ts;
    this.#program = program;
    this.#checker = program.getTypeChecker();
    this.#type = type;
    this.#file = file;
    this.#refuse = refuse;
  }

  derived() {
    const execute = this.#execute();
    const [stated, described] = [this.#states("parameters"), this.#states("description")];
    if (stated && described) return undefined;
    const name = this.#name();
    if (name === undefined) return undefined;
    if (execute === undefined) {
      return this.#fails(name, `its \`execute\` is no function that is known. ${TYPE_OF_ARGUMENTS}`);
    }
    return [name, {
      ...(!described && { description: this.#description(name, execute) }),
      ...(!stated && { parameters: this.#parameters(name, execute) }),
    }];
  }

  #states(name) {
    const property = this.#checker.getPropertyOfType(this.#type, name);
    if (property === undefined || property.flags & this.#ts.SymbolFlags.Optional) return false;
    return !(this.#checker.getTypeOfSymbol(property).flags & this.#ts.TypeFlags.Undefined);
  }

  #name() {
    const type = propertyType(this.#checker, this.#type, "name");
    if (type?.isStringLiteral()) return type.value;
    this.#refuse(this.#node("name"), NAME_AS_TEXT);
    return undefined;
  }

  #execute() {
    return propertyType(this.#checker, this.#type, "execute")?.getCallSignatures()[0];
  }

  #description(name, { declaration }) {
    const [first] = paragraphs(this.#commentOf(declaration));
    if (first === undefined) this.#fails(name, `it has no description. ${DESCRIPTION}`);
    return first ?? "";
  }

  /** The comment on a function, or on the property or the variable that holds it. */
  #commentOf(declaration) {
    const comments = this.#ts.getJSDocCommentsAndTags(declaration).filter(this.#ts.isJSDoc);
    const texts = comments.map(({ comment }) => this.#ts.getTextOfJSDocComment(comment));
    return texts.find(Boolean) ?? "";
  }

  #parameters(name, { parameters: [first] }) {
    const types = new Types(this.#ts, this.#program, (node, path, message) => {
      const what = path === "" ? "its arguments" : `the argument \`${path}\``;
      this.#fails(name, `${what} ${message}`, node ?? this.#node("execute"));
    });
    return first === undefined ? types.nothing() : types.ofArguments(first, TYPE_OF_ARGUMENTS);
  }

  #fails(name, message, at = "execute") {
    this.#refuse(typeof at === "string" ? this.#node(at) : at, `tool "${name}": ${message}`);
  }

  /** The node of a property of the tool, if known. */
  #node(name) {
    const property = this.#checker.getPropertyOfType(this.#type, name);
    return property?.valueDeclaration ?? this.#type.symbol?.declarations?.[0] ?? this.#file;
  }
}
