import fs from "node:fs";
import { release } from "node:os";
import process from "node:process";

/** A file's owner, permissions and kind. */
export interface FileStatus {
  readonly uid: number;
  /** The permission bits, without the file type. */
  readonly mode: number;
  readonly kind: "folder" | "socket" | "other";
}

/** The properties of the machine that the checks read. A function returns undefined if it cannot read the value. */
export interface Machine {
  /** The version of the kernel, such as "6.18.1". */
  readonly kernel: string;
  /** The effective user ID of this program. */
  readonly uid: number;
  /** Returns the value of an environment variable. */
  variable(name: string): string | undefined;
  /** Returns the text of a file. */
  read(path: string): string | undefined;
  /** Returns the target of a symbolic link. */
  link(path: string): string | undefined;
  /** Returns a path with all symbolic links resolved. */
  realPath(path: string): string | undefined;
  /** Returns the names in a folder, or an empty array if it cannot be read. */
  list(path: string): readonly string[];
  /** Returns whether this process may read and write a file. Undefined if the file does not exist. */
  mayUse(path: string): boolean | undefined;
  /** Returns the status of a file, without following a symbolic link. */
  status(path: string): FileStatus | undefined;
  /** Returns the number of free bytes in the file system of a folder. */
  freeBytes(path: string): number | undefined;
}

/** The machine that this program runs on. */
export const thisMachine: Machine = {
  kernel: release(),
  uid: process.geteuid?.() ?? 0,
  variable: (name) => process.env[name],
  read: (path) => orUndefined(() => fs.readFileSync(path, "utf8")),
  link: (path) => orUndefined(() => fs.readlinkSync(path)),
  realPath: (path) => orUndefined(() => fs.realpathSync(path)),
  list: (path) => orUndefined(() => fs.readdirSync(path)) ?? [],
  mayUse(path) {
    if (orUndefined(() => fs.lstatSync(path)) === undefined) return undefined;
    return orUndefined(() => fs.accessSync(path, fs.constants.R_OK | fs.constants.W_OK) ?? true) ?? false;
  },
  status(path) {
    const status = orUndefined(() => fs.lstatSync(path));
    if (status === undefined) return undefined;
    const kind = status.isDirectory() ? "folder" : status.isSocket() ? "socket" : "other";
    return { uid: status.uid, mode: status.mode & 0o7777, kind };
  },
  freeBytes: (path) =>
    orUndefined(() => {
      const { bavail, bsize } = fs.statfsSync(path);
      return bavail * bsize;
    }),
};

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Returns whether `version`, such as "6.18.1", is `least` or newer. */
export function isAtLeast(version: string, least: string): boolean {
  const [one, other] = [version, least].map((text) => text.split(/[.-]/).map((part) => parseInt(part) || 0));
  const index = other!.findIndex((part, at) => part !== (one![at] ?? 0));
  return index < 0 || (one![index] ?? 0) > other![index]!;
}
