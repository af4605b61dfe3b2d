// What the types of a project say of its tools, for `tollgate build`:
//
//   node main.js TYPESCRIPT SOURCE OUT READ
//
// TYPESCRIPT is the compiler's module, SOURCE the module with the tools. OUT becomes the
// JSON of each tool's description and parameters, as far as it does not state them
// itself, and READ the JSON of the list of files that say so. What cannot be described is told on standard error, all of it, and the exit
// code is then 1.
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

/** What the compiler has against the module, which may be why a type is not known. */
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
