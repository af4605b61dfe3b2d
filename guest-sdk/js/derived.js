// The descriptions derived from a project's types, by the name of the tool. `tollgate
// build` replaces this file; without a build it is empty.
export default {};
