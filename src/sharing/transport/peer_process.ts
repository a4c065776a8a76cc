/**
 * The process at the other end of a connection, which may outlive the connection.
 *
 * @module
 */
import { closeDescriptor, isReadable } from "../../../ffi/native/shim/descriptors.ts";
import {
  hasOpenFiles,
  inodeOfPidfd,
  isInOwnPidNamespace,
  ownProcessInode,
} from "../../../ffi/native/shim/processes.ts";
import { errno, errnoName, shim, SystemError } from "../../../ffi/native/shim/shim.ts";
import { printAs } from "../../support/printing.ts";
import { runEach, SharingError } from "../../support/errors.ts";
import { isCrowded, readable, type Watch, watch } from "./poller.ts";
import type { Peer } from "./unix_socket.ts";

/** Milliseconds between two checks of whether the processes in `polled` have exited. */
const pollInterval = 50;

/**
 * The processes whose exit is detected by periodic polling rather than by watching their pidfds. The value of an entry
 * states whether the process keeps this process alive. Contains all processes that do not keep this process alive and,
 * if there are too many connections to watch, other processes as well. Polling suffices, because a process that exits
 * normally also closes its connections, which are always watched.
 */
const polled = new Map<PeerProcess, boolean>();
let timer: ReturnType<typeof setInterval> | undefined;
/** Checks whether a process has exited, and if so, calls its callbacks. */
let poll: (process: PeerProcess) => void;

/**
 * A process, identified by a pidfd. A process ID may be reused, and is 0 if the process is in another PID namespace,
 * whereas a pidfd always refers to the same process, and its inode is the same in every namespace.
 */
export class PeerProcess implements Disposable {
  /** The credentials of the process when it connected or began to listen. */
  readonly peer: Peer;
  /** The pidfd; negative if the process had already exited or this object was disposed of. */
  #pidfd: number;
  /** The inode of the pidfd; undefined before the first query, and null if the kernel provides no unique inode. */
  #inode: bigint | null | undefined;
  #isInOwnPidNamespace: boolean | undefined;
  #hasEnded: boolean;
  #keepsAlive = true;
  #watch: Watch | undefined;
  /** The callbacks of `whenEnded`, each wrapped in an object because the same function may be registered twice. */
  readonly #waiting = new Set<{ readonly callback: () => void }>();

  static {
    poll = (process) => process.#poll();
    printAs(
      this,
      "PeerProcess",
      (process) => `PeerProcess { process ${process.peer.pid}${process.#hasEnded ? ", ended" : ""} }`,
      ["peer", ["ended", (process) => process.#hasEnded]],
    );
  }

  /**
   * Takes ownership of a pidfd, unless the constructor throws.
   *
   * @param pidfd the pidfd; `-ESRCH` if the process has exited, or another negative error number if no pidfd could be
   * opened
   * @throws {SharingError} `not-supported` if the system provides no pidfd
   */
  constructor(peer: Peer, pidfd: number) {
    if (pidfd < 0 && pidfd !== -errno.ESRCH) {
      throw new SharingError(
        "not-supported",
        `Cannot watch process ${peer.pid}: the system gives no descriptor of it (${
          errnoName(-pidfd)
        }); it takes Linux ` +
          "5.3 or newer, and permission to call pidfd_open",
      );
    }
    this.peer = peer;
    this.#pidfd = pidfd;
    this.#hasEnded = pidfd < 0;
  }

  /** Whether the peer is this process itself. CUDA cannot open an event in the process that created the event. */
  get isOwn(): boolean {
    const [inode, own] = [this.#findInode(), ownProcessInode()];
    return inode === undefined || own === undefined ? this.peer.pid === shim().poolpass_getpid() : inode === own;
  }

  /**
   * Whether the peer is known to run in this process's PID namespace. In other namespaces, a process ID in a handle may
   * refer to a different process.
   */
  get isInOwnPidNamespace(): boolean {
    return this.#isInOwnPidNamespace ??= isKnown(() => isInOwnPidNamespace(this.peer.pid));
  }

  /** Whether the peer runs in this process's PID namespace and is known not to have begun to exit. */
  get isKnownToRun(): boolean {
    return this.isInOwnPidNamespace && isKnown(() => hasOpenFiles(this.peer.pid)) && !this.hasEnded;
  }

  /**
   * Returns whether this object and `other` are known to represent the same process. Neither object may have been
   * disposed of.
   */
  isSameAs(other: PeerProcess): boolean {
    const [inode, otherInode] = [this.#findInode(), other.#findInode()];
    if (inode !== undefined && otherInode !== undefined) return inode === otherInode;
    // The process IDs cannot have been reused while neither process has exited.
    return this.peer.pid !== 0 && this.peer.pid === other.peer.pid && !this.hasEnded && !other.hasEnded;
  }

  /** Whether the process has exited. Once this object is disposed of, returns the last known value. */
  get hasEnded(): boolean {
    if (!this.#hasEnded && this.#pidfd >= 0) this.#poll();
    return this.#hasEnded;
  }

  /**
   * Calls `callback` when the process has exited, but never before this function returns.
   *
   * @returns a function that cancels the callback
   */
  whenEnded(callback: () => void): () => void {
    const waiting = { callback };
    this.#waiting.add(waiting);
    if (this.#hasEnded) this.#notify();
    else this.#updateWatch();
    return () => {
      if (this.#waiting.delete(waiting)) this.#updateWatch();
    };
  }

  /** Sets whether pending callbacks of `whenEnded` keep this process alive. They do by default. */
  keepAlive(keepsAlive: boolean): void {
    this.#keepsAlive = keepsAlive;
    this.#updateWatch();
  }

  /** Cancels all callbacks and closes the pidfd. */
  [Symbol.dispose](): void {
    const pidfd = this.#pidfd;
    this.#waiting.clear();
    runEach(
      () => this.#updateWatch(),
      () => pidfd >= 0 && closeDescriptor(pidfd),
    );
    this.#pidfd = -1;
  }

  #findInode(): bigint | undefined {
    if (this.#inode === undefined && this.#pidfd >= 0) this.#inode = inodeOfPidfd(this.#pidfd) ?? null;
    return this.#inode ?? undefined;
  }

  /** Starts or stops watching or polling the process, depending on whether a callback is pending. */
  #updateWatch(): void {
    const isWatched = this.#waiting.size > 0 && this.#pidfd >= 0 && !this.#hasEnded;
    const hasWatch = isWatched && this.#keepsAlive && (this.#watch !== undefined || !isCrowded());
    if (hasWatch) {
      this.#watch ??= watch({ fd: this.#pidfd, events: readable }, {
        onReady: () => this.#onEnded(),
        onFailure: () => {
          this.#watch = undefined;
          startPolling(this, this.#keepsAlive);
        },
      });
    } else {
      this.#watch?.cancel();
      this.#watch = undefined;
    }
    if (isWatched && !hasWatch) startPolling(this, this.#keepsAlive);
    else stopPolling(this);
  }

  #poll(): void {
    if (isReadable(this.#pidfd)) this.#onEnded();
  }

  #onEnded(): void {
    this.#hasEnded = true;
    this.#updateWatch();
    this.#notify();
  }

  /** Runs each callback in its own microtask, so that an error in one callback does not affect other callbacks. */
  #notify(): void {
    for (const waiting of this.#waiting) {
      queueMicrotask(() => {
        if (this.#waiting.delete(waiting)) waiting.callback();
      });
    }
  }
}

/** Returns the ID of this process in its own PID namespace. */
export function ownProcessId(): number {
  return shim().poolpass_getpid();
}

/** Returns the result of `isSo`, or false if `isSo` throws a `SystemError`. */
function isKnown(isSo: () => boolean): boolean {
  try {
    return isSo();
  } catch (error) {
    if (error instanceof SystemError) return false;
    throw error;
  }
}

function startPolling(process: PeerProcess, keepsAlive: boolean): void {
  polled.set(process, keepsAlive);
  timer ??= setInterval(() => [...polled.keys()].forEach(poll), pollInterval);
  updateTimer();
}

function stopPolling(process: PeerProcess): void {
  if (!polled.delete(process)) return;
  if (polled.size > 0) return updateTimer();
  clearInterval(timer);
  timer = undefined;
}

function updateTimer(): void {
  // In all three runtimes, `setInterval` returns an object with `ref` and `unref`, although its declared type is a
  // number.
  const { ref, unref } = timer as unknown as { ref(): void; unref(): void };
  (polled.values().some((keepsAlive) => keepsAlive) ? ref : unref).call(timer);
}
