/**
 * The process at the other end of a connection, which may outlive the connection.
 *
 * @module
 */
import { closeDescriptor } from "../../../ffi/shim/descriptors.ts";
import { shim } from "../../../ffi/shim/shim.ts";
import { errno, errnoName } from "../../../ffi/shim/system_error.ts";
import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { isCrowded, isReadable, readable, type Watch, watch } from "./poller.ts";
import type { Peer } from "./unix_socket.ts";

/** Milliseconds between two looks at processes that are not watched. */
const lookInterval = 50;

/**
 * Processes that a timer looks at, and whether they keep this one alive. They are those that do not, and those of too
 * many connections to watch them all: most processes that end do so with their connections, which are always watched.
 */
const lookedAt = new Map<PeerProcess, boolean>();
let timer: ReturnType<typeof setInterval> | undefined;
/** Looks at one of them. */
let look: (process: PeerProcess) => void;

/** A process, known by a descriptor: its number may be given to another, the descriptor stays its own. */
export class PeerProcess implements Disposable {
  /** Who it was when it connected or began to listen. */
  readonly peer: Peer;
  /** Below 0 where there is nothing to watch any more. */
  #pidfd: number;
  #hasEnded: boolean;
  #keepsAlive = true;
  #watch: Watch | undefined;
  /** In objects of their own: the same function may wait twice. */
  readonly #waiting = new Set<{ readonly callback: () => void }>();

  static {
    look = (process) => process.#look();
    printAs(
      this,
      "PeerProcess",
      (process) => `PeerProcess { process ${process.peer.pid}${process.#hasEnded ? ", ended" : ""} }`,
    );
  }

  /**
   * Takes the descriptor over, unless this throws.
   *
   * @param pidfd `-ESRCH` for a process that has ended, another number below 0 where it cannot be watched
   * @throws {SharingError} `not-supported` where it cannot be watched
   */
  constructor(peer: Peer, pidfd: number) {
    if (pidfd < 0 && pidfd !== -errno.ESRCH) {
      throw new SharingError(
        "not-supported",
        `Cannot watch process ${peer.pid}: the system gives no descriptor of it (${errnoName(-pidfd)}); Linux 5.3 or ` +
          "newer is needed, and leave to call pidfd_open",
      );
    }
    this.peer = peer;
    this.#pidfd = pidfd;
    this.#hasEnded = pidfd < 0;
  }

  /** Whether it is this very process, where no event of its own can be opened. */
  get isOwn(): boolean {
    return this.peer.pid === shim().poolpass_getpid();
  }

  /** Whether it has ended, as far as is known; until this was disposed, that is as of now. */
  get hasEnded(): boolean {
    if (!this.#hasEnded && this.#pidfd >= 0) this.#look();
    return this.#hasEnded;
  }

  /**
   * Calls back once, when the process has ended, and never before this returns.
   *
   * @returns ends the wait
   */
  whenEnded(callback: () => void): () => void {
    const waiting = { callback };
    this.#waiting.add(waiting);
    if (this.#hasEnded) this.#notify();
    else this.#attend();
    return () => {
      if (this.#waiting.delete(waiting)) this.#attend();
    };
  }

  /** Whether waits for its end keep this process alive: they do unless told otherwise. */
  keepAlive(keepsAlive: boolean): void {
    this.#keepsAlive = keepsAlive;
    this.#attend();
  }

  /** Ends all waits, without calling back. */
  [Symbol.dispose](): void {
    this.#waiting.clear();
    this.#attend();
    if (this.#pidfd >= 0) closeDescriptor(this.#pidfd);
    this.#pidfd = -1;
  }

  /** Watches where somebody waits. */
  #attend(): void {
    const isWatched = this.#waiting.size > 0 && this.#pidfd >= 0 && !this.#hasEnded;
    const hasWatch = isWatched && this.#keepsAlive && (this.#watch !== undefined || !isCrowded());
    if (hasWatch) {
      this.#watch ??= watch({ fd: this.#pidfd, events: readable }, {
        onReady: () => this.#onEnded(),
        onFailure: () => {
          this.#watch = undefined;
          lookAt(this, this.#keepsAlive);
        },
      });
    } else {
      this.#watch?.cancel();
      this.#watch = undefined;
    }
    if (isWatched && !hasWatch) lookAt(this, this.#keepsAlive);
    else lookNoMoreAt(this);
  }

  #look(): void {
    if (isReadable(this.#pidfd)) this.#onEnded();
  }

  #onEnded(): void {
    this.#hasEnded = true;
    this.#attend();
    this.#notify();
  }

  /** Each in a microtask: what one of them throws is its own. */
  #notify(): void {
    for (const waiting of this.#waiting) {
      queueMicrotask(() => {
        if (this.#waiting.delete(waiting)) waiting.callback();
      });
    }
  }
}

function lookAt(process: PeerProcess, keepsAlive: boolean): void {
  lookedAt.set(process, keepsAlive);
  timer ??= setInterval(() => [...lookedAt.keys()].forEach(look), lookInterval);
  keepTimer();
}

function lookNoMoreAt(process: PeerProcess): void {
  if (!lookedAt.delete(process)) return;
  if (lookedAt.size > 0) return keepTimer();
  clearInterval(timer);
  timer = undefined;
}

function keepTimer(): void {
  // All three runtimes give an object; the standard library's types do not.
  const { ref, unref } = timer as unknown as { ref(): void; unref(): void };
  (lookedAt.values().some((keepsAlive) => keepsAlive) ? ref : unref).call(timer);
}
