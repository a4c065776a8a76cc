/**
 * Connected Unix domain sockets, which carry bytes and descriptors.
 *
 * @module
 */
import { noteConnection, noteHostRead } from "../../sanitizer/notifications.ts";
import {
  canBePool,
  closeAside,
  closeDescriptor,
  closeSocket,
  isClosingStuck,
} from "../../../ffi/native/shim/descriptors.ts";
import {
  connectTo,
  maximumDescriptors,
  peerOf,
  probe,
  type ReceivedMessage,
  receiveFrom,
  sendTo,
} from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { checkDescriptor, ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { checkNumber, checkOptions, type KnownOptions, shown, whatIs } from "../../support/validation.ts";
import { Mutex, throwIfAborted, type WaitOptions, waitOptionsOf } from "../../support/waiting/waiting.ts";
import { delay } from "../../support/waiting/timer.ts";
import { descriptorsReleased, type Interest, readable, waitFor, writable } from "./poller.ts";
import { checkSocketPath, checkSocketSupport } from "./socket_path.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `UnixSocket.send`. */
export interface SendOptions extends WaitOptions {
  /**
   * The handles to send with the first byte. The caller keeps ownership, and must not dispose of them before the
   * promise resolves.
   */
  handles?: readonly ShareableHandle[];
}

/** Options of `UnixSocket.receive`. */
export interface ReceiveOptions extends WaitOptions {
  /** The number of handles that must arrive with the bytes: 0 by default. */
  handles?: number;
}

const connectOptions = waitOptionsOf("connect to a socket");
const sendOptions: KnownOptions<SendOptions> = { action: "send bytes", names: { handles: true, signal: true } };
const receiveOptions: KnownOptions<ReceiveOptions> = {
  action: "receive bytes",
  names: { handles: true, signal: true },
};

/** The result of `UnixSocket.receive`. */
export interface Received {
  /** The received bytes, as many as requested. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The received handles, which the caller must dispose of. */
  handles: ShareableHandle[];
}

/** The process at the other end of a connection, as reported by the kernel, so that a peer cannot forge it. */
export interface Peer {
  /** The process ID; 0 if the process is not visible in this process's PID namespace. */
  readonly pid: number;
  /** The ID of the user that the process ran as when it connected or began to listen. */
  readonly uid: number;
  /** The ID of the group that the process ran as when it connected or began to listen. */
  readonly gid: number;
}

/** The descriptors and the peer of a connection. */
export interface ConnectionParts {
  readonly fd: number;
  /**
   * A pidfd of the peer, which becomes readable when the process exits; `-ESRCH` if the process has already exited, or
   * another negative error number if no pidfd could be opened.
   */
  readonly pidfd: number;
  readonly peer: Peer;
}

/**
 * Transfers the descriptors of a connection to the caller, which must close them. The `UnixSocket` object then counts
 * as disposed of.
 */
export let takeConnection: (socket: UnixSocket) => ConnectionParts;
/** Creates a connection that owns a descriptor, without calling `noteConnection`. */
let adopt: (fd: number) => UnixSocket;
/**
 * Like `UnixSocket.connect`, but does not call `noteConnection`: the caller must call it if CUDA events may be sent
 * over the connection.
 */
export let connectUnnoted: (path: string, options: WaitOptions) => Promise<UnixSocket>;

/** The maximum number of bytes that one call of `receive` may request. */
const maximumReceive = 2 ** 30;
/** The initial size in bytes of the buffer of a `receive` call. The buffer grows only as bytes arrive. */
const initialByteLength = 2 ** 16;
/** Milliseconds between attempts to connect to a listener whose backlog is full. */
const connectPause = 5;
/**
 * The number of operations after which a connection yields to the event loop, so that a peer that is always ready does
 * not block the event loop.
 */
export const operationsPerTurn = 64;

/**
 * A bidirectional connection to another process, for bytes and descriptors.
 *
 * Sends and receives are queued separately and run in the order of the calls. If one fails or is aborted after part of
 * its bytes was transferred, its direction is out of sync, and each later call in that direction throws. A peer counts
 * as gone once it has closed the connection, or once its process has exited and all bytes that it sent have been read,
 * even if another process still holds the connection open.
 *
 * @example
 * ```ts
 * await using socket = await UnixSocket.connect("/run/frames.sock");
 * const { bytes, handles } = await socket.receive(64, { handles: 1, signal: AbortSignal.timeout(1000) });
 * using handle = handles[0];
 * ```
 */
export class UnixSocket implements AsyncDisposable {
  /** The process at the other end: the one that connected, or the one that listens. */
  readonly peer: Peer;
  #fd: number;
  /** A pidfd of the peer, which becomes readable when the process exits; negative if there is none. */
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
    adopt = (fd) => UnixSocket.#adopt(fd);
    connectUnnoted = (path, options) => UnixSocket.#connect(path, options);
    printAs(
      this,
      "UnixSocket",
      (socket) => `UnixSocket { ${socket.#peerName()}${socket.#fd < 0 ? ", disposed" : ""} }`,
      ["peer", ["disposed", (socket) => socket.#fd < 0]],
    );
    refuseUsing(this, "UnixSocket");
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
   * Connects to the socket that listens at a path. If the listener's backlog is full, waits until there is room in the
   * backlog or the signal is aborted.
   *
   * @param path the socket's path, at most 107 bytes in UTF-8
   * @param options a signal that aborts the wait
   * @throws {TypeError} If the path is empty, a URL or not a string
   * @throws {SharingError} `not-found`, `not-listening`, `not-permitted`, `path-too-long`, `out-of-descriptors`, or
   * `not-supported` if the system has no such sockets
   */
  static async connect(path: string, options: WaitOptions = {}): Promise<UnixSocket> {
    const socket = await UnixSocket.#connect(path, options);
    noteConnection(socket.peer.pid);
    return socket;
  }

  static async #connect(path: string, options: WaitOptions): Promise<UnixSocket> {
    checkOptions(options, connectOptions);
    const { signal } = options;
    throwIfAborted(signal);
    checkSocketPath("connect to", path);
    for (;;) {
      const fd = connectTo(path);
      if (fd >= 0) return adoptSocket(fd);
      if (fd === -errno.EAGAIN) {
        await delay(connectPause, signal, `the process that listens at ${path} to accept a connection`);
      } else if (fd !== -errno.EINTR) throw connectError(path, -fd);
    }
  }

  /**
   * Takes ownership of the descriptor of a connected socket, for example an inherited one. Disposing of the returned
   * object closes it.
   *
   * @param fd the descriptor's number
   * @throws {TypeError} If the descriptor is not a connected socket; the caller keeps the descriptor
   * @throws {SharingError} `out-of-descriptors`; the caller keeps the descriptor
   */
  static fromFd(fd: number): UnixSocket {
    const socket = adopt(fd);
    noteConnection(socket.peer.pid);
    return socket;
  }

  static #adopt(fd: number): UnixSocket {
    fd = checkDescriptor(fd);
    checkSocketSupport(`take over descriptor ${fd}`);
    try {
      return new UnixSocket(fd);
    } catch (cause) {
      if (isOutOfDescriptors(cause)) throw outOfDescriptors("watch the peer of a connection", cause);
      throw new TypeError(`Cannot take over descriptor ${fd}: it is not a connected socket`, { cause });
    }
  }

  /**
   * Sends all bytes, and the handles with the first byte. The bytes are copied or sent before this function returns, so
   * the array may be changed while the promise is pending.
   *
   * @param bytes the bytes to send; their number is not limited
   * @param options the handles, and a signal that aborts the wait
   * @throws {TypeError} If there are handles but no bytes, if a handle is not a ShareableHandle, or if it is a fabric
   * handle
   * @throws {RangeError} If there are more than 253 handles
   * @throws {ReferenceError} If the connection was disposed
   * @throws {SharingError} `peer-gone`, or `out-of-descriptors` if too many descriptors are in flight
   */
  async send(bytes: Uint8Array, options: SendOptions = {}): Promise<void> {
    this.#check("send to");
    checkOptions(options, sendOptions);
    const { signal, handles: given = [] } = options;
    checkMessage(bytes, given);
    const handles = [...given];
    throwIfAborted(signal);
    if (bytes.length === 0) return;
    noteHostRead(bytes, "send");
    if (this.#sending.tryAcquire()) {
      await this.#sendNow(bytes, handles, signal);
    } else {
      const copy = Uint8Array.from(bytes);
      await this.#sending.acquire([signal, this.#closing.signal], `earlier sends to ${this.#peerName()}`);
      await this.#sendNow(copy, handles, signal);
    }
  }

  /**
   * Receives exactly the requested numbers of bytes and handles, and reads no further. If this fails, every descriptor
   * that has arrived is closed. They are closed on another thread, because closing a descriptor received from a peer
   * may take a long time.
   *
   * @param byteLength the number of bytes, at most 1 GiB; memory is allocated as bytes arrive, not in advance
   * @param options the number of handles that arrive with the bytes, and a signal that aborts the wait
   * @throws {SharingError} `peer-gone`; `bad-message` if a different number of handles arrived with the bytes;
   * `out-of-descriptors` if no descriptor is left, or if earlier descriptors from peers cannot be closed because a file
   * system or another machine does not respond
   */
  async receive(byteLength: number, options: ReceiveOptions = {}): Promise<Received> {
    this.#check("receive from");
    checkOptions(options, receiveOptions);
    const { signal, handles = 0 } = options;
    checkRequest(byteLength, handles);
    throwIfAborted(signal);
    if (byteLength === 0) return { bytes: new Uint8Array(0), handles: [] };
    await this.#receiving.acquire([signal, this.#closing.signal], `earlier receives from ${this.#peerName()}`);
    try {
      return await this.#receiveNow(byteLength, handles, signal);
    } finally {
      this.#receiving.release();
    }
  }

  /** Closes the connection. Pending calls reject with a `ReferenceError`. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fd >= 0) {
      const { fd, pidfd } = this.#take();
      closeSocket(fd);
      if (pidfd >= 0) closeDescriptor(pidfd);
    }
    await descriptorsReleased();
  }

  #take(): ConnectionParts {
    this.#check("take over the connection to");
    const parts = { fd: this.#fd, pidfd: this.#pidfd, peer: this.peer };
    this.#fd = -1;
    this.#closing.abort(new ReferenceError(`The connection to ${this.#peerName()} was disposed during this call`));
    return parts;
  }

  async #sendNow(bytes: Uint8Array, handles: readonly ShareableHandle[], signal?: AbortSignal): Promise<void> {
    const action = `send ${bytes.length} bytes to ${this.#peerName()}`;
    let rest = bytes;
    let copied = false;
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
          if (!copied) rest = Uint8Array.from(rest);
          copied = true;
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
    let bytes = new Uint8Array(Math.min(byteLength, initialByteLength));
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
        if (received.fds.length > 0) checkClosing(this.peer, received.fds);
        if (received.truncated) throw outOfDescriptors(`receive a descriptor from ${this.#peerName()}`);
        if (received.arrived > received.fds.length) {
          throw new SharingError("bad-message", descriptorCount(action, fds.length + received.arrived, handles));
        }
        if (received.byteLength === 0) throw peerGone(action, "closed the connection", count);
        if (received.byteLength === -errno.ECONNRESET) throw peerGone(action, "reset the connection", count);
        if (received.byteLength === -errno.EAGAIN) {
          // The peer may have sent bytes just before its process exited. Therefore, the peer counts as gone only if the
          // exit was detected before this read, which has returned nothing.
          if (this.#peerEnded) throw peerGone(action, "ended", count);
          await this.#ready(readable, signal);
        } else if (received.byteLength < 0 && received.byteLength !== -errno.EINTR) {
          throw new SystemError(-received.byteLength, "recvmsg");
        }
      }
      if (fds.length < handles) throw new SharingError("bad-message", descriptorCount(action, fds.length, handles));
      return { bytes, handles: fds.map((fd) => ShareableHandle.fromFd(fd)) };
    } catch (error) {
      for (const fd of fds) closeAside(fd);
      if (count > 0) this.#receiveFailure ??= error;
      throw error;
    }
  }

  async #ready(events: number, signal: AbortSignal | undefined): Promise<void> {
    const interests: Interest[] = [{ fd: this.#fd, events }];
    if (this.#pidfd >= 0 && !this.#peerEnded) interests.push({ fd: this.#pidfd, events: readable });
    const awaited = events === readable ? `bytes from ${this.#peerName()}` : `${this.#peerName()} to read`;
    const [, ended] = await waitFor(interests, [signal, this.#closing.signal], { awaited });
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

/**
 * Creates a connection that takes ownership of a descriptor, even if this function throws. Does not call
 * `noteConnection`.
 */
export function adoptSocket(fd: number): UnixSocket {
  try {
    return adopt(fd);
  } catch (error) {
    closeSocket(fd);
    throw error;
  }
}

/**
 * Throws `out-of-descriptors` if closing the given descriptors may take a long time, and the closing of earlier
 * descriptors appears to be stuck. Otherwise, peers could exhaust this process's descriptor limit.
 */
function checkClosing({ pid }: Peer, fds: readonly number[]): void {
  if (!isClosingStuck() || fds.every(canBePool)) return;
  throw new SharingError(
    "out-of-descriptors",
    `Cannot receive a descriptor from process ${pid}: the descriptors that peers sent before cannot be closed, because ` +
      "a file system or another machine does not answer; end that, or restart this process",
  );
}

/** Returns the error for a process that has reached its limit of descriptors. */
export function outOfDescriptors(action: string, cause?: unknown): SharingError {
  return new SharingError(
    "out-of-descriptors",
    `Cannot ${action}: this process cannot open more descriptors; close some, or raise the limit (ulimit -n)`,
    cause === undefined ? undefined : { cause },
  );
}

/** Returns whether an error is a system error because no more descriptors can be opened. */
export function isOutOfDescriptors(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.EMFILE || error.errno === errno.ENFILE);
}

/** The result that is used instead of calling the read function when a read is skipped to yield to the event loop. */
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
  if (typeof byteLength !== "number") {
    throw new TypeError(`Cannot receive ${shown(byteLength)}: give the number of bytes first, as in receive(64)`);
  }
  checkNumber(handles, "the number of handles to receive");
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

function descriptorCount(action: string, arrived: number, handles: number): string {
  const advice = arrived < handles
    ? "the sender must send the handles with these bytes: send(bytes, { handles })"
    : `ask for those that were sent: receive(byteLength, { handles: ${arrived} })`;
  return `Cannot ${action}: ${countOf(arrived, "descriptor")} came with them, expected ${handles}; ${advice}`;
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
      return outOfDescriptors(`${action} with handles: too many sent handles are unread`);
    default:
      return new SystemError(number, "sendmsg");
  }
}

/** Matches strings that may be meant as a TCP address. */
const hostAndPort = /^[^/]+:\d+$/;

function connectError(path: string, number: number): Error {
  const cause = new SystemError(number, "connect");
  switch (number) {
    case errno.ENOENT:
    case errno.ENOTDIR:
      return new SharingError(
        "not-found",
        hostAndPort.test(path)
          ? `Cannot connect to ${path}: there is no such file; give the path of a socket on this machine, such as ` +
            "/tmp/pool.sock, not a host and a port"
          : `Cannot connect to ${path}: there is no such file; start the process that listens there, or correct the path`,
        { cause },
      );
    case errno.ECONNREFUSED:
    case errno.EPROTOTYPE:
      return new SharingError(
        "not-listening",
        probe(path).live === -errno.ENOTSOCK
          ? `Cannot connect to ${path}: it is not a socket; correct the path`
          : `Cannot connect to ${path}: nothing listens at this socket; start the process that does`,
        { cause },
      );
    case errno.EACCES:
    case errno.EPERM:
      return new SharingError(
        "not-permitted",
        `Cannot connect to ${path}: its file or a folder above it is not accessible to this user; run as its owner`,
        { cause },
      );
    case errno.EMFILE:
    case errno.ENFILE:
      return outOfDescriptors(`connect to ${path}`, cause);
    default:
      return cause;
  }
}

/**
 * Returns whether an error of `UnixSocket.connect` indicates that no process listens at the path yet but one may listen
 * later: the file does not exist, or is a stale socket. Returns false if the file is not a socket, because listeners
 * never replace such a file.
 */
export function mayListenLater(path: string, error: unknown): boolean {
  const cause = error instanceof SharingError ? error.cause : undefined;
  if (!(cause instanceof SystemError)) return false;
  if (cause.errno === errno.ENOENT) return true;
  return cause.errno === errno.ECONNREFUSED && probe(path).live !== -errno.ENOTSOCK;
}
