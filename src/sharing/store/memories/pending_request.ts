/**
 * Requests that complete later, and waits for the first generation of a name.
 *
 * @module
 */
import type { SharingError } from "../../../support/errors.ts";
import { Shares } from "./store_budget.ts";

/** The maximum number of requests, of all clients together, that wait for memory or for a name. */
const maximumWaiting = 65_536;

/** Returns the budget for the number of waiting requests of all clients. */
export function waitingRequests(isShared: boolean): Shares {
  return new Shares(maximumWaiting, { unit: "requests that wait", isShared });
}

/** The callbacks of a pending request. `Outcome` is usually `RequestOutcome` of `store_requests.ts`. */
export interface PendingRequestOwner<Outcome> {
  onSettled(request: PendingRequest<Outcome>, outcome: Outcome): void;
  /**
   * Called when the request starts to wait.
   *
   * @throws {SharingError} `limit-exceeded` if the client's user has too many waiting requests
   */
  onWait(): void;
}

/**
 * A request that was started but not answered. Since tens of thousands of requests may wait, a request must occupy less
 * memory than a promise with an `AbortSignal`.
 */
export class PendingRequest<Outcome = unknown> {
  readonly number: number;
  readonly #owner: PendingRequestOwner<Outcome>;
  #onEnd: (() => void) | undefined;
  /** Whether the request has ever waited. A request that has waited counts as waiting until it is answered. */
  hasWaited = false;
  /** The reason why the request was canceled. Undefined if the request was not canceled. */
  reason: SharingError | undefined;

  constructor(number: number, owner: PendingRequestOwner<Outcome>) {
    this.number = number;
    this.#owner = owner;
  }

  /**
   * Marks the request as waiting.
   *
   * @param onEnd called if the request is canceled while it waits
   * @throws {SharingError} the reason if the request was already canceled; `limit-exceeded` if too many requests wait
   */
  wait(onEnd: () => void): void {
    if (this.reason !== undefined) throw this.reason;
    if (!this.hasWaited) this.#owner.onWait();
    this.hasWaited = true;
    this.#onEnd = onEnd;
  }

  /** Ends the wait because its condition is met, so that `onEnd` is no longer called. */
  endWait(): void {
    this.#onEnd = undefined;
  }

  settle(outcome: Outcome): void {
    this.#onEnd = undefined;
    this.#owner.onSettled(this, outcome);
  }

  /** Cancels the request. If the request waits, calls the callback passed to `wait`. */
  end(reason: SharingError): void {
    this.reason ??= reason;
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.();
  }
}

/** A request that waits until memory is published under a name. The object is small, because many requests may wait. */
export interface NameWaiter {
  /** Retries the request. Returns true if the request is settled, and false if it must keep waiting. */
  attempt(): boolean;
}

/** The requests that wait until memory is published, grouped by name. */
export class AwaitedNames {
  /**
   * The waiting requests, keyed by name. A single waiting request, which is the usual case, is stored without a set.
   */
  readonly #waiters = new Map<string, NameWaiter | Set<NameWaiter>>();

  /** Adds a request that waits until memory is published under a name. */
  add(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set) waiting.add(waiter);
    else this.#waiters.set(name, waiting === undefined ? waiter : new Set([waiting, waiter]));
  }

  /** Removes a request that waits for a name. */
  delete(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set && waiting.delete(waiter) && waiting.size > 0) return;
    if (waiting === waiter || waiting instanceof Set && waiting.size === 0) this.#waiters.delete(name);
  }

  /** Retries the waiting requests for a name in a later microtask, and removes the requests that are settled. */
  notify(name: string): void {
    if (!this.#waiters.has(name)) return;
    queueMicrotask(() => {
      const waiting = this.#waiters.get(name);
      for (const waiter of waiting instanceof Set ? [...waiting] : waiting === undefined ? [] : [waiting]) {
        if (waiter.attempt()) this.delete(name, waiter);
      }
    });
  }
}
