// Writes Tollgate tools in JavaScript and TypeScript. The one export that a tool's
// module needs is what `component` returns, under the name `tool`:
//
//   import { component, object, string } from "tollgate";
//
//   export const tool = component({
//     id: "shout",
//     tools: [{
//       name: "shout",
//       description: "Says it loudly.",
//       parameters: object({ text: string("What to say.") }),
//       execute: ({ text }) => text.toUpperCase(),
//     }],
//   });
//
// Types and their meaning are in index.d.ts.
import { Context } from "./context.js";
import { Answer, Refusal } from "./answer.js";

export * from "./answer.js";
export * from "./schema.js";

/** The tool itself: in TypeScript, the type of its arguments follows from its schema. */
export const tool = (described) => described;

/** Makes the interface that the host calls from what a component says about itself. */
export function component({ id, version = "0.1.0", state = {}, tools }) {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    describe: () => ({
      id,
      version,
      tools: tools.map(toolDescriptor),
      state: Object.entries(state).map(([name, key]) => stateAccess(id, name, key)),
    }),
    validateArgs(toolName, args) {
      const tool = byName.get(toolName);
      refusing(() => tool.validate?.(argumentsOf(tool, args)));
    },
    execute(args, call) {
      const context = new Context(id, call);
      const tool = byName.get(call.toolName);
      const returned = refusing(() => tool.execute(argumentsOf(tool, args), context));
      return {
        result: Answer.of(returned).toHost(),
        mutations: context.mutations,
        actions: context.actions,
      };
    },
  };
}

/** The arguments, with the defaults that the schema states. */
function argumentsOf({ parameters }, json) {
  const given = JSON.parse(json);
  for (const [name, { default: fallback }] of Object.entries(parameters?.properties ?? {})) {
    if (fallback !== undefined && !(name in given)) given[name] = fallback;
  }
  return given;
}

/** What is thrown on purpose reaches the host as such; the rest is the tool's own fault. */
function refusing(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) throw { tag: error.kind, val: error.message };
    throw { tag: "internal", val: `${error?.stack ? `${error}\n${error.stack}` : error}` };
  }
}

function toolDescriptor(tool) {
  return {
    id: tool.id ?? tool.name.toLowerCase().replaceAll("_", "-"),
    name: tool.name,
    description: tool.description,
    parameters: JSON.stringify(tool.parameters ?? {}),
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
          initial: JSON.stringify(key.initial),
          schema: key.schema === undefined ? null : JSON.stringify(key.schema),
          reducer: key.reducer ?? "replace",
          scope: key.scope ?? "run",
          persistent: key.persistent ?? false,
        }
      : null,
  };
}
