/**
 * Memory files that other processes of this user get by a path: a socket there, from which a thread gives a descriptor to
 * everybody who connects. Unlike a file of a folder, a memory file is sealed, so that nobody can end the processes that
 * have mapped it by making it shorter.
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
import { reopenMemoryFile } from "./memory_files.ts";
import { errno, shim, SystemError, unwrap } from "./shim.ts";
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

/** Milliseconds for a process to answer, which only one that is stopped takes. */
const answerTimeout = 1000;

/** Where a memory file is to be had. */
export interface ServedPlace {
  readonly folder: string;
  readonly name: string;
}

/** A memory file that others can get until it is closed. */
export class ServedFile {
  readonly #place: ServedPlace;
  readonly #identity: FileIdentity;
  readonly #listener: number;

  /**
   * @param fd a sealed memory file. The caller keeps it: what others get shares neither its locks nor its flags
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

  /** Removes the socket. Those who have the memory file keep it. */
  close(): void {
    try {
      atPlace(this.#place, (path) => removeOwn(path, this.#identity));
    } catch (error) {
      // The folder is gone, or this process has no descriptor left.
      if (!(error instanceof SystemError)) throw error;
    }
    shim().poolpass_stop_serving(this.#listener);
  }
}

/**
 * Gets the memory file that a process of this user serves, with locks of its own. Returns undefined if there is none: the
 * socket of a process that has ended is removed.
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
    // What was judged is connected to, and its path may be of any length.
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

/** Removes a socket that no process has. Leaves everything else alone. */
export function removeUnserved(place: ServedPlace): void {
  atPlace(place, (path) => {
    const { live, identity } = probe(path);
    if (live === 0) removeStale(path, identity);
  });
}

/** A path of at most 107 bytes. */
function atPlace<R>({ folder, name }: ServedPlace, use: (path: string) => R): R {
  const fd = openDescriptor(folder);
  try {
    return use(`/proc/self/fd/${fd}/${name}`);
  } finally {
    closeDescriptor(fd);
  }
}
