// The project as the compiler sees it.
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const LIBRARY = resolve(dirname(fileURLToPath(import.meta.url)), "..");
/** The file with the types of this library. */
export const LIBRARY_TYPES = `${LIBRARY}/index.d.ts`;

/** Creates a program of this module and its imports. */
export function programOf(ts, source) {
  const { lib = ["lib.es2023.d.ts"], paths = {}, ...settings } = settingsOf(ts, source);
  const options = {
    ...settings,
    lib,
    // As esbuild bundles it.
    paths: { ...paths, tollgate: [LIBRARY_TYPES], "tollgate/testing": [`${LIBRARY}/testing.d.ts`] },
    module: ts.ModuleKind.Preserve,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    // Without these `null` and `undefined` are part of every type.
    strict: true,
    strictNullChecks: true,
    allowJs: true,
    checkJs: true,
    noEmit: true,
    skipLibCheck: true,
  };
  return ts.createProgram([source], options);
}

/** The source files of a program without those of the compiler. */
export function sourcesOf(program) {
  const own = program.getSourceFiles().filter((file) => !program.isSourceFileDefaultLibrary(file));
  const { configFilePath } = program.getCompilerOptions();
  return [...own.map(({ fileName }) => fileName), configFilePath].filter(Boolean);
}

/** The options in the project's `tsconfig.json`, if there is one. */
function settingsOf(ts, source) {
  const file = ts.findConfigFile(dirname(source), ts.sys.fileExists);
  if (file === undefined) return { types: [], target: ts.ScriptTarget.ES2023 };
  const { config = {} } = ts.readConfigFile(file, ts.sys.readFile);
  // Only its options matter: no directory is searched for sources.
  const alone = { ...config, files: [source], include: [] };
  return ts.parseJsonConfigFileContent(alone, ts.sys, dirname(file), undefined, file).options;
}
