// Writing Tollgate tools in JavaScript and TypeScript. A tool's module has to export
// the result of `component` under the name `tool`:
//
//   import { component } from "tollgate";
//
//   export const tool = component({
//     id: "shout",
//     tools: [{ name: "shout", execute: shout }],
//   });
//
//   /**
//    * Says it loudly.
//    * @param {object} args
//    * @param {string} args.text What to say.
//    */
//   function shout({ text }) {
//     return text.toUpperCase();
//   }
//
// Types and their meaning are in index.d.ts.
import { attempt } from "#attempt";
import derived from "#derived";
import { Answer, Refusal } from "./answer.js";
import { Context } from "./context.js";
import { current } from "./current.js";
import { fillerOf } from "./defaults.js";
import { json } from "./json.js";
import { withStack } from "./lines.js";

export * from "./agents.js";
export * from "./answer.js";
export * from "./content.js";
export * from "./schema.js";
export * from "./settings.js";

/** Returns the tool itself; in TypeScript, with its precise type. */
export const tool = (described) => described;

/** Creates the interface that the host calls from a component's description. */
export function component({ id, version = "0.1.0", state = {}, tools }) {
  const byName = new Map(tools.map((tool) => [tool.name, { tool, fill: fillerOf(parametersOf(tool)) }]));
  return {
    describe: () => ({
      id,
      version,
      tools: tools.map(toolDescriptor),
      state: Object.entries(state).map(([name, key]) => stateAccess(id, name, key)),
    }),
    validateArgs(toolName, args) {
      const { tool, fill } = byName.get(toolName);
      return attempt(() => tool.validate?.(argumentsOf(args, fill)), () => undefined, refuse);
    },
    execute(args, call) {
      current.isCalled = true;
      const context = new Context(id, call, state);
      const { tool, fill } = byName.get(call.toolName);
      const output = (returned) => ({
        result: Answer.of(returned).toHost(),
        mutations: context.mutations,
        actions: context.actions,
      });
      return attempt(() => tool.execute(argumentsOf(args, fill), context), output, refuse);
    },
  };
}

/** The parameters that the tool states, or those derived from its types. */
function parametersOf(tool) {
  return tool.parameters ?? derived[tool.name]?.parameters ?? {};
}

/** The arguments with the schema's defaults filled in. */
function argumentsOf(json, fill) {
  const given = JSON.parse(json);
  fill?.(given);
  return given;
}

/**
 * Passes a refusal on to the host, such as a request that was not granted; any other exception is
 * a bug of the tool.
 */
function refuse(error) {
  if (error?.name === "HttpError" && error.code === "denied") throw { tag: "denied", val: error.message };
  if (error instanceof Refusal) throw { tag: error.kind, val: error.message };
  throw { tag: "internal", val: withStack(error) };
}

function toolDescriptor(tool) {
  return {
    id: tool.id ?? tool.name.toLowerCase().replaceAll("_", "-"),
    name: tool.name,
    description: tool.description ?? derived[tool.name]?.description ?? "",
    parameters: json(parametersOf(tool), `the schema of "${tool.name}"`),
    category: tool.category ?? null,
    execution: {
      timeoutMs: tool.timeoutMs ?? null,
      maxRetries: tool.maxRetries ?? null,
      idempotent: tool.idempotent ?? false,
      validates: tool.validate !== undefined,
    },
  };
}

function stateAccess(componentId, name, key) {
  const own = !name.includes(".");
  return {
    key: own ? `${componentId}.${name}` : name,
    read: key.read ?? true,
    write: key.write ?? own,
    defines: own
      ? {
          initial: json(key.initial ?? null, `the initial value of "${name}"`),
          schema: key.schema === undefined ? null : json(key.schema, `the schema of "${name}"`),
          reducer: key.reducer ?? "replace",
          scope: key.scope ?? "run",
          persistent: key.persistent ?? false,
        }
      : null,
  };
}
