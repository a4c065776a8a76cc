import fs from "node:fs";
import { release } from "node:os";
import process from "node:process";

/** A file's owner, permissions and kind. */
export interface FileStatus {
  readonly uid: number;
  /** Without the kind. */
  readonly mode: number;
  readonly kind: "folder" | "socket" | "other";
}

/** The properties of the machine that the checks read. Properties that cannot be read are undefined. */
export interface Machine {
  /** The version of the kernel, such as "6.18.1". */
  readonly kernel: string;
  /** The user that this program runs as. */
  readonly uid: number;
  variable(name: string): string | undefined;
  read(path: string): string | undefined;
  link(path: string): string | undefined;
  realPath(path: string): string | undefined;
  /** The names in a folder; none if it cannot be read. */
  list(path: string): readonly string[];
  /** Whether this process may read and write a file. Undefined if there is none. */
  mayUse(path: string): boolean | undefined;
  /** The properties of the file itself, if it is a link. */
  status(path: string): FileStatus | undefined;
  /** The free bytes of the file system that a folder is on. */
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

/** Whether a version, such as that of the kernel, is at least another one. */
export function isAtLeast(version: string, least: string): boolean {
  const [one, other] = [version, least].map((text) => text.split(/[.-]/).map((part) => parseInt(part) || 0));
  const index = other!.findIndex((part, at) => part !== (one![at] ?? 0));
  return index < 0 || (one![index] ?? 0) > other![index]!;
}
