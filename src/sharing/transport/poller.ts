/**
 * Waits for descriptors. All waits of a JavaScript thread share one poll.
 *
 * Deno can make native calls off the event loop's thread. There, one parked call of `poll` waits for all descriptors;
 * adding or removing a descriptor interrupts it through an eventfd. For half a millisecond before the call is parked,
 * or two milliseconds in a process that serves a store, each turn of the event loop polls the descriptors without
 * blocking: returning from a parked call takes two thread switches, which can take as long as that if processors become
 * idle. On Bun and Node, the event loop polls at each turn for the first two milliseconds after an event, then every
 * millisecond, and after a tenth of a second every four milliseconds. This costs up to 4 ms of latency, and one or two
 * percent of a processor for as long as a wait lasts.
 *
 * Without pending waits and watches, nothing is polled. A pending wait or watch keeps the process alive.
 *
 * @module
 */
import { jsRuntime } from "../../../ffi/native/host.ts";
import { errno, shim, unwrap } from "../../../ffi/native/shim/shim.ts";
import { runEach } from "../../support/errors.ts";
import { abortError, nextTurn } from "../../support/waiting/waiting.ts";

/**
 * The event bit for available data, a pending connection or the end of the stream; for a pidfd, the exit of the
 * process.
 */
export const readable = 1;
/** The event bit for free space in the buffer, or a closed reading end. */
export const writable = 4;

/** A descriptor and a bit mask of the events to wait for: `readable` and `writable`. */
export interface Interest {
  readonly fd: number;
  readonly events: number;
}

/** The repeated polling of one descriptor. */
export interface Watch {
  /** Changes the bit mask of the events to wait for. */
  change(events: number): void;
  /** Ends the watch, after which no handler is called. Must be called before the descriptor is closed. */
  cancel(): void;
}

/** The callbacks of a watch. An error thrown by a callback is reported as an uncaught error. */
export interface WatchHandlers {
  /** Called at each poll that finds an event, with the bit mask of the events found. */
  onReady(events: number): void;
  /** Called if the system cannot poll the descriptor, which ends the watch. */
  onFailure(error: unknown): void;
}

interface Waiter {
  readonly registrations: readonly WaiterRegistration[];
  /** @param events for each registration, in order, the bit mask of the events that have occurred */
  resolve(events: readonly number[]): void;
  reject(error: unknown): void;
}

interface WaiterRegistration extends Registration {
  readonly waiter: Waiter;
}

/**
 * The number of pending waits at which `isCrowded` returns true. Rare events should then be detected by a timer,
 * because each further descriptor delays every wakeup.
 */
const crowdedCount = 128;
/**
 * The number of descriptors to pass to one call of `poll`. The events of a batch are handled before the next call.
 * Recently ready descriptors are in the first batch.
 */
const batchSize = 64;
/** Milliseconds after an event during which descriptors are polled at each turn of the event loop. */
const spinMilliseconds = jsRuntime === "deno" ? 0.5 : 2;
/** The value used instead of `spinMilliseconds` while `attendRequests` is in effect. */
const attentiveSpin = 2;
/**
 * Milliseconds after an event during which the pause between polls is `attentivePause`. After that, the pause is
 * `idlePause`.
 */
const attentiveMilliseconds = 100;
/** Milliseconds between two polls for `attentiveMilliseconds` after an event. */
const attentivePause = 1;
/** Milliseconds between two polls when no event has occurred for `attentiveMilliseconds`. */
const idlePause = 4;

const waiters = new Set<Waiter>();
/** The descriptors of all waiters. The first entry is `eventfd`, which is created together with the table. */
let table: PollTable<WaiterRegistration> | undefined;
let serving = false;
/** The number of calls of `attendRequests` that are in effect. */
let attentiveCount = 0;
/** The `performance.now()` time at which a wait last began or ended. */
let lastEvent = 0;
/**
 * Whether a wait has ended since the last pause. `lastEvent` is then set at the next pause, which reads the time
 * anyway.
 */
let hadEvent = false;
/** The number of times that all descriptors were polled. */
let polls = 0;
/**
 * Ends the current pause between polls, or the current call in `park`, early. Undefined if there is no such pause or
 * call.
 */
let interruptPause: (() => void) | undefined;
/**
 * Resolves when the interrupted `poll` call in `park` has returned. Until then, the kernel may use descriptors of
 * canceled waits.
 */
let interruptedCall: Promise<void> | undefined;
/**
 * The eventfd that interrupts the `poll` call in `park`. It is never closed, so that a process without free descriptors
 * can still wait.
 */
let eventfd = -1;
/**
 * The `pollfd` array for the `poll` call in `park`: a copy of the table, because another thread may read the array at
 * any time.
 */
let parked: Uint8Array<ArrayBuffer>;

/**
 * Waits until an event of one of the interests occurs. Resolves to an array that states for each interest whether an
 * event has occurred. An error or hang-up on a descriptor counts as an event of each interest in the descriptor.
 *
 * @param signals the promise is rejected when the first of these signals is aborted
 * @param description what is awaited, for the error if the wait is aborted
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
 * Polls a descriptor until the watch is canceled. For recurring events, this is cheaper than repeated waits. An error
 * or hang-up on the descriptor is reported as all events of the interest.
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
 * Creates `table` and `eventfd`, which are never freed. After that, waits do not fail for lack of descriptors.
 *
 * @throws {SystemError} `EMFILE` or `ENFILE` if no descriptor is left
 */
export function preparePolling(): void {
  if (table !== undefined) return;
  if (jsRuntime === "deno") eventfd = unwrap(shim().poolpass_eventfd(), "eventfd");
  table = new PollTable(eventfd);
}

/**
 * On runtimes that poll at intervals, polls more often for `attentiveMilliseconds`. Called after sending a message to
 * which the peer may reply.
 */
export function expectAnswer(): void {
  if (jsRuntime === "deno" || !serving) return;
  const now = performance.now();
  const wasIdle = now - lastEvent >= attentiveMilliseconds;
  lastEvent = Math.max(lastEvent, now - spinMilliseconds);
  if (wasIdle) interruptPause?.();
}

/**
 * Polls at every turn of the event loop for `spinMilliseconds`. Called after sending a request whose reply the sender
 * is waiting for.
 */
export function awaitAnswer(): void {
  if (!serving) return;
  lastEvent = performance.now();
  interruptPause?.();
}

/**
 * Extends the time after an event during which every turn of the event loop polls, until the returned function is
 * called. Called by servers whose clients send their next request soon after each answer.
 */
export function attendRequests(): () => void {
  attentiveCount++;
  let isOver = false;
  return () => {
    if (!isOver) attentiveCount--;
    isOver = true;
  };
}

/** Returns the number of polls so far. If the number has changed, a new turn of the event loop has begun. */
export function pollCount(): number {
  return polls;
}

/** Returns whether so many waits are pending that the caller should detect rare events by a timer instead. */
export function isCrowded(): boolean {
  return waiters.size >= crowdedCount;
}

/** Resolves once the kernel no longer uses the descriptors of aborted waits and canceled watches. */
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
  // Defer the first poll, so that one call of `poll` serves all waits that begin in the same synchronous code.
  await undefined;
  while (waiters.size > 0) {
    await waitBetweenPolls();
    await pollAll();
  }
  serving = false;
}

/** Waits until the next poll. The pause is longer if no event has occurred recently. */
async function waitBetweenPolls(): Promise<void> {
  const now = performance.now();
  if (hadEvent) lastEvent = now;
  hadEvent = false;
  const idle = now - lastEvent;
  if (idle < (attentiveCount > 0 ? attentiveSpin : spinMilliseconds)) await nextTurn();
  else if (jsRuntime === "deno") await park();
  else await pause(idle < attentiveMilliseconds ? attentivePause : idlePause);
}

/** Calls `poll` on another thread, and waits until a descriptor is ready or the call is interrupted. */
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

/** Polls all descriptors and resolves the waiters whose events have occurred. */
async function pollAll(): Promise<void> {
  polls++;
  for (let first = 1; first < table!.count; first += batchSize) {
    if (!pollBatch(first)) continue;
    hadEvent = true;
    // Run microtasks after each batch, because they send the replies to received messages.
    await undefined;
  }
}

/** Polls the batch of descriptors that starts at index `first` of the table. Returns whether a waiter was resolved. */
function pollBatch(first: number): boolean {
  const count = Math.min(batchSize, table!.count - first);
  // `park` reports no events, because its poll must not write to the memory of a thread that may have ended. So poll
  // once more here, without blocking, to collect the events.
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

/**
 * Returns the bit mask of the events of a registration that have occurred. If `poll` reports an error or a hang-up,
 * returns all events of the registration.
 */
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

/** A descriptor, and the events that one waiter waits for. `PollTable.change` changes the events. */
export interface Registration {
  readonly fd: number;
  /** A bit mask of events, as in `struct pollfd`. */
  events: number;
}

interface Entry<R> {
  index: number;
  readonly registrations: R[];
}

const initialCapacity = 16;

/**
 * An array of `struct pollfd`. All registrations of a descriptor share one entry, because `poll` accepts at most as
 * many entries as a process may have open descriptors. The first entry is reserved for the creator of the table. The
 * array is kept between calls of `poll`: with hundreds of mostly idle connections, rebuilding the array would cost more
 * than the call.
 */
export class PollTable<R extends Registration> {
  #words = new Int32Array(2 * initialCapacity);
  #events = new Int16Array(this.#words.buffer);
  /** The descriptor of each entry. */
  readonly #fds: number[] = [-1];
  readonly #entries = new Map<number, Entry<R>>();

  /** @param first the descriptor of the first entry, or -1; `takeReady` ignores this entry */
  constructor(first: number) {
    this.#fds[0] = first;
    this.#set(0, first, 1);
  }

  /** The number of entries, including the first one. */
  get count(): number {
    return this.#fds.length;
  }

  /** Returns a view of the entries from index `firstEntry` on, which can be passed to `poll`. */
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
   * Returns the registrations with ready descriptors, each mapped to the events that `poll` reported for it. Moves the
   * ready entries toward the front of the table.
   *
   * @param first the index of the first entry that was passed to `poll`
   * @param found the number of ready entries, which `poll` has returned
   */
  takeReady(first: number, found: number): Map<R, number> {
    const ready = new Map<R, number>();
    for (let index = first, left = found; left > 0 && index < this.count; index++) {
      const events = this.#events[index * 4 + 3]!;
      if (events === 0) continue;
      left--;
      const fd = this.#fds[index]!;
      for (const registration of this.#entries.get(fd)!.registrations) ready.set(registration, events);
      // Swap the entry with an entry that this loop has already passed.
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
