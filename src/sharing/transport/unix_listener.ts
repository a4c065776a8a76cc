/**
 * Listening Unix domain sockets.
 *
 * @module
 */
import {
  closeDescriptor,
  closeSocket,
  describeDescriptor,
  descriptorLimit,
  lowestFreeDescriptor,
  openPath,
} from "../../../ffi/native/shim/descriptors.ts";
import {
  acceptFrom,
  connectTo,
  type FileIdentity,
  listenAt,
  peerOf,
  probe,
  removeOwn,
  removeStale,
} from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { noteConnection } from "../../sanitizer/notifications.ts";
import { printAs, refuseUsing } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { checkOptions, type KnownOptions, shown } from "../../support/validation.ts";
import { Mutex, throwIfAborted, type WaitOptions, waitOptionsOf } from "../../support/waiting/waiting.ts";
import { descriptorsReleased, readable, waitFor } from "./poller.ts";
import { checkSocketPath, folderOf } from "./socket_path.ts";
import { adoptSocket, outOfDescriptors, type Peer, type UnixSocket } from "./unix_socket.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `UnixListener.listen`. */
export interface ListenOptions {
  /** The permissions of the socket's file, regardless of the umask: 0o600 by default. */
  mode?: number;
}

const listenOptions: KnownOptions<ListenOptions> = { action: "listen at a path", names: { mode: true } };
const acceptOptions = waitOptionsOf("accept a connection");

/**
 * Like `UnixListener.listen`, but for connections on which peers must not send descriptors. Since Linux 6.16, the
 * kernel enforces this. Does not call `noteConnection`: the caller must call it for each connection that may pass
 * events.
 */
export let listenWithoutDescriptors: (path: string, options: ListenOptions) => UnixListener;

/**
 * The identities of the socket files of this thread's listeners, so that error messages can distinguish them from the
 * files of other processes.
 */
const ownSockets = new Set<string>();

/**
 * The maximum number of attempts to replace a stale socket file, which another process may replace at the same time.
 */
const maximumAttempts = 8;

/**
 * A socket that listens at a path.
 *
 * @example
 * ```ts
 * await using listener = UnixListener.listen("/run/frames.sock");
 * await using socket = await listener.accept();
 * console.log(socket.peer.pid);
 * ```
 */
export class UnixListener implements AsyncDisposable {
  /** The path that was passed to `listen`. */
  readonly path: string;
  #fd: number;
  readonly #identity: FileIdentity;
  readonly #accepting = new Mutex();
  readonly #notesConnections: boolean;
  readonly #closing = new AbortController();

  static {
    listenWithoutDescriptors = (path, options) => UnixListener.#listen(path, options, false);
    printAs(
      this,
      "UnixListener",
      (listener) => `UnixListener { ${listener.path}${listener.#fd < 0 ? ", disposed" : ""} }`,
      ["path", ["disposed", (listener) => listener.#fd < 0]],
    );
    refuseUsing(this, "UnixListener");
  }

  private constructor(path: string, fd: number, identity: FileIdentity, notesConnections: boolean) {
    this.path = path;
    this.#notesConnections = notesConnections;
    this.#fd = fd;
    this.#identity = identity;
    ownSockets.add(identity.join());
  }

  /**
   * Listens at a path. Replaces a stale socket file, left behind by a process that no longer listens. If a process
   * listens there or the file is not a socket, throws and leaves the file unchanged.
   *
   * @param path the socket's path, at most 107 bytes in UTF-8
   * @param options the permissions of the socket's file
   * @throws {TypeError} If the path is empty, a URL or not a string, or if the mode is not a number
   * @throws {RangeError} If the mode is out of range
   * @throws {SharingError} `address-in-use`, `not-found` if the folder does not exist, `not-permitted`,
   * `path-too-long`, `out-of-descriptors`, or `not-supported` if the system has no such sockets
   */
  static listen(path: string, options: ListenOptions = {}): UnixListener {
    checkOptions(options, listenOptions);
    return UnixListener.#listen(path, options, true);
  }

  static #listen(path: string, { mode = 0o600 }: ListenOptions, passesDescriptors: boolean): UnixListener {
    if (typeof mode !== "number") {
      throw new TypeError(`Cannot use ${shown(mode)} as a socket's mode: it must be a number, such as 0o600`);
    }
    if (!Number.isInteger(mode) || mode < 0 || mode > 0o777) {
      throw new RangeError(`Cannot listen with mode ${mode}: it takes an integer from 0 to 0o777, such as 0o600`);
    }
    checkSocketPath("listen at", path);
    for (let attempt = 0; attempt < maximumAttempts; attempt++) {
      const { fd, identity } = listenAt(path, { mode, passesDescriptors });
      if (fd >= 0) return new UnixListener(path, fd, identity, passesDescriptors);
      if (fd !== -errno.EADDRINUSE) throw listenError(path, -fd);
      removeLeftOver(path);
    }
    throw new SharingError("address-in-use", `Cannot listen at ${path}: other processes keep taking it`);
  }

  #noted(socket: UnixSocket): UnixSocket {
    if (this.#notesConnections) noteConnection(socket.peer.pid);
    return socket;
  }

  /**
   * Waits for the next connection, and accepts it. Concurrent calls are served in order.
   *
   * @param options a signal that aborts the wait
   * @throws {ReferenceError} If the listener was disposed
   * @throws {SharingError} `out-of-descriptors`; if no descriptor was left for the new connection, it stays in the
   * backlog
   */
  async accept(options: WaitOptions = {}): Promise<UnixSocket> {
    if (this.#fd < 0) throw new ReferenceError(`Cannot accept at ${this.path}: the listener was disposed`);
    checkOptions(options, acceptOptions);
    const { signal } = options;
    throwIfAborted(signal);
    const signals = [signal, this.#closing.signal];
    const awaited = `a connection at ${this.path}`;
    await this.#accepting.acquire(signals, awaited);
    try {
      for (;;) {
        this.#closing.signal.throwIfAborted();
        const fd = acceptFrom(this.#fd);
        if (fd >= 0) return this.#noted(adoptSocket(fd));
        if (fd === -errno.EAGAIN) await waitFor([{ fd: this.#fd, events: readable }], signals, { awaited });
        else if (fd !== -errno.EINTR && fd !== -errno.ECONNABORTED) throw acceptError(this.path, -fd);
      }
    } finally {
      this.#accepting.release();
    }
  }

  /** Stops listening. Removes the socket's file, unless another file has replaced it. Rejects pending calls. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fd >= 0) {
      const fd = this.#fd;
      this.#fd = -1;
      this.#closing.abort(new ReferenceError(`The listener at ${this.path} was disposed during this call`));
      // Remove the file before closing the socket: while the socket is open, its inode number cannot be reused for
      // another file.
      removeOwn(this.path, this.#identity);
      ownSockets.delete(this.#identity.join());
      closeSocket(fd);
    }
    await descriptorsReleased();
  }
}

/**
 * Returns the part of an error message that describes the process or file at a path: `"process 15 of user 1000
 * listens"`, or `"a file of user 1000 is"` if connecting fails. Undefined if the path does not exist.
 */
export function takerOf(path: string): string | undefined {
  const fd = connectTo(path);
  if (fd >= 0) {
    try {
      const { pid, uid, pidfd } = peerOf(fd);
      if (pidfd >= 0) closeDescriptor(pidfd);
      return `process ${pid} of user ${uid} listens`;
    } finally {
      closeSocket(fd);
    }
  }
  try {
    const file = openPath(path);
    try {
      return `a file of user ${describeDescriptor(file).owner} is`;
    } finally {
      closeDescriptor(file);
    }
  } catch {
    return undefined;
  }
}

function removeLeftOver(path: string): void {
  const { live, identity } = probe(path);
  switch (live) {
    case -errno.ENOENT:
      return;
    case 0: {
      const removed = removeStale(path, identity);
      if (removed >= 0 || removed === -errno.ENOENT) return;
      throw listenError(path, -removed);
    }
    case 1:
      throw new SharingError(
        "address-in-use",
        ownSockets.has(identity.join())
          ? `Cannot listen at ${path}: this process listens there already; dispose of that listener, or use another path`
          : `Cannot listen at ${path}: another process listens there; stop it, or use another path`,
      );
    case -errno.ENOTSOCK:
      throw new SharingError(
        "address-in-use",
        `Cannot listen at ${path}: the file there is not a socket and was left alone; use another path`,
      );
    case -errno.EACCES:
      throw new SharingError(
        "address-in-use",
        `Cannot listen at ${path}: a socket of another user is there, and may be in use; use another path`,
      );
    default:
      throw listenError(path, -live);
  }
}

function listenError(path: string, number: number): Error {
  const cause = new SystemError(number, "listen");
  const folder = folderOf(path);
  switch (number) {
    case errno.ENOENT:
      return new SharingError("not-found", `Cannot listen at ${path}: there is no folder ${folder}; make it first`, {
        cause,
      });
    case errno.ENOTDIR:
      return new SharingError("not-found", `Cannot listen at ${path}: ${folder} is not a folder; correct the path`, {
        cause,
      });
    case errno.EACCES:
    case errno.EPERM:
    case errno.EROFS:
      return new SharingError(
        "not-permitted",
        `Cannot listen at ${path}: this user may not make or replace a socket in ${folder}; use another folder`,
        { cause },
      );
    case errno.EMFILE:
    case errno.ENFILE:
      return outOfDescriptors(`listen at ${path}`, cause);
    default:
      return cause;
  }
}

function acceptError(path: string, number: number): Error {
  const cause = new SystemError(number, "accept");
  return number === errno.EMFILE || number === errno.ENFILE
    ? outOfDescriptors(`accept a connection at ${path}`, cause)
    : cause;
}

/** The fraction of the descriptor limit that is reserved for uses other than connections. */
const reservedPart = 1 / 16;
/** The minimum and the maximum of the number of reserved descriptors. */
const [leastReserved, mostReserved] = [8, 64];
/** The number of connections that a process or user may have even if few descriptors are left. */
const fewConnections = 8;

/**
 * Reserves descriptors for uses other than connections. If no descriptor were left, the runtime might panic, memory
 * could be neither exported nor sent, and files needed to diagnose errors could not be opened. The same number is
 * reserved for connections of processes and users that have few connections.
 *
 * The kernel assigns the lowest free number to a new descriptor. If that number is N less than the limit, at most N
 * more descriptors can be opened.
 */
export class DescriptorReserve {
  readonly #limit = descriptorLimit();
  readonly #reserved = Math.max(leastReserved, Math.min(Math.floor(this.#limit * reservedPart), mostReserved));

  /**
   * Returns a description of the limit that a new connection exceeds; undefined if the connection may be kept. The
   * connection's descriptors must already be open.
   *
   * @param others returns the peers of all other connections
   */
  exceeded(
    { pid, uid }: Peer,
    { users, others }: { users: number; others: () => readonly Peer[] },
  ): { readonly limit: string; readonly isForAll: boolean } | undefined {
    const [lowest, few] = [lowestFreeDescriptor(), 2 * this.#reserved];
    if (lowest < this.#limit - few) return undefined;
    const exceeds = (what: string, left: number, isForAll = false) => {
      const why = `${left} descriptors of ${this.#limit} are left; raise the limit of that process (ulimit -n)`;
      return { limit: `${what} ${why}`, isForAll };
    };
    if (lowest >= this.#limit - this.#reserved) return exceeds("reached when", this.#reserved, true);
    const all = others();
    const ofUser = all.filter((peer) => peer.uid === uid);
    if (ofUser.filter((peer) => peer.pid === pid).length >= fewConnections) {
      return exceeds(`${fewConnections} connections of a process while at most`, few);
    }
    if (ofUser.length <= Math.max(fewConnections, all.length / users)) return undefined;
    return exceeds("an equal share for each user while at most", few);
  }
}
