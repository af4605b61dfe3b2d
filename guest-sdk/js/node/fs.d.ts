// The part of `node:fs` and `node:fs/promises` that a component has.

declare module "node:fs" {
  type Text = "utf8" | "utf-8" | "UTF-8";
  type InText = Text | { encoding: Text };

  interface Stats {
    size: number;
    mtime: Date;
    mtimeMs: number;
    isFile(): boolean;
    isDirectory(): boolean;
    isSymbolicLink(): boolean;
  }

  interface Dirent {
    name: string;
    /** The directory that contains it. */
    parentPath: string;
    isFile(): boolean;
    isDirectory(): boolean;
    isSymbolicLink(): boolean;
  }

  function readFileSync(path: string, options: InText): string;
  function readFileSync(path: string, options?: { encoding?: null } | null): Uint8Array;
  function writeFileSync(path: string, data: string | Uint8Array, options?: { flag?: "w" | "wx" | "a" | "ax" }): void;
  function appendFileSync(path: string, data: string | Uint8Array): void;
  function copyFileSync(from: string, to: string): void;
  function readdirSync(path: string, options?: { recursive?: boolean; withFileTypes?: false }): string[];
  function readdirSync(path: string, options: { recursive?: boolean; withFileTypes: true }): Dirent[];
  function statSync(path: string, options?: { throwIfNoEntry?: true }): Stats;
  function statSync(path: string, options: { throwIfNoEntry: false }): Stats | undefined;
  function lstatSync(path: string): Stats;
  function accessSync(path: string): void;
  function existsSync(path: string): boolean;
  function mkdirSync(path: string, options?: { recursive?: boolean }): string | undefined;
  function rmSync(path: string, options?: { recursive?: boolean; force?: boolean }): void;
  function rmdirSync(path: string): void;
  function unlinkSync(path: string): void;
  function renameSync(from: string, to: string): void;
}

declare module "node:fs/promises" {
  import type { Dirent, Stats } from "node:fs";

  type Text = "utf8" | "utf-8" | "UTF-8";

  function readFile(path: string, options: Text | { encoding: Text }): Promise<string>;
  function readFile(path: string, options?: { encoding?: null } | null): Promise<Uint8Array>;
  function writeFile(path: string, data: string | Uint8Array, options?: { flag?: "w" | "wx" | "a" | "ax" }): Promise<void>;
  function appendFile(path: string, data: string | Uint8Array): Promise<void>;
  function copyFile(from: string, to: string): Promise<void>;
  function readdir(path: string, options?: { recursive?: boolean; withFileTypes?: false }): Promise<string[]>;
  function readdir(path: string, options: { recursive?: boolean; withFileTypes: true }): Promise<Dirent[]>;
  function stat(path: string): Promise<Stats>;
  function lstat(path: string): Promise<Stats>;
  function access(path: string): Promise<void>;
  function mkdir(path: string, options?: { recursive?: boolean }): Promise<string | undefined>;
  function rm(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  function rmdir(path: string): Promise<void>;
  function unlink(path: string): Promise<void>;
  function rename(from: string, to: string): Promise<void>;
}
