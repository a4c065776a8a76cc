/**
 * Memory that processes of one user find by a name.
 *
 * @module
 */
import { dlopen, type NativeFunctions } from "../host.ts";
import { closeDescriptor, describeDescriptor } from "./descriptors.ts";
import { namesIn } from "./folder_files.ts";
import { growMemoryFile } from "./memory_files.ts";
import { cString, shim } from "./shim.ts";
import { SystemError } from "./system_error.ts";

const symbols = {
  shm_open: {
    parameters: ["buffer", /* const char *name */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  shm_unlink: { parameters: ["buffer" /* const char *name */], result: "i32" },
} as const;
/** The function's libraries since and before glibc 2.34. */
const libraries = ["libc.so.6", "librt.so.1"];
/** Where the C libraries of Linux keep the names. */
const folder = "/dev/shm";
const readAndWrite = 2;
const create = 0o100;
const ownAlone = 0o600;
const byOthers = 0o077;

let functions: Partial<NativeFunctions<typeof symbols>> | undefined;

/**
 * Opens memory that only processes of this user can open, and creates it if there is none. It stays when they have all
 * ended. Returns its descriptor, or undefined if there is none: the system lacks it, or another user has taken the name.
 *
 * @param name without a slash; the user's number is appended to it
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

/** The names of this user's memory that begin so. Empty where the system does not list them. */
export function namesOfMemory(prefix: string): string[] {
  const suffix = ofUser();
  try {
    const names = namesIn(folder).filter((name) => name.startsWith(prefix) && name.endsWith(suffix));
    return names.map((name) => name.slice(0, -suffix.length));
  } catch (error) {
    if (error instanceof SystemError) return [];
    throw error;
  }
}

function openOwn(name: string, flags: number): number | undefined {
  const open = functionOf("shm_open");
  if (open === undefined) return undefined;
  const fd = open(pathOf(name), flags, ownAlone);
  if (fd < 0) return undefined;
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
