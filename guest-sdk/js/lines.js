/**
 * An error with its stack. The lines of the bundle are replaced by those of its sources, by the table
 * that `tollgate build` adds to the bundle.
 */
export function withStack(error) {
  if (!error?.stack) return `${error}`;
  const { sources, runs } = globalThis.tollgateLines ?? { runs: [] };
  const stack = error.stack.replace(/\/?\btool\.js:(\d+)(:\d+)?/g, (place, line) => {
    const run = runs.findLast(([start]) => start <= line);
    return run ? `${sources[run[1]]}:${run[2] + (line - run[0])}` : place;
  });
  return `${error}\n${stack}`;
}
