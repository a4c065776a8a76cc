/**
 * A request that is done later.
 *
 * @module
 */
import type { SharingError } from "../../../support/errors.ts";
import { Shares } from "./shares.ts";

/** The maximum number of requests of all clients that wait for memory or for a name. */
const maximumWaiting = 65_536;

/** The requests of all clients that wait. */
export function waitingRequests(isShared: boolean): Shares {
  return new Shares(maximumWaiting, { unit: "requests that wait", isShared });
}

/** What a client is told of a request: for `Outcome`, see `store_requests.ts`. */
export interface PendingRequestOwner<Outcome> {
  onSettled(request: PendingRequest<Outcome>, outcome: Outcome): void;
  /** @throws {SharingError} `limit-exceeded` if the client's user has too many that wait */
  onWait(): void;
}

/**
 * A request that has begun and is not answered. Smaller than a promise and an `AbortSignal`: tens of thousands may wait.
 */
export class PendingRequest<Outcome = unknown> {
  readonly number: number;
  readonly #owner: PendingRequestOwner<Outcome>;
  #onEnd: (() => void) | undefined;
  /** Whether it has waited. It counts among those that wait until it is answered. */
  hasWaited = false;
  /** Why it need not be done any more. */
  reason: SharingError | undefined;

  constructor(number: number, owner: PendingRequestOwner<Outcome>) {
    this.number = number;
    this.#owner = owner;
  }

  /**
   * Lets it wait.
   *
   * @param onEnd called if it need not be done any more
   * @throws {SharingError} the reason if that is so already; `limit-exceeded` if too many wait
   */
  wait(onEnd: () => void): void {
    if (this.reason !== undefined) throw this.reason;
    if (!this.hasWaited) this.#owner.onWait();
    this.hasWaited = true;
    this.#onEnd = onEnd;
  }

  /** Ends the wait, because there is what it has waited for. */
  endWait(): void {
    this.#onEnd = undefined;
  }

  settle(outcome: Outcome): void {
    this.#onEnd = undefined;
    this.#owner.onSettled(this, outcome);
  }

  /** It need not be done any more: if it waits, it ends. */
  end(reason: SharingError): void {
    this.reason ??= reason;
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.();
  }
}
