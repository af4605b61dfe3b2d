// Describes the tools of a project by its types, for `tollgate build`:
//
//   node main.js TYPESCRIPT SOURCE OUT READ
//
// TYPESCRIPT is the compiler's module, SOURCE the module with the tools. It writes
// two files: OUT is the JSON of each tool's derived description and parameters, READ
// the JSON list of the source files. Tools that cannot be described are all reported
// on standard error, and the exit code is then 1.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { relative } from "node:path";
import { programOf, sourcesOf } from "./program.js";
import { describedTools } from "./tools.js";

const [compiler, source, out, read] = process.argv.slice(2);
const ts = createRequire(import.meta.url)(compiler);
const program = programOf(ts, source);
const problems = [];
const derived = describedTools(ts, program, source, (node, message) => problems.push({ node, message }));
if (problems.length === 0) {
  writeFileSync(out, JSON.stringify(derived));
  writeFileSync(read, JSON.stringify(sourcesOf(program)));
} else {
  for (const { node, message } of problems) console.error(`${placeOf(node)}: ${message}`);
  explain();
  process.exitCode = 1;
}

function placeOf(node) {
  const file = node.getSourceFile();
  const { line, character } = file.getLineAndCharacterOfPosition(node.getStart());
  return `${relative(process.cwd(), file.fileName)}:${line + 1}:${character + 1}`;
}

/** The compiler's diagnostics for the module, which may explain an unknown type. */
function explain() {
  const file = program.getSourceFile(source);
  const said = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  if (said.length === 0) return;
  const host = {
    getCurrentDirectory: () => process.cwd(),
    getCanonicalFileName: (name) => name,
    getNewLine: () => "\n",
  };
  console.error(`The compiler has this to say:\n${ts.formatDiagnostics(said, host)}`);
}
