import type { CudaEvent } from "../../objects/streams/cuda_event.ts";
import { CudaError, runEach } from "../../support/errors.ts";
import { driverErrorOf, ignoreLoss } from "../../support/driver_errors.ts";

/** The maximum number of events of one peer that are open at a time. */
const maximumOfPeer = 1024;
/** The maximum number of events that this process has open at a time. */
const maximumOfProcess = 4096;
/** Milliseconds until the next attempt to open an event after resources were lacking. */
const retryPause = 100;

/** The events of all peers that are open. */
const holders = new Set<OpenedEvents>();
let openInProcess = 0;

/**
 * The opened events of one peer, by number. Opening an event takes memory, and a page of the software device's address
 * space, for as long as it is open: what is open can therefore be closed at any time, and is opened again when it is
 * queried. If this process has too many open, the peer that has most of them loses one, or the peer that opens one does.
 */
export class OpenedEvents {
  /** Those that may be closed, oldest first. */
  readonly #events = new Map<number, CudaEvent>();
  /** Those that somebody uses directly. */
  readonly #pinned = new Map<number, CudaEvent>();
  #nextTry = 0;

  /** The number of events that may be closed. */
  get size(): number {
    return this.#events.size;
  }

  /** Returns an event if it is open. */
  find(identifier: number): CudaEvent | undefined {
    return this.#events.get(identifier) ?? this.#pinned.get(identifier);
  }

  /** Opens an event that is not open. Returns undefined while resources are lacking. */
  tryOpen(identifier: number, open: () => CudaEvent): CudaEvent | undefined {
    if (performance.now() < this.#nextTry) return undefined;
    try {
      this.#makeRoom();
      const event = open();
      this.#events.set(identifier, event);
      openInProcess++;
      holders.add(this);
      return event;
    } catch (error) {
      if (!isOutOfResources(error)) throw error;
    }
    this.#nextTry = performance.now() + retryPause;
    return undefined;
  }

  /** Returns an event that stays open until it is forgotten. */
  pin(identifier: number, open: () => CudaEvent): CudaEvent {
    let event = this.#pinned.get(identifier);
    if (event === undefined) {
      event = this.#events.get(identifier) ?? open();
      if (this.#events.delete(identifier)) openInProcess--;
      this.#pinned.set(identifier, event);
    }
    return event;
  }

  close(identifier: number): void {
    const event = this.find(identifier);
    if (this.#events.delete(identifier)) openInProcess--;
    this.#pinned.delete(identifier);
    if (this.#events.size === 0) holders.delete(this);
    if (event !== undefined) ignoreLoss(() => event[Symbol.dispose]());
  }

  closeAll(): void {
    const identifiers = [...this.#events.keys(), ...this.#pinned.keys()];
    runEach(...identifiers.map((identifier) => () => this.close(identifier)));
  }

  /** Closes an event if too many are open. */
  #makeRoom(): void {
    if (this.#events.size >= maximumOfPeer) return this.#closeOldest();
    if (openInProcess < maximumOfProcess) return;
    let largest: OpenedEvents | undefined;
    for (const holder of holders) if (largest === undefined || holder.size > largest.size) largest = holder;
    // Peers whose shares are alike would take them from each other again and again.
    const hasShare = this.#events.size > 0 && largest!.size <= 2 * (this.#events.size + 1);
    if (hasShare) this.#closeOldest();
    else largest!.#closeOldest();
  }

  #closeOldest(): void {
    const [oldest] = this.#events.keys();
    this.close(oldest!);
  }
}

/**
 * Whether an error means that this process lacks resources, which it may have later. It does not if the system denies
 * access, such as to the processes of other users.
 */
export function isOutOfResources(error: unknown): boolean {
  if (!(error instanceof CudaError)) return false;
  if (error.code === "cudaErrorMemoryAllocation") return true;
  // The software device says which error of the system it was.
  const { cause } = driverErrorOf(error) as { cause?: { code?: unknown } };
  return error.code === "cudaErrorOperatingSystem" && cause?.code !== "EACCES" && cause?.code !== "EPERM";
}
