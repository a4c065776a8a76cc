/**
 * Requests that are completed later, and waiting for a name's first generation.
 *
 * @module
 */
import type { SharingError } from "../../../support/errors.ts";
import { Shares } from "./store_budget.ts";

/** The maximum number of waiting requests of all clients, for memory or for a name. */
const maximumWaiting = 65_536;

/** The waiting requests of all clients. */
export function waitingRequests(isShared: boolean): Shares {
  return new Shares(maximumWaiting, { unit: "requests that wait", isShared });
}

/** The result of a request. `Outcome` is declared in `store_requests.ts`. */
export interface PendingRequestOwner<Outcome> {
  onSettled(request: PendingRequest<Outcome>, outcome: Outcome): void;
  /** @throws {SharingError} `limit-exceeded` if the client's user has too many waiting requests */
  onWait(): void;
}

/**
 * A request that was started and is not answered. Smaller than a promise with an `AbortSignal`, because tens of
 * thousands may wait.
 */
export class PendingRequest<Outcome = unknown> {
  readonly number: number;
  readonly #owner: PendingRequestOwner<Outcome>;
  #onEnd: (() => void) | undefined;
  /** Whether it has waited. It counts as waiting until it is answered. */
  hasWaited = false;
  /** The reason for which it was canceled. */
  reason: SharingError | undefined;

  constructor(number: number, owner: PendingRequestOwner<Outcome>) {
    this.number = number;
    this.#owner = owner;
  }

  /**
   * Marks the request as waiting.
   *
   * @param onEnd called if it is canceled
   * @throws {SharingError} the reason if it was canceled already; `limit-exceeded` if too many wait
   */
  wait(onEnd: () => void): void {
    if (this.reason !== undefined) throw this.reason;
    if (!this.hasWaited) this.#owner.onWait();
    this.hasWaited = true;
    this.#onEnd = onEnd;
  }

  /** Ends the wait, because its condition is met. */
  endWait(): void {
    this.#onEnd = undefined;
  }

  settle(outcome: Outcome): void {
    this.#onEnd = undefined;
    this.#owner.onSettled(this, outcome);
  }

  /** Cancels the request, and its wait. */
  end(reason: SharingError): void {
    this.reason ??= reason;
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.();
  }
}

/** A waiter for a name. Kept small, because there may be many. */
export interface NameWaiter {
  /** Tries again. Returns whether the wait is over. */
  attempt(): boolean;
}

/** The names that requests wait for. */
export class AwaitedNames {
  /** Most names have one waiter, which needs no set. */
  readonly #waiters = new Map<string, NameWaiter | Set<NameWaiter>>();

  /** Adds a waiter for a name. */
  add(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set) waiting.add(waiter);
    else this.#waiters.set(name, waiting === undefined ? waiter : new Set([waiting, waiter]));
  }

  /** Removes a waiter. */
  delete(name: string, waiter: NameWaiter): void {
    const waiting = this.#waiters.get(name);
    if (waiting instanceof Set && waiting.delete(waiter) && waiting.size > 0) return;
    if (waiting === waiter || waiting instanceof Set && waiting.size === 0) this.#waiters.delete(name);
  }

  /** Lets the waiters for a name try again, in a later microtask. */
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
