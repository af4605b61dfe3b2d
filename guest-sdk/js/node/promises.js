// `node:fs/promises` of a component.
import { promises } from "./fs.js";

export const {
  access, appendFile, copyFile, lstat, mkdir, readFile, readdir, rename, rm, rmdir, stat, unlink, writeFile,
} = promises;
export default promises;
