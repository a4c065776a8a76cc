/**
 * Memory that processes of one user find by a name.
 *
 * @module
 */
import { dlopen } from "../host.ts";
import { closeDescriptor, describeDescriptor } from "./descriptors.ts";
import { growMemoryFile } from "./memory_files.ts";
import { cString, shim } from "./shim.ts";

const symbols = {
  shm_open: {
    parameters: ["buffer", /* const char *name */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
} as const;
/** The function's libraries since and before glibc 2.34. */
const libraries = ["libc.so.6", "librt.so.1"];
const readAndWrite = 2;
const create = 0o100;
const ownAlone = 0o600;
const byOthers = 0o077;

/**
 * Opens memory that only processes of this user can open, and creates it if there is none. It stays when they have all
 * ended. Returns its descriptor, or undefined if there is none: the system lacks it, or another user has taken the name.
 *
 * @param name without a slash; the user's number is appended to it
 */
export function openNamedMemory(name: string, byteLength: number): number | undefined {
  const owner = shim().poolpass_geteuid();
  const path = cString(`/${name}-${owner}`);
  for (const library of libraries) {
    const open = functionOf(library);
    if (open === undefined) continue;
    const fd = open(path, readAndWrite | create, ownAlone);
    if (fd < 0) return undefined;
    const status = describeDescriptor(fd);
    if (status.type === "file" && status.owner === owner && (status.permissions & byOthers) === 0) {
      if (status.byteLength < byteLength) growMemoryFile(fd, byteLength);
      return fd;
    }
    closeDescriptor(fd);
    return undefined;
  }
  return undefined;
}

function functionOf(library: string): ((path: Uint8Array, flags: number, mode: number) => number) | undefined {
  try {
    return dlopen(library, symbols).symbols.shm_open;
  } catch {
    return undefined;
  }
}
