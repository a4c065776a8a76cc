/**
 * Memory that processes of one user find by a name.
 *
 * @module
 */
import { dlopen, type NativeFunctions } from "../host.ts";
import { closeDescriptor, describeDescriptor } from "./descriptors.ts";
import { growMemoryFile } from "./memory_files.ts";
import { cString, shim } from "./shim.ts";

const symbols = {
  shm_open: {
    parameters: ["buffer", /* const char *name */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  shm_unlink: { parameters: ["buffer" /* const char *name */], result: "i32" },
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
  const open = functionOf("shm_open");
  if (open === undefined) return undefined;
  const fd = open(pathOf(name), readAndWrite | create, ownAlone);
  if (fd < 0) return undefined;
  const status = describeDescriptor(fd);
  if (status.type === "file" && status.owner === owner && (status.permissions & byOthers) === 0) {
    if (status.byteLength < byteLength) growMemoryFile(fd, byteLength);
    return fd;
  }
  closeDescriptor(fd);
  return undefined;
}

/** Removes the name of memory. Those who have it open keep it. Does nothing if there is none. */
export function removeNamedMemory(name: string): void {
  functionOf("shm_unlink")?.(pathOf(name));
}

function pathOf(name: string): Uint8Array<ArrayBuffer> {
  return cString(`/${name}-${shim().poolpass_geteuid()}`);
}

function functionOf<N extends keyof typeof symbols>(name: N): NativeFunctions<typeof symbols>[N] | undefined {
  for (const library of libraries) {
    try {
      const found = dlopen(library, symbols).symbols[name];
      if (found !== undefined) return found;
    } catch {
      // Only some systems have the older library.
    }
  }
  return undefined;
}
