/**
 * The one place where a JavaScript thread waits for descriptors.
 *
 * On Deno, which can make a call off the event loop's thread, one parked `poll` waits for all descriptors. Adding or
 * removing a descriptor interrupts it through an eventfd. For half a millisecond before the call is parked, or two where
 * a store serves clients, each turn of the event loop polls the descriptors without blocking: waking from a parked call
 * takes two thread switches, which can last as long as that where processors go idle. On Bun and Node, the event loop polls at each of its turns for the
 * first two milliseconds after something happened, then every millisecond, and every four milliseconds after a tenth of
 * a second: up to 4 ms of latency, and one or two percent of a processor for as long as a wait lasts.
 *
 * Nothing runs while nothing is waited for. A pending wait or watch keeps the process alive.
 *
 * @module
 */
import { jsRuntime } from "../../../ffi/native/host.ts";
import { errno, shim, unwrap } from "../../../ffi/native/shim/shim.ts";
import { runEach } from "../../support/errors.ts";
import { abortError, nextTurn } from "../../support/waiting/waiting.ts";

/** There is data to read, a connection to accept, or the end of the stream; for a pidfd, the process has ended. */
export const readable = 1;
/** There is room to write, or the reading end is closed. */
export const writable = 4;

/** The events to wait for on a descriptor: `readable` or `writable`. */
export interface Interest {
  readonly fd: number;
  readonly events: number;
}

/** A descriptor that is polled repeatedly. */
export interface Watch {
  /** Changes the events to wait for. */
  change(events: number): void;
  /** Ends the watch: no handler is called any more. Call it before closing the descriptor. */
  cancel(): void;
}

/** The callbacks of a watch. An error that one of them throws is reported as uncaught. */
export interface WatchHandlers {
  /** Some of the events have occurred. Called at each poll for as long as they persist. */
  onReady(events: number): void;
  /** The system cannot poll the descriptor. The watch has ended. */
  onFailure(error: unknown): void;
}

interface Waiter {
  readonly registrations: readonly WaiterRegistration[];
  /** @param events the events of each registration; 0 if none occurred */
  resolve(events: readonly number[]): void;
  reject(error: unknown): void;
}

interface WaiterRegistration extends Registration {
  readonly waiter: Waiter;
}

/** The number of waits above which rare events are polled by a timer: each further descriptor delays every wakeup. */
const crowdedCount = 128;
/** The number of descriptors that are polled and served at a time. Recently ready descriptors come first. */
const batchSize = 64;
/** Milliseconds for which each turn polls after something happened, and while short requests are being served. */
const spinMilliseconds = jsRuntime === "deno" ? 0.5 : 2;
const attentiveSpin = 2;
const attentiveMilliseconds = 100;
const attentivePause = 1;
const idlePause = 4;

const waiters = new Set<Waiter>();
/** The descriptors of all waiters. Created together with the eventfd. */
let table: PollTable<WaiterRegistration> | undefined;
let serving = false;
/** How many serve requests that follow each other. */
let attentiveCount = 0;
/** When a wait last began or ended, in milliseconds. */
let lastEvent = 0;
/** Whether a wait has ended since the last pause. Its time is read at the next pause, which needs it too. */
let hadEvent = false;
/** The number of polls so far. */
let polls = 0;
/** Ends the current pause or parked call early; undefined while there is neither. */
let interruptPause: (() => void) | undefined;
/** The parked call that was interrupted and may still reference descriptors that nothing waits for any more. */
let interruptedCall: Promise<void> | undefined;
/** Interrupts the parked call. Never closed: a server whose descriptor table is full must still be able to wait. */
let eventfd = -1;
/** The `pollfd` array of the parked call. It is a copy, because another thread reads it at any time. */
let parked: Uint8Array<ArrayBuffer>;

/**
 * Waits until one of the interests is fulfilled. Resolves with one boolean for each: whether it is fulfilled. An error
 * or hang-up on a descriptor fulfills any interest in it.
 *
 * @param signals the first of them that is aborted rejects the wait
 * @param description what is awaited, for the error of an aborted wait
 */
export function waitFor(
  interests: readonly Interest[],
  signals: readonly (AbortSignal | undefined)[],
  { awaited }: { readonly awaited?: string } = {},
): Promise<readonly boolean[]> {
  return new Promise((resolve, reject) => {
    for (const signal of signals) if (signal?.aborted) return reject(abortError(signal.reason, awaited));
    const waiter = addWaiter(interests, {
      resolve(events) {
        cleanUp();
        resolve(events.map((event) => event !== 0));
      },
      reject(error) {
        cleanUp();
        reject(error);
      },
    });
    function cleanUp(): void {
      removeWaiter(waiter);
      for (const signal of signals) signal?.removeEventListener("abort", onAbort);
    }
    function onAbort(event: Event): void {
      waiter.reject(abortError((event.target as AbortSignal).reason, awaited));
      interruptPause?.();
    }
    for (const signal of signals) signal?.addEventListener("abort", onAbort);
  });
}

/**
 * Polls a descriptor until the watch is canceled. This is cheaper than one wait after another for events that recur. An
 * error or hang-up on the descriptor counts as all events that are waited for.
 */
export function watch(interest: Interest, handlers: WatchHandlers): Watch {
  const waiter = addWaiter([interest], {
    resolve: ([events]) => handlers.onReady(events!),
    reject(error) {
      removeWaiter(waiter);
      handlers.onFailure(error);
    },
  });
  const [registration] = waiter.registrations;
  return {
    change(events) {
      const isMore = (events & ~registration!.events) !== 0;
      table!.change(registration!, events);
      if (isMore) interruptPause?.();
    },
    cancel() {
      if (!waiters.has(waiter)) return;
      removeWaiter(waiter);
      interruptPause?.();
    },
  };
}

/**
 * Allocates what a wait or a watch needs and keeps it, so that a later wait does not fail for lack of descriptors.
 *
 * @throws {SystemError} `EMFILE` or `ENFILE`
 */
export function preparePolling(): void {
  if (table !== undefined) return;
  if (jsRuntime === "deno") eventfd = unwrap(shim().poolpass_eventfd(), "eventfd");
  table = new PollTable(eventfd);
}

/** Polls more often for a while on runtimes that poll at intervals: something was sent, and a reply may follow. */
export function expectAnswer(): void {
  if (jsRuntime === "deno" || !serving) return;
  const now = performance.now();
  const wasIdle = now - lastEvent >= attentiveMilliseconds;
  lastEvent = Math.max(lastEvent, now - spinMilliseconds);
  if (wasIdle) interruptPause?.();
}

/** Polls at every turn for a moment: something was sent, and the sender does nothing else before the reply. */
export function awaitAnswer(): void {
  if (!serving) return;
  lastEvent = performance.now();
  interruptPause?.();
}

/**
 * Polls at every turn for longer, until the returned function is called: clients do something short with each answer, and
 * ask again.
 */
export function attendRequests(): () => void {
  attentiveCount++;
  let isOver = false;
  return () => {
    if (!isOver) attentiveCount--;
    isOver = true;
  };
}

/** The number of polls so far. It identifies a turn of the event loop. */
export function pollCount(): number {
  return polls;
}

/** Whether so many descriptors are registered that rare events are polled by a timer instead. */
export function isCrowded(): boolean {
  return waiters.size >= crowdedCount;
}

/** Resolves once the kernel no longer references the descriptors of aborted waits and canceled watches. */
export async function descriptorsReleased(): Promise<void> {
  await interruptedCall;
}

function addWaiter(interests: readonly Interest[], parts: Omit<Waiter, "registrations">): Waiter {
  preparePolling();
  const registrations: WaiterRegistration[] = [];
  const waiter: Waiter = { ...parts, registrations };
  for (const { fd, events } of interests) registrations.push({ fd, events, waiter });
  for (const registration of registrations) table!.add(registration);
  waiters.add(waiter);
  lastEvent = performance.now();
  if (serving) interruptPause?.();
  else void serve();
  return waiter;
}

function removeWaiter(waiter: Waiter): void {
  if (!waiters.delete(waiter)) return;
  for (const registration of waiter.registrations) table!.remove(registration);
}

async function serve(): Promise<void> {
  serving = true;
  // Waits that begin in the same turn are then served by the same call.
  await undefined;
  while (waiters.size > 0) {
    await waitBetweenPolls();
    await pollAll();
  }
  serving = false;
}

/** Yields between two polls, for longer the longer nothing has happened. */
async function waitBetweenPolls(): Promise<void> {
  const now = performance.now();
  if (hadEvent) lastEvent = now;
  hadEvent = false;
  const idle = now - lastEvent;
  if (idle < (attentiveCount > 0 ? attentiveSpin : spinMilliseconds)) await nextTurn();
  else if (jsRuntime === "deno") await park();
  else await pause(idle < attentiveMilliseconds ? attentivePause : idlePause);
}

/** Waits off the event loop's thread until a descriptor is ready or the call is interrupted. */
async function park(): Promise<void> {
  parked = table!.bytes(0).slice();
  const call = shim().poolpass_park(parked, table!.count) as Promise<number>;
  interruptPause = () => {
    interruptPause = undefined;
    shim().poolpass_eventfd_set(eventfd);
    interruptedCall = call.then(() => {
      interruptedCall = undefined;
    });
  };
  const result = await call;
  interruptPause = undefined;
  shim().poolpass_eventfd_clear(eventfd);
  if (result < 0 && result !== -errno.EINTR) rejectAll(result);
}

async function pause(milliseconds: number): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    interruptPause = () => {
      clearTimeout(timer);
      resolve();
    };
  });
  interruptPause = undefined;
}

/** Polls all descriptors and resolves the waiters of those that are ready. */
async function pollAll(): Promise<void> {
  polls++;
  for (let first = 1; first < table!.count; first += batchSize) {
    if (!pollBatch(first)) continue;
    hadEvent = true;
    // Messages sent in reply are written in microtasks: run those now, not after the last batch.
    await undefined;
  }
}

/** Polls one batch of descriptors, from index `first` of the table. Returns whether a waiter was served. */
function pollBatch(first: number): boolean {
  const count = Math.min(batchSize, table!.count - first);
  // The parked call returns no events, so that it never writes to the memory of a thread that has ended: this call gets
  // them.
  const result = shim().poolpass_poll(table!.bytes(first), count, 0);
  if (result < 0 && result !== -errno.EINTR) rejectAll(result);
  if (result <= 0) return false;
  const returnedEvents = table!.takeReady(first, result);
  const ready = new Map<Waiter, readonly number[]>();
  for (const { waiter } of returnedEvents.keys()) {
    if (ready.has(waiter)) continue;
    const events = waiter.registrations.map((registration) =>
      fulfilled(registration, returnedEvents.get(registration) ?? 0)
    );
    if (events.some((event) => event !== 0)) ready.set(waiter, events);
  }
  for (const [waiter, events] of ready) if (waiters.has(waiter)) runEach(() => waiter.resolve(events));
  return ready.size > 0;
}

/** `poll` also reports errors and hang-ups, which nobody asks for. */
function fulfilled({ events }: Registration, returnedEvents: number): number {
  return (returnedEvents & ~(readable | writable)) === 0 ? returnedEvents & events : events;
}

function rejectAll(result: number): void {
  for (const waiter of [...waiters]) {
    try {
      unwrap(result, "poll");
    } catch (error) {
      runEach(() => waiter.reject(error));
    }
  }
}

/** The events that one waiter waits for on a descriptor. `PollTable.change` changes them. */
export interface Registration {
  readonly fd: number;
  /** As in `struct pollfd`. */
  events: number;
}

interface Entry<R> {
  index: number;
  readonly registrations: R[];
}

const initialCapacity = 16;

/**
 * An array of `struct pollfd` with one entry for each descriptor, however many registrations it has: `poll` accepts no
 * more entries than a process may have open descriptors. The caller owns the first entry. The array is kept from one call
 * to the next: with hundreds of mostly idle connections, building it anew would cost more than the call.
 */
export class PollTable<R extends Registration> {
  #words = new Int32Array(2 * initialCapacity);
  #events = new Int16Array(this.#words.buffer);
  /** The descriptor of each entry. */
  readonly #fds: number[] = [-1];
  readonly #entries = new Map<number, Entry<R>>();

  /** @param first the descriptor of the first entry, which `takeReady` ignores; -1 for none */
  constructor(first: number) {
    this.#fds[0] = first;
    this.#set(0, first, 1);
  }

  /** The number of entries. */
  get count(): number {
    return this.#fds.length;
  }

  /** The memory of the entries from `firstEntry` on, to pass to `poll`. */
  bytes(firstEntry: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#words.buffer, firstEntry * 8, (this.count - firstEntry) * 8);
  }

  add(registration: R): void {
    const { fd } = registration;
    const entry = this.#entries.get(fd);
    if (entry === undefined) {
      this.#entries.set(fd, { index: this.count, registrations: [registration] });
      this.#fds.push(fd);
      this.#enlarge();
    } else {
      entry.registrations.push(registration);
    }
    this.#update(fd);
  }

  change(registration: R, events: number): void {
    registration.events = events;
    this.#update(registration.fd);
  }

  remove(registration: R): void {
    const { fd } = registration;
    const { index, registrations } = this.#entries.get(fd)!;
    if (registrations.length > 1) {
      registrations.splice(registrations.indexOf(registration), 1);
      return this.#update(fd);
    }
    this.#entries.delete(fd);
    const last = this.#fds.pop()!;
    if (last !== fd) this.#put(last, index);
  }

  /**
   * The registrations whose descriptors are ready, with the returned events, after a `poll` of the entries from `first`
   * on that found `found` of them. Moves these entries toward the front of the table.
   */
  takeReady(first: number, found: number): Map<R, number> {
    const ready = new Map<R, number>();
    for (let index = first, left = found; left > 0 && index < this.count; index++) {
      const events = this.#events[index * 4 + 3]!;
      if (events === 0) continue;
      left--;
      const fd = this.#fds[index]!;
      for (const registration of this.#entries.get(fd)!.registrations) ready.set(registration, events);
      // Swap with an entry that this loop has passed already.
      const front = Math.max(1, index >> 1);
      this.#put(this.#fds[front]!, index);
      this.#put(fd, front);
    }
    return ready;
  }

  #put(fd: number, index: number): void {
    this.#fds[index] = fd;
    this.#entries.get(fd)!.index = index;
    this.#update(fd);
  }

  #update(fd: number): void {
    const { index, registrations } = this.#entries.get(fd)!;
    let events = 0;
    for (const registration of registrations) events |= registration.events;
    this.#set(index, fd, events);
  }

  #set(index: number, fd: number, events: number): void {
    this.#words[index * 2] = fd;
    this.#words[index * 2 + 1] = events;
  }

  #enlarge(): void {
    if (this.count * 2 <= this.#words.length) return;
    const words = new Int32Array(this.#words.length * 2);
    words.set(this.#words);
    this.#words = words;
    this.#events = new Int16Array(words.buffer);
  }
}
