/**
 * The handles of the pools that an exporter has announced, as many as this process has descriptors for.
 *
 * @module
 */
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { badMessage, type PoolHandleMessage, type RequestHandleMessage } from "../protocol/messages.ts";
import { firstOfLastDescriptors, isNextOneOfLast } from "../transport/last_descriptors.ts";

/**
 * Owns the handles of an exporter's pools. Once few descriptors are left, the handle of each additional pool is closed on
 * arrival, and requested from the exporter again when memory of the pool is mapped. Of the requested handles, only the
 * most recent one is kept open.
 */
export class PoolHandles {
  readonly #send: (message: RequestHandleMessage) => void;
  /** The lowest descriptor number that counts as one of the last descriptors that this process can open. */
  readonly #firstOfLast = firstOfLastDescriptors();
  readonly #onFewLeft: () => void;
  #areFewLeft = false;
  readonly #handles = new Map<number, ShareableHandle>();
  /** The pool whose handle is kept open although few descriptors are left, because it was requested most recently. */
  #kept: number | undefined;
  /**
   * The pools whose handles are needed, each with the callbacks to call once its handle has arrived. One request is
   * sent at a time, for the first of these pools.
   */
  readonly #requests = new Map<number, Set<() => void>>();
  /**
   * The pool whose handle was requested and has not arrived. Stays set even if nothing waits for the handle any longer.
   */
  #requested: number | undefined;
  /** The token of the last handle that answered a request. */
  #token = 0;

  /**
   * Whether the exporter's version of the protocol can send a handle again. If not, the handle of a pool is kept until
   * the pool is imported.
   */
  readonly canRequest: boolean;

  /**
   * @param canRequest whether the exporter sends handles again
   * @param send sends a message to the exporter
   * @param onFewLeft called once, the first time that few descriptors are left
   */
  constructor(
    { canRequest, send, onFewLeft }: {
      readonly canRequest: boolean;
      readonly send: (message: RequestHandleMessage) => void;
      readonly onFewLeft: () => void;
    },
  ) {
    this.canRequest = canRequest;
    this.#send = send;
    this.#onFewLeft = onFewLeft;
  }

  /** Whether few descriptors were left to this process at any time since the connection was established. */
  get areFewLeft(): boolean {
    return this.#areFewLeft;
  }

  /** Takes ownership of the handle of a newly announced pool. */
  add(pool: number, handle: ShareableHandle): void {
    if (this.#isOneOfLast(handle.fd) && this.canRequest) handle[Symbol.dispose]();
    else this.#handles.set(pool, handle);
  }

  /** Closes the handle of a pool that was just imported, if few descriptors are left. */
  onImported(pool: number): void {
    if (!this.#areFewLeft && isNextOneOfLast(this.#firstOfLast)) this.#noteFewLeft();
    if (this.#areFewLeft) this.#dispose(pool);
  }

  /** Returns the handle of a pool, which this object still owns; undefined if it must be requested. */
  get(pool: number): ShareableHandle | undefined {
    return this.#handles.get(pool);
  }

  /**
   * Requests the handle of a pool, and calls `callback` when it has arrived. Returns a function that cancels the
   * callback.
   */
  request(pool: number, callback: () => void): () => void {
    let callbacks = this.#requests.get(pool);
    if (callbacks === undefined) this.#requests.set(pool, callbacks = new Set());
    callbacks.add(callback);
    this.#requestNext();
    return () => {
      if (callbacks.delete(callback) && callbacks.size === 0) this.#requests.delete(pool);
    };
  }

  /** Takes ownership of a handle that the exporter sent in response to a request. */
  onHandle({ pool, token, handle }: PoolHandleMessage): void {
    if (pool !== this.#requested) throw badMessage(`the handle of pool ${pool} was not requested`);
    this.#requested = undefined;
    this.#token = token;
    const callbacks = this.#requests.get(pool);
    this.#requests.delete(pool);
    if (callbacks === undefined) {
      handle[Symbol.dispose]();
    } else {
      if (this.#kept !== undefined) this.#dispose(this.#kept);
      this.#kept = this.#isOneOfLast(handle.fd) ? pool : undefined;
      this.#handles.set(pool, handle);
      for (const callback of callbacks) callback();
    }
    this.#requestNext();
  }

  /**
   * Closes the handle of a pool that the exporter has forgotten. Any request for the handle has been answered by then.
   */
  delete(pool: number): void {
    if (this.#requested === pool) throw badMessage(`pool ${pool} is forgotten, and its handle was requested`);
    this.#dispose(pool);
  }

  close(): void {
    for (const handle of this.#handles.values()) handle[Symbol.dispose]();
    this.#handles.clear();
    this.#requests.clear();
  }

  #isOneOfLast(fd: number): boolean {
    if (fd < this.#firstOfLast) return false;
    if (!this.#areFewLeft) this.#noteFewLeft();
    return true;
  }

  #noteFewLeft(): void {
    this.#areFewLeft = true;
    this.#onFewLeft();
  }

  #requestNext(): void {
    const [next] = this.#requests.keys();
    if (this.#requested !== undefined || next === undefined) return;
    this.#requested = next;
    this.#send({ type: "request-handle", pool: next, token: this.#token });
  }

  #dispose(pool: number): void {
    this.#handles.get(pool)?.[Symbol.dispose]();
    this.#handles.delete(pool);
    if (this.#kept === pool) this.#kept = undefined;
  }
}
