// `node:fs` of a component: the directories that the operator granted. `tollgate build` puts
// this in place of the module; in a tool's own tests it is Node's. Names, options and error codes
// are Node's; functions that are not here do not exist.
import { current } from "../current.js";
import { decode, encode } from "../web/encoding.js";
import preopens from "wasi:filesystem/preopens@0.2.0";

const CHUNK_BYTES = 1 << 20;
const FOLLOW = { symlinkFollow: true };
/** Node's codes and words for errors of WASI. */
const ERRORS = {
  access: ["EACCES", "permission denied"],
  // Files are closed only after their use here, so the one wrong descriptor is a directory that is read.
  "bad-descriptor": ["EISDIR", "illegal operation on a directory"],
  busy: ["EBUSY", "resource busy or locked"],
  "cross-device": ["EXDEV", "cross-device link not permitted"],
  exist: ["EEXIST", "file already exists"],
  "file-too-large": ["EFBIG", "file too large"],
  "illegal-byte-sequence": ["EILSEQ", "illegal byte sequence"],
  "insufficient-memory": ["ENOMEM", "not enough memory"],
  "insufficient-space": ["ENOSPC", "no space left on device"],
  invalid: ["EINVAL", "invalid argument"],
  "is-directory": ["EISDIR", "illegal operation on a directory"],
  loop: ["ELOOP", "too many symbolic links encountered"],
  "name-too-long": ["ENAMETOOLONG", "name too long"],
  "no-entry": ["ENOENT", "no such file or directory"],
  "not-directory": ["ENOTDIR", "not a directory"],
  "not-empty": ["ENOTEMPTY", "directory not empty"],
  "not-permitted": ["EPERM", "operation not permitted"],
  quota: ["EDQUOT", "disk quota exceeded"],
  "read-only": ["EROFS", "read-only file system"],
  unsupported: ["ENOTSUP", "operation not supported"],
};

export function readFileSync(path, options) {
  const bytes = opened("open", path, { read: true }, {}, (file) => {
    const parts = [];
    for (let offset = 0, isEnd = false; !isEnd; ) {
      const [part, end] = file.read(CHUNK_BYTES, offset);
      parts.push(part);
      offset += part.length;
      isEnd = end || part.length === 0;
    }
    return joined(parts);
  });
  return encodingOf(options) ? decode(bytes) : bytes;
}

export function writeFileSync(path, data, options) {
  const flag = options?.flag ?? "w";
  const how = OPENINGS[flag];
  if (how === undefined) throw new TypeError(`the flag "${flag}" is not known: use ${Object.keys(OPENINGS).join(", ")}`);
  const bytes = bytesOf(data);
  opened("open", path, { write: true }, how, (file) => {
    const start = flag[0] === "a" ? Number(file.stat().size) : 0;
    for (let at = 0; at < bytes.length; ) {
      at += Number(file.write(bytes.subarray(at, at + CHUNK_BYTES), start + at));
    }
  });
}

const OPENINGS = {
  w: { create: true, truncate: true },
  wx: { create: true, exclusive: true },
  a: { create: true },
  ax: { create: true, exclusive: true },
};

export const appendFileSync = (path, data) => writeFileSync(path, data, { flag: "a" });

export function copyFileSync(from, to) {
  writeFileSync(to, readFileSync(from));
}

export function readdirSync(path, options) {
  const entries = listed(path, "", options?.recursive ?? false);
  return options?.withFileTypes ? entries : entries.map(({ name, inside }) => inside + name);
}

export class Dirent {
  #type;

  constructor(parentPath, inside, name, type) {
    this.name = name;
    this.parentPath = parentPath;
    this.#type = type;
    Object.defineProperty(this, "inside", { value: inside });
  }

  isFile = () => this.#type === "regular-file";
  isDirectory = () => this.#type === "directory";
  isSymbolicLink = () => this.#type === "symbolic-link";
}

function listed(path, inside, isRecursive) {
  const entries = opened("scandir", path, { read: true }, { directory: true }, (directory) => {
    const stream = directory.readDirectory();
    const found = [];
    for (let entry; (entry = stream.readDirectoryEntry()) !== null; ) {
      found.push(new Dirent(absolute(path), inside, entry.name, entry.type));
    }
    stream[Symbol.dispose]();
    return found;
  });
  if (!isRecursive) return entries;
  return entries.flatMap((entry) => {
    if (!entry.isDirectory()) return [entry];
    return [entry, ...listed(`${absolute(path)}/${entry.name}`, `${inside}${entry.name}/`, true)];
  });
}

export class Stats {
  #type;

  constructor({ type, size, dataModificationTimestamp: modified }) {
    this.#type = type;
    this.size = Number(size);
    this.mtimeMs = modified === null ? 0 : Number(modified.seconds) * 1000 + modified.nanoseconds / 1e6;
    this.mtime = new Date(this.mtimeMs);
  }

  isFile = () => this.#type === "regular-file";
  isDirectory = () => this.#type === "directory";
  isSymbolicLink = () => this.#type === "symbolic-link";
}

export const statSync = (path, options) => look("stat", path, FOLLOW, options);
export const lstatSync = (path, options) => look("lstat", path, {}, options);

function look(syscall, path, flags, options) {
  try {
    return at(syscall, path, (directory, rest) => new Stats(directory.statAt(flags, rest)));
  } catch (error) {
    if (options?.throwIfNoEntry === false && error.code === "ENOENT") return undefined;
    throw error;
  }
}

export function accessSync(path) {
  look("access", path, FOLLOW);
}

export function existsSync(path) {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}

export function mkdirSync(path, options) {
  const make = (path) => at("mkdir", path, (directory, rest) => directory.createDirectoryAt(rest));
  if (!options?.recursive) return make(path);
  let first;
  const { root } = granted("mkdir", path);
  const parts = absolute(path).slice(root.length).split("/").filter(Boolean);
  let below = root;
  for (const part of parts) {
    below = `${below === "/" ? "" : below}/${part}`;
    try {
      make(below);
      first ??= below;
    } catch (error) {
      if (error.code !== "EEXIST" || !statSync(below).isDirectory()) throw error;
    }
  }
  return first;
}

export const unlinkSync = (path) => at("unlink", path, (directory, rest) => directory.unlinkFileAt(rest));
export const rmdirSync = (path) => at("rmdir", path, (directory, rest) => directory.removeDirectoryAt(rest));

export function rmSync(path, options) {
  const found = look("rm", path, {}, { throwIfNoEntry: !options?.force });
  if (found === undefined) return;
  if (!found.isDirectory()) return unlinkSync(path);
  if (!options?.recursive) throw fault("is-directory", "rm", path);
  for (const name of readdirSync(path)) rmSync(`${absolute(path)}/${name}`, options);
  rmdirSync(path);
}

export function renameSync(from, to) {
  const { directory, rest } = granted("rename", to);
  at("rename", from, (source, path) => source.renameAt(path, directory, rest));
}

export const constants = { F_OK: 0 };

/** The promises of `node:fs/promises`: each is done when it is returned. */
const promised = (work) => async (...given) => work(...given);
export const promises = {
  access: promised(accessSync),
  appendFile: promised(appendFileSync),
  copyFile: promised(copyFileSync),
  lstat: promised(lstatSync),
  mkdir: promised(mkdirSync),
  readFile: promised(readFileSync),
  readdir: promised(readdirSync),
  rename: promised(renameSync),
  rm: promised(rmSync),
  rmdir: promised(rmdirSync),
  stat: promised(statSync),
  unlink: promised(unlinkSync),
  writeFile: promised(writeFileSync),
};

/** The content of a file without an encoding. Its text is `toString`, as of a Buffer. */
class Bytes extends Uint8Array {
  toString() {
    return decode(this);
  }
}

function joined(parts) {
  const bytes = new Bytes(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function bytesOf(data) {
  if (typeof data === "string") return encode(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError("the data of a file is a string or a view of bytes");
}

function encodingOf(options) {
  const encoding = typeof options === "string" ? options : options?.encoding;
  if (encoding && !/^utf-?8$/i.test(encoding)) throw new TypeError(`the encoding "${encoding}" is not known: only UTF-8 is`);
  return encoding;
}

/** Opens a file, and closes it after the work. */
function opened(syscall, path, flags, how, work) {
  return at(syscall, path, (directory, rest) => {
    const file = directory.openAt(FOLLOW, rest, how, flags);
    try {
      return work(file);
    } finally {
      file[Symbol.dispose]();
    }
  });
}

/** Does something with a path below a granted directory. */
function at(syscall, path, work) {
  const { directory, rest } = granted(syscall, path);
  try {
    return work(directory, rest);
  } catch (error) {
    throw typeof error?.payload === "string" ? fault(error.payload, syscall, path) : error;
  }
}

let roots;

/** The granted directory that contains a path, and the path from there. */
function granted(syscall, path) {
  if (!current.isCalled) throw new Error("files can be used during a call only, not while the module is loaded");
  roots ??= preopens.getDirectories().toSorted(([, one], [, other]) => other.length - one.length);
  const whole = absolute(path);
  for (const [directory, guest] of roots) {
    const root = absolute(guest);
    const prefix = root === "/" ? "/" : `${root}/`;
    if (whole === root || whole.startsWith(prefix)) {
      return { directory, root, rest: whole.slice(prefix.length) || "." };
    }
  }
  throw withCode("EACCES", `no directory that contains it was granted, ${syscall} '${whole}'`, syscall, path);
}

/** The path from the root, without `.` and `..`. */
function absolute(path) {
  const parts = [];
  for (const part of String(path).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function fault(kind, syscall, path) {
  const [code, words] = ERRORS[kind] ?? ["EIO", kind];
  return withCode(code, `${words}, ${syscall} '${path}'`, syscall, path);
}

const withCode = (code, words, syscall, path) =>
  Object.assign(new Error(`${code}: ${words}`), { code, syscall, path: String(path) });

export default {
  accessSync, appendFileSync, constants, copyFileSync, existsSync, lstatSync, mkdirSync, promises, readFileSync, readdirSync,
  renameSync, rmSync, rmdirSync, statSync, unlinkSync, writeFileSync,
};
