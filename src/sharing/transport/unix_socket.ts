/**
 * Connections in the Unix domain that carry descriptors beside their bytes.
 *
 * @module
 */
import { closeDescriptor } from "../../../ffi/shim/descriptors.ts";
import {
  connectTo,
  maximumDescriptors,
  peerOf,
  probe,
  type ReceivedMessage,
  receiveFrom,
  sendTo,
} from "../../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { checkDescriptor, ShareableHandle } from "../../memory/shareable_handle.ts";
import { checkOptions, whatIs } from "../../support/validation.ts";
import { throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";
import { type Interest, readable, settled, waitFor, writable } from "./poller.ts";
import { checkSocketPath, checkSocketSupport } from "./socket_path.ts";
import { Mutex } from "../../support/waiting/mutex.ts";

/** Options of `UnixSocket.send`. */
export interface SendOptions extends WaitOptions {
  /** Go with the first byte. They are borrowed: keep them until the promise resolves, dispose of them afterwards. */
  handles?: readonly ShareableHandle[];
}

/** Options of `UnixSocket.receive`. */
export interface ReceiveOptions extends WaitOptions {
  /** How many handles must come with the bytes; 0 unless given. */
  handles?: number;
}

/** What `UnixSocket.receive` gives. */
export interface Received {
  /** As many as were asked for. */
  bytes: Uint8Array<ArrayBuffer>;
  /** They are the caller's to dispose of. */
  handles: ShareableHandle[];
}

/** The process at the other end of a connection, as the kernel knows it: it cannot be forged. */
export interface Peer {
  /** 0 where it cannot be seen from this process's PID namespace. */
  readonly pid: number;
  /** The user that it ran as when it connected or began to listen. */
  readonly uid: number;
  /** The user's group then. */
  readonly gid: number;
}

/** What a connection is made of. */
export interface ConnectionParts {
  readonly fd: number;
  /** Readable when the peer's process has ended; `-errno` where there is none, `-ESRCH` when it has ended. */
  readonly pidfd: number;
  readonly peer: Peer;
}

/** Takes the descriptors out of a connection, for whoever will close them. It then counts as disposed. */
export let takeConnection: (socket: UnixSocket) => ConnectionParts;

/** Bytes: no single receive takes more. */
const maximumReceive = 2 ** 30;
/** Bytes: room is made for so many at once, and for more only as they come. */
const firstRoom = 2 ** 16;
/** Milliseconds between attempts to connect to a listener that has too many waiting connections. */
const connectPause = 5;
/** A peer that is always ready must not keep the event loop from turning: so often it is waited for all the same. */
export const operationsPerTurn = 64;

/**
 * A connection to another process, over which bytes and descriptors go both ways.
 *
 * Sends and receives are queued, each direction for itself, in the order in which they were called. When one fails or is
 * aborted after a part of its bytes went, that direction is out of step, and each later call in it says so. A peer is
 * gone when it closed the connection, and also when its process has ended and nothing that it sent is left to read,
 * whoever else may still hold the connection open.
 *
 * @example
 * ```ts
 * await using socket = await UnixSocket.connect("/run/frames.sock");
 * const { bytes, handles } = await socket.receive(64, { handles: 1, signal: AbortSignal.timeout(1000) });
 * using handle = handles[0];
 * ```
 */
export class UnixSocket implements AsyncDisposable {
  /** Who is at the other end: who connected, or who listened. */
  readonly peer: Peer;
  #fd: number;
  /** Readable when the peer's process has ended; below 0 where the system does not tell. */
  #pidfd: number;
  #peerEnded: boolean;
  #operations = 0;
  readonly #sending = new Mutex();
  readonly #receiving = new Mutex();
  #sendFailure: unknown;
  #receiveFailure: unknown;
  readonly #closing = new AbortController();

  static {
    takeConnection = (socket) => socket.#take();
    printAs(
      this,
      "UnixSocket",
      (socket) => `UnixSocket { ${socket.#peerName()}${socket.#fd < 0 ? ", disposed" : ""} }`,
    );
  }

  private constructor(fd: number) {
    const { pid, uid, gid, pidfd } = peerOf(fd);
    if (pidfd === -errno.EMFILE || pidfd === -errno.ENFILE) throw new SystemError(-pidfd, "pidfd_open");
    this.peer = Object.freeze({ pid, uid, gid });
    this.#fd = fd;
    this.#pidfd = pidfd;
    this.#peerEnded = pidfd === -errno.ESRCH;
  }

  /**
   * Connects to the socket that listens at a path. While the listener has as many waiting connections as it takes, this
   * waits for it, until the signal is aborted.
   *
   * @param path of at most 107 bytes in UTF-8
   * @param options a signal ends the wait
   * @throws {TypeError} for a path that is empty or no string
   * @throws {SharingError} `not-found`, `not-listening`, `not-permitted`, `path-too-long`, `out-of-descriptors`, or
   * `not-supported` where there are no such sockets
   */
  static async connect(path: string, options: WaitOptions = {}): Promise<UnixSocket> {
    checkOptions(options, "UnixSocket.connect");
    const { signal } = options;
    throwIfAborted(signal);
    checkSocketPath("connect to", path);
    for (;;) {
      const fd = connectTo(path);
      if (fd >= 0) return adoptSocket(fd);
      if (fd === -errno.EAGAIN) await pause(connectPause, signal);
      else if (fd !== -errno.EINTR) throw connectError(path, -fd);
    }
  }

  /**
   * Takes over the descriptor of a connected socket, such as one that was inherited: from now on this closes it.
   *
   * @param fd the descriptor's number
   * @throws {TypeError} when it is no connected socket; it stays the caller's
   * @throws {SharingError} `out-of-descriptors`, and it stays the caller's
   */
  static fromFd(fd: number): UnixSocket {
    fd = checkDescriptor(fd);
    checkSocketSupport(`take over descriptor ${fd}`);
    try {
      return new UnixSocket(fd);
    } catch (cause) {
      if (isOutOfDescriptors(cause)) throw outOfDescriptors("watch the peer of a connection", cause);
      throw new TypeError(`Cannot take over descriptor ${fd}: it is no connected socket`, { cause });
    }
  }

  /**
   * Sends all bytes, and with the first of them the handles. The bytes have been taken when this returns: the array may
   * be changed while the promise is pending.
   *
   * @param bytes any number of them
   * @param options the handles; a signal ends the wait
   * @throws {TypeError} for handles without a byte to go with, for what is no handle, and for fabric handles
   * @throws {RangeError} for more than 253 handles
   * @throws {ReferenceError} where the connection was disposed
   * @throws {SharingError} `peer-gone`, or `out-of-descriptors` when too many are on their way
   */
  async send(bytes: Uint8Array, options: SendOptions = {}): Promise<void> {
    this.#check("send to");
    checkOptions(options, "UnixSocket.send");
    const { signal, handles: given = [] } = options;
    checkMessage(bytes, given);
    const handles = [...given];
    throwIfAborted(signal);
    if (bytes.length === 0) return;
    if (this.#sending.tryAcquire()) {
      await this.#sendNow(bytes, handles, signal);
    } else {
      const copy = Uint8Array.from(bytes);
      await this.#sending.acquire([signal, this.#closing.signal]);
      await this.#sendNow(copy, handles, signal);
    }
  }

  /**
   * Receives exactly so many bytes and exactly so many handles. Nothing behind them is read; when it fails, every
   * descriptor that came is closed.
   *
   * @param byteLength at most 1 GiB; memory is taken as bytes come, not as they are asked for
   * @param options how many handles come with them; a signal ends the wait
   * @throws {SharingError} `peer-gone`; `bad-message` when other than so many handles came with the bytes;
   * `out-of-descriptors`
   */
  async receive(byteLength: number, options: ReceiveOptions = {}): Promise<Received> {
    this.#check("receive from");
    checkOptions(options, "UnixSocket.receive");
    const { signal, handles = 0 } = options;
    checkRequest(byteLength, handles);
    throwIfAborted(signal);
    if (byteLength === 0) return { bytes: new Uint8Array(0), handles: [] };
    await this.#receiving.acquire([signal, this.#closing.signal]);
    try {
      return await this.#receiveNow(byteLength, handles, signal);
    } finally {
      this.#receiving.release();
    }
  }

  /** Closes the connection. What waits for it is rejected with a `ReferenceError`. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fd >= 0) {
      const { fd, pidfd } = this.#take();
      closeDescriptor(fd);
      if (pidfd >= 0) closeDescriptor(pidfd);
    }
    await settled();
  }

  #take(): ConnectionParts {
    this.#check("take over the connection to");
    const parts = { fd: this.#fd, pidfd: this.#pidfd, peer: this.peer };
    this.#fd = -1;
    this.#closing.abort(new ReferenceError(`The connection to ${this.#peerName()} was disposed while this waited`));
    return parts;
  }

  async #sendNow(bytes: Uint8Array, handles: readonly ShareableHandle[], signal?: AbortSignal): Promise<void> {
    const action = `send ${bytes.length} bytes to ${this.#peerName()}`;
    let rest = bytes;
    let taken = false;
    let sent = 0;
    try {
      if (this.#sendFailure !== undefined) throw outOfStep(`send to ${this.#peerName()}`, this.#sendFailure);
      while (sent < bytes.length) {
        this.#closing.signal.throwIfAborted();
        if (this.#peerEnded) throw new SharingError("peer-gone", `Cannot ${action}: its process has ended`);
        const result = this.#isTurnOver() ? -errno.EAGAIN : sendTo(this.#fd, rest, sent > 0 ? [] : handles.map(fdOf));
        if (result > 0) {
          sent += result;
          rest = rest.subarray(result);
        } else if (result === -errno.EAGAIN) {
          if (!taken) rest = Uint8Array.from(rest);
          taken = true;
          await this.#ready(writable, signal);
        } else if (result !== -errno.EINTR) {
          throw sendError(action, -result, sent);
        }
      }
    } catch (error) {
      if (sent > 0) this.#sendFailure ??= error;
      throw error;
    } finally {
      this.#sending.release();
    }
  }

  async #receiveNow(byteLength: number, handles: number, signal?: AbortSignal): Promise<Received> {
    const action = `receive ${byteLength} bytes from ${this.#peerName()}`;
    const fds: number[] = [];
    let bytes = new Uint8Array(Math.min(byteLength, firstRoom));
    let count = 0;
    try {
      if (this.#receiveFailure !== undefined) {
        throw outOfStep(`receive from ${this.#peerName()}`, this.#receiveFailure);
      }
      while (count < byteLength) {
        this.#closing.signal.throwIfAborted();
        if (count === bytes.length) bytes = enlarged(bytes, byteLength);
        const received = this.#isTurnOver()
          ? nothingYet
          : receiveFrom(this.#fd, bytes.subarray(count), handles - fds.length);
        if (received.byteLength > 0) count += received.byteLength;
        fds.push(...received.fds);
        if (received.truncated) throw outOfDescriptors(`receive a descriptor from ${this.#peerName()}`);
        if (received.arrived > received.fds.length) {
          throw new SharingError("bad-message", descriptorCount(action, fds.length + received.arrived, handles));
        }
        if (received.byteLength === 0) throw peerGone(action, "closed the connection", count);
        if (received.byteLength === -errno.ECONNRESET) throw peerGone(action, "reset the connection", count);
        if (received.byteLength === -errno.EAGAIN) {
          // It may have sent and then ended: only now, after its end was seen, is nothing more to come.
          if (this.#peerEnded) throw peerGone(action, "ended", count);
          await this.#ready(readable, signal);
        } else if (received.byteLength < 0 && received.byteLength !== -errno.EINTR) {
          throw new SystemError(-received.byteLength, "recvmsg");
        }
      }
      if (fds.length < handles) throw new SharingError("bad-message", descriptorCount(action, fds.length, handles));
    } catch (error) {
      for (const fd of fds) closeDescriptor(fd);
      if (count > 0) this.#receiveFailure ??= error;
      throw error;
    }
    return { bytes, handles: fds.map((fd) => ShareableHandle.fromFd(fd)) };
  }

  async #ready(events: number, signal: AbortSignal | undefined): Promise<void> {
    const interests: Interest[] = [{ fd: this.#fd, events }];
    if (this.#pidfd >= 0 && !this.#peerEnded) interests.push({ fd: this.#pidfd, events: readable });
    const [, ended] = await waitFor(interests, [signal, this.#closing.signal]);
    if (ended) this.#peerEnded = true;
  }

  #isTurnOver(): boolean {
    if (this.#peerEnded) return false;
    this.#operations = (this.#operations + 1) % operationsPerTurn;
    return this.#operations === 0;
  }

  #check(action: string): void {
    if (this.#fd < 0) throw new ReferenceError(`Cannot ${action} ${this.#peerName()}: the connection was disposed`);
  }

  #peerName(): string {
    return `process ${this.peer.pid}`;
  }
}

/** Makes a connection of a descriptor that nobody else will close. */
export function adoptSocket(fd: number): UnixSocket {
  try {
    return UnixSocket.fromFd(fd);
  } catch (error) {
    closeDescriptor(fd);
    throw error;
  }
}

/** What to say when the process may open no more descriptors. */
export function outOfDescriptors(action: string, cause?: unknown): SharingError {
  return new SharingError(
    "out-of-descriptors",
    `Cannot ${action}: this process may open no more descriptors; close some, or raise the limit (ulimit -n)`,
    { cause },
  );
}

/** Whether an error of the system says that no more descriptors may be opened. */
export function isOutOfDescriptors(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.EMFILE || error.errno === errno.ENFILE);
}

/** What is read when the event loop is to turn first. */
const nothingYet: ReceivedMessage = { byteLength: -errno.EAGAIN, arrived: 0, fds: [], truncated: false };

function checkMessage(bytes: Uint8Array, handles: readonly ShareableHandle[]): void {
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`Cannot send ${whatIs(bytes)}: it must be a Uint8Array`);
  if (!Array.isArray(handles)) throw new TypeError(`Cannot send ${whatIs(handles)} as handles: give an array of them`);
  if (handles.length > 0 && bytes.length === 0) {
    throw new TypeError("Cannot send handles without bytes: they go with the first byte; send at least one");
  }
  if (handles.length > maximumDescriptors) {
    throw new RangeError(`Cannot send ${handles.length} handles at once: a message carries ${maximumDescriptors}`);
  }
  for (const handle of handles) fdOf(handle);
}

function checkRequest(byteLength: number, handles: number): void {
  if (!Number.isSafeInteger(byteLength) || byteLength < 0 || byteLength > maximumReceive) {
    throw new RangeError(`Cannot receive ${byteLength} bytes: it takes an integer from 0 to ${maximumReceive}`);
  }
  if (!Number.isSafeInteger(handles) || handles < 0 || handles > maximumDescriptors) {
    throw new RangeError(`Cannot receive ${handles} handles: it takes an integer from 0 to ${maximumDescriptors}`);
  }
  if (handles > 0 && byteLength === 0) {
    throw new TypeError("Cannot receive handles without bytes: they come with a byte; receive at least one");
  }
}

function fdOf(handle: ShareableHandle): number {
  if (!(handle instanceof ShareableHandle)) {
    throw new TypeError(
      `Cannot send ${whatIs(handle, "ShareableHandle")} as a handle: give what exportHandle or fromFd gave`,
    );
  }
  if (handle.type === "fabric") throw new TypeError("Cannot send a fabric handle as a descriptor: send its bytes");
  return handle.fd;
}

function enlarged(bytes: Uint8Array<ArrayBuffer>, limit: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.min(limit, bytes.length * 2));
  larger.set(bytes);
  return larger;
}

function peerGone(action: string, what: string, count: number): SharingError {
  return new SharingError("peer-gone", `Cannot ${action}: it ${what} after ${count} of them`);
}

function descriptorCount(action: string, came: number, handles: number): string {
  return `Cannot ${action}: ${came} descriptors came with them, where ${handles} belong`;
}

function outOfStep(action: string, cause: unknown): SharingError {
  return new SharingError(
    cause instanceof SharingError ? cause.code : "bad-message",
    `Cannot ${action}: an earlier call failed in the middle of a message; close the connection and connect again`,
    { cause },
  );
}

function sendError(action: string, number: number, sent: number): Error {
  switch (number) {
    case errno.EPIPE:
    case errno.ECONNRESET:
      return peerGone(action, "closed the connection", sent);
    case errno.ETOOMANYREFS:
      return outOfDescriptors(`${action} with handles: too many are on their way unread`);
    default:
      return new SystemError(number, "sendmsg");
  }
}

function connectError(path: string, number: number): Error {
  const cause = new SystemError(number, "connect");
  switch (number) {
    case errno.ENOENT:
    case errno.ENOTDIR:
      return new SharingError(
        "not-found",
        `Cannot connect to ${path}: there is no such file; start what listens there first, or correct the path`,
        { cause },
      );
    case errno.ECONNREFUSED:
    case errno.EPROTOTYPE:
      return new SharingError(
        "not-listening",
        probe(path).live === -errno.ENOTSOCK
          ? `Cannot connect to ${path}: it is no socket; correct the path`
          : `Cannot connect to ${path}: nobody listens at this socket; start what does`,
        { cause },
      );
    case errno.EACCES:
    case errno.EPERM:
      return new SharingError(
        "not-permitted",
        `Cannot connect to ${path}: its file or a folder above it is closed to this user; run as its owner`,
        { cause },
      );
    case errno.EMFILE:
    case errno.ENFILE:
      return outOfDescriptors(`connect to ${path}`, cause);
    default:
      return cause;
  }
}

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, milliseconds);
    function onAbort(): void {
      clearTimeout(timer);
      reject(signal!.reason);
    }
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
