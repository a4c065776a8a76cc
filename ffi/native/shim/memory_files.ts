/**
 * Memory files, mapping them over ranges of the runtime's memory, and memory that processes of one user find by a name.
 *
 * Other processes of this user can also obtain memory files through a path: a socket listens there, and a thread sends
 * a descriptor to every process that connects. Unlike a file in a folder, a memory file is sealed, so that no process
 * can shrink it and thereby end the processes that have mapped it.
 *
 * @module
 */
import {
  closeAside,
  closeDescriptor,
  closeSocket,
  describeDescriptor,
  isReadable,
  judgeDescriptor,
  openDescriptor,
  openPath,
  sealShrink,
} from "./descriptors.ts";
import { cString, errno, shim, SystemError, unwrap } from "./shim.ts";
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import {
  connectTo,
  type FileIdentity,
  listenAt,
  peerOf,
  probe,
  receiveFrom,
  removeOwn,
  removeStale,
} from "./sockets.ts";

/** A range of a file, in bytes. */
export interface FileRange {
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * The offsets of a mapping in memory and in the file, and its length, in bytes. The offsets and the length are
 * multiples of the page size, 4096.
 */
export interface MemoryMapping {
  /** The offset in the memory, in bytes, at which the mapping begins. */
  readonly at: number;
  /** The offset in the file, in bytes, at which the mapped range begins. */
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * Creates a memory file and returns its descriptor. The file can grow and have holes. It is sealed against shrinking,
 * so that no process can take away memory that another one has mapped.
 */
export function createMemoryFile(name: string, byteLength: number): number {
  return unwrap(shim().poolpass_memfd(cString(name), BigInt(byteLength)), "memfd_create");
}

/** Extends a memory file. The new part is zero, and uses no memory until it is accessed. */
export function growMemoryFile(fd: number, byteLength: number): void {
  unwrap(shim().poolpass_grow(fd, BigInt(byteLength)), "ftruncate");
}

/** Releases the memory of a range of a memory file to the system. The range reads as zero afterwards. */
export function punchHole(fd: number, { offset, byteLength }: FileRange): void {
  unwrap(shim().poolpass_punch(fd, BigInt(offset), BigInt(byteLength)), "fallocate");
}

/**
 * Opens a memory file again and returns the new descriptor. Unlike a duplicated or a received descriptor, it shares
 * neither locks nor flags with the original. Fails with `EWOULDBLOCK` instead of waiting for a file lease.
 */
export function reopenMemoryFile(fd: number): number {
  return openDescriptor(`/proc/self/fd/${fd}`, { writable: true });
}

/**
 * Locks a range of a file until it is unlocked, or until the last descriptor that shares this one's open file
 * description is closed. Any number of descriptors can hold a lock on the same range.
 */
export function lockRange(fd: number, range: FileRange): void {
  setLock(fd, range, 1);
}

/** Unlocks a range that was locked through the same open file description. */
export function unlockRange(fd: number, range: FileRange): void {
  setLock(fd, range, 0);
}

/** Returns whether another open file description has locked a part of a range of a file. */
export function isRangeLocked(fd: number, { offset, byteLength }: FileRange): boolean {
  return unwrap(shim().poolpass_is_locked(fd, BigInt(offset), BigInt(byteLength)), "F_OFD_GETLK") === 1;
}

function setLock(fd: number, { offset, byteLength }: FileRange, locked: 0 | 1): void {
  unwrap(shim().poolpass_lock(fd, BigInt(offset), BigInt(byteLength), locked), "F_OFD_SETLK");
}

/**
 * Maps a range of a memory file over a range of `memory`, shared with every other process that maps it.
 *
 * @param memory the memory that `mapping.at` is relative to; its address must be a multiple of the page size
 */
export function mapShared(memory: Uint8Array, fd: number, mapping: MemoryMapping): void {
  checkRange(memory, mapping);
  const { at, byteLength, offset } = mapping;
  unwrap(shim().poolpass_map(memory, BigInt(at), BigInt(byteLength), fd, BigInt(offset)), "mmap");
}

/** Removes a mapping from memory. The range is then zero, and private to this process. */
export function unmapShared(memory: Uint8Array, mapping: Pick<MemoryMapping, "at" | "byteLength">): void {
  checkRange(memory, mapping);
  unwrap(shim().poolpass_unmap(memory, BigInt(mapping.at), BigInt(mapping.byteLength)), "mmap");
}

function checkRange(memory: Uint8Array, { at, byteLength }: Pick<MemoryMapping, "at" | "byteLength">): void {
  // Without this check, mmap would silently replace other mappings beyond the end of the memory.
  if (!(at >= 0 && byteLength > 0 && at + byteLength <= memory.byteLength)) {
    throw new RangeError(`Cannot map ${byteLength} bytes at ${at}: the memory has ${memory.byteLength} bytes`);
  }
}

const symbols = {
  shm_open: {
    parameters: ["buffer", /* const char *name */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  shm_unlink: { parameters: ["buffer" /* const char *name */], result: "i32" },
  __errno_location: { parameters: [], result: "u64" },
} as const;
/** The libraries that may export `shm_open`: libc since glibc 2.34, and librt before. */
const libraries = ["libc.so.6", "librt.so.1"];
/**
 * `O_RDWR | O_NONBLOCK`: without `O_NONBLOCK`, another user who has created a file of the same name could block the
 * open call by holding a lease on that file.
 */
const readAndWrite = 0o4002;
const create = 0o100;
const ownAlone = 0o600;
const byOthers = 0o077;
/**
 * The error numbers that mean that resources of this process or the system are exhausted. Any other error means that
 * the memory is not available to this user.
 */
const lacks = [errno.ENOSPC, errno.EMFILE, errno.ENFILE];

let functions: Partial<NativeFunctions<typeof symbols>> | undefined;

/**
 * Opens memory that only processes of this user can open; creates it if it does not exist. The memory persists after
 * all of them have exited. Returns the descriptor, or undefined if the system has no such memory or another user has
 * taken the name.
 *
 * @param name without a slash; the user ID is appended to it
 * @throws {SystemError} `ENOSPC`, `EMFILE` or `ENFILE` if resources of this process or the system are exhausted
 */
export function openNamedMemory(name: string, byteLength: number): number | undefined {
  const fd = openOwn(name, readAndWrite | create);
  if (fd !== undefined && describeDescriptor(fd).byteLength < byteLength) growMemoryFile(fd, byteLength);
  return fd;
}

/** Like `openNamedMemory`, but does not create the memory. */
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

/**
 * Removes the name of named memory. Processes that have the memory open can still use it. Does nothing if the name does
 * not exist.
 */
export function removeNamedMemory(name: string): void {
  functionOf("shm_unlink")?.(pathOf(name));
}

function pathOf(name: string): Uint8Array<ArrayBuffer> {
  return cString(`/${name}${ofUser()}`);
}

/** Returns the suffix of the names of this user's named memory, which contains the user's ID. */
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
      // The library does not exist on this system.
    }
  }
  return found;
}

/**
 * The maximum time in milliseconds to wait until the serving process answers. Only a stopped process takes that long.
 */
const answerTimeout = 1000;

/** The path at which a memory file is served. */
export interface ServedPlace {
  readonly folder: string;
  readonly name: string;
}

/** A memory file that other processes can obtain until this object is closed. */
export class ServedFile {
  readonly #place: ServedPlace;
  readonly #identity: FileIdentity;
  readonly #listener: number;

  /**
   * @param fd a sealed memory file, which the caller still owns: the descriptors that other processes obtain share
   *   neither its locks nor its flags
   * @throws {SystemError}
   */
  constructor(place: ServedPlace, fd: number) {
    this.#place = place;
    const served = reopenMemoryFile(fd);
    let listener = -1;
    try {
      const listening = atPlace(place, (path) => listenAt(path, { mode: 0o600, passesDescriptors: false }));
      listener = unwrap(listening.fd, `creation of ${place.folder}/${place.name}`);
      this.#identity = listening.identity;
      this.#listener = listener;
      unwrap(shim().poolpass_serve(listener, served), "start of a thread");
    } catch (error) {
      closeDescriptor(served);
      if (listener >= 0) {
        atPlace(place, (path) => removeOwn(path, this.#identity));
        closeSocket(listener);
      }
      throw error;
    }
  }

  /** Removes the socket. Processes that have obtained the memory file can still use it. */
  close(): void {
    try {
      atPlace(this.#place, (path) => removeOwn(path, this.#identity));
    } catch (error) {
      // The folder no longer exists, or this process has no descriptor left.
      if (!(error instanceof SystemError)) throw error;
    }
    shim().poolpass_stop_serving(this.#listener);
  }
}

/**
 * Obtains the memory file that a process of this user serves. Returns a descriptor with an open file description of its
 * own, or undefined if no process serves the file. Removes the socket of a process that has exited.
 *
 * @throws {SystemError} `ETIMEDOUT` if the process does not answer
 */
export function receiveMemoryFile({ folder, name }: ServedPlace): number | undefined {
  let found: number | undefined;
  let socket = -1;
  try {
    found = openPath(`${folder}/${name}`);
    const { type, owner } = describeDescriptor(found);
    if (type !== "socket" || owner !== shim().poolpass_geteuid()) return undefined;
    // Connects to the socket that was checked, through `/proc/self/fd`, because its path may be too long for an
    // address.
    socket = connectTo(`/proc/self/fd/${found}`);
    if (socket === -errno.ECONNREFUSED) removeUnserved({ folder, name });
    if (socket === -errno.ECONNREFUSED) return undefined;
    unwrap(socket, `connect to ${folder}/${name}`);
    return receiveFile(socket);
  } catch (error) {
    if (error instanceof SystemError && error.errno === errno.ENOENT) return undefined;
    throw error;
  } finally {
    if (found !== undefined) closeDescriptor(found);
    if (socket >= 0) closeSocket(socket);
  }
}

function receiveFile(socket: number): number | undefined {
  const { uid, pid, pidfd } = peerOf(socket);
  if (pidfd >= 0) closeDescriptor(pidfd);
  if (uid !== shim().poolpass_geteuid()) return undefined;
  if (!isReadable(socket, { milliseconds: answerTimeout })) {
    throw new SystemError(errno.ETIMEDOUT, `receive from process ${pid}`);
  }
  const [received] = receiveFrom(socket, new Uint8Array(1), 1).fds;
  if (received === undefined) return undefined;
  let fd: number | undefined;
  try {
    fd = judgeDescriptor(received).isMemoryFile ? reopenMemoryFile(received) : undefined;
  } finally {
    closeAside(received);
  }
  if (fd === undefined || (describeDescriptor(fd).seals! & sealShrink) !== 0) return fd;
  closeDescriptor(fd);
  return undefined;
}

/** Removes a socket on which no process listens. Does nothing for any other file. */
export function removeUnserved(place: ServedPlace): void {
  atPlace(place, (path) => {
    const { live, identity } = probe(path);
    if (live === 0) removeStale(path, identity);
  });
}

/** Calls `use` with a path to the socket of at most 107 bytes, the maximum for a socket address. */
function atPlace<R>({ folder, name }: ServedPlace, use: (path: string) => R): R {
  const fd = openDescriptor(folder);
  try {
    return use(`/proc/self/fd/${fd}/${name}`);
  } finally {
    closeDescriptor(fd);
  }
}
