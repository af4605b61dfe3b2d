// What the types of a project say of its tools, by the name of the tool. `tollgate
// build` puts it in the place of this file; where nothing is built there is nothing.
export default {};
