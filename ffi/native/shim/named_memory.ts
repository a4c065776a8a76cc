/**
 * Memory that processes of one user find by a name.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import { closeDescriptor, describeDescriptor } from "./descriptors.ts";
import { growMemoryFile } from "./memory_files.ts";
import { cString, shim } from "./shim.ts";
import { errno, SystemError } from "./system_error.ts";

const symbols = {
  shm_open: {
    parameters: ["buffer", /* const char *name */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  shm_unlink: { parameters: ["buffer" /* const char *name */], result: "i32" },
  __errno_location: { parameters: [], result: "u64" },
} as const;
/** The function's libraries since and before glibc 2.34. */
const libraries = ["libc.so.6", "librt.so.1"];
/** `O_RDWR | O_NONBLOCK`: another user who has taken the name could make an open wait by a lease on his file. */
const readAndWrite = 0o4002;
const create = 0o100;
const ownAlone = 0o600;
const byOthers = 0o077;
/** What this process or the system has no more of. Other errors mean that there is no such memory for this user. */
const lacks = [errno.ENOSPC, errno.EMFILE, errno.ENFILE];

let functions: Partial<NativeFunctions<typeof symbols>> | undefined;

/**
 * Opens memory that only processes of this user can open, and creates it if there is none. It stays when they have all
 * ended. Returns its descriptor, or undefined if there is none: the system lacks it, or another user has taken the name.
 *
 * @param name without a slash; the user's number is appended to it
 * @throws {SystemError} `ENOSPC`, `EMFILE` or `ENFILE`
 */
export function openNamedMemory(name: string, byteLength: number): number | undefined {
  const fd = openOwn(name, readAndWrite | create);
  if (fd !== undefined && describeDescriptor(fd).byteLength < byteLength) growMemoryFile(fd, byteLength);
  return fd;
}

/** As `openNamedMemory`, but creates none. */
export function openExistingMemory(name: string): number | undefined {
  return openOwn(name, readAndWrite);
}

function openOwn(name: string, flags: number): number | undefined {
  const open = functionOf("shm_open");
  if (open === undefined) return undefined;
  const fd = open(pathOf(name), flags, ownAlone);
  if (fd < 0) {
    const [number] = new Int32Array(foreignBuffer(functionOf("__errno_location")!(), Int32Array.BYTES_PER_ELEMENT));
    if (lacks.some((lack) => lack === number)) throw new SystemError(number!, `shm_open of ${name}`);
    return undefined;
  }
  const { type, owner, permissions } = describeDescriptor(fd);
  if (type === "file" && owner === shim().poolpass_geteuid() && (permissions & byOthers) === 0) return fd;
  closeDescriptor(fd);
  return undefined;
}

/** Removes the name of memory. Those who have it open keep it. Does nothing if there is none. */
export function removeNamedMemory(name: string): void {
  functionOf("shm_unlink")?.(pathOf(name));
}

function pathOf(name: string): Uint8Array<ArrayBuffer> {
  return cString(`/${name}${ofUser()}`);
}

/** What is appended to each name. */
function ofUser(): string {
  return `-${shim().poolpass_geteuid()}`;
}

function functionOf<N extends keyof typeof symbols>(name: N): NativeFunctions<typeof symbols>[N] | undefined {
  functions ??= findFunctions();
  return functions[name] as NativeFunctions<typeof symbols>[N] | undefined;
}

function findFunctions(): Partial<NativeFunctions<typeof symbols>> {
  const found: Record<string, unknown> = {};
  for (const library of libraries) {
    try {
      for (const [name, call] of Object.entries(dlopen(library, symbols).symbols)) found[name] ??= call;
    } catch {
      // Only some systems have the older library.
    }
  }
  return found;
}
