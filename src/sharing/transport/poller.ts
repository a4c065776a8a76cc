/**
 * One wait for all descriptors of a JavaScript thread.
 *
 * Where the runtime can make a call off its event loop's thread (Deno), that is one parked `poll` for everything that is
 * waited for, interrupted through an eventfd when something is added or taken away. Half a millisecond goes before it, in
 * which the event loop looks at the descriptors at each of its turns: to be woken takes two changes of threads, up to as
 * long as that where processors fall asleep. Elsewhere (Bun, Node) the event loop looks at each of its turns for the
 * first two milliseconds after something happened, then every millisecond, after a tenth of a second every four: up to
 * 4 ms of latency, and one or two hundredths of a processor for as long as a wait goes on.
 *
 * Nothing runs while nobody waits. A wait or a watch that goes on keeps the process alive.
 *
 * @module
 */
import { host } from "../../../ffi/host.ts";
import { shim, unwrap } from "../../../ffi/shim/shim.ts";
import { errno } from "../../../ffi/shim/system_error.ts";
import { nextTurn } from "../../support/waiting/turn.ts";
import { PollTable, type Registration } from "./poll_table.ts";

/** There is something to read or to accept, or the stream's end; of a process, that it has ended. */
export const readable = 1;
/** There is room to write, or nobody who would read it. */
export const writable = 4;

/** What to wait for on a descriptor: `readable` or `writable`. */
export interface Interest {
  readonly fd: number;
  readonly events: number;
}

/** A descriptor that is looked at again and again. */
export interface Watch {
  /** Looks for other events from now on. */
  change(events: number): void;
  /** Ends it: nothing is called back any more. Call it before the descriptor is closed. */
  cancel(): void;
}

/** What a watch calls back. What it throws is reported as an uncaught error. */
export interface WatchHandlers {
  /** Some of the events are there; as long as they are, this is called at each turn. */
  onReady(events: number): void;
  /** The system cannot watch; the watch has ended. */
  onFailure(error: unknown): void;
}

interface Waiter {
  readonly registrations: readonly WaiterRegistration[];
  /** @param events one number for each registration, 0 where nothing happened */
  resolve(events: readonly number[]): void;
  reject(error: unknown): void;
}

interface WaiterRegistration extends Registration {
  readonly waiter: Waiter;
}

/** So many are waited for at once: each more makes every wake later, for all. */
const comfortableCount = 128;
/** So many descriptors are looked at together, and served before the next: those that were ready lately come first. */
const lookCount = 64;
const spinMilliseconds = host === "deno" ? 0.5 : 2;
const attentiveMilliseconds = 100;
const attentivePause = 1;
const idlePause = 4;

const waiters = new Set<Waiter>();
/** Of all waiters. Made with the eventfd. */
let table: PollTable<WaiterRegistration> | undefined;
let serving = false;
/** When a wait began or ended last, in milliseconds. */
let lastEvent = 0;
/** Times that the descriptors were looked at. */
let looks = 0;
/** Ends the present pause or parked call early; undefined while there is neither. */
let interruptPause: (() => void) | undefined;
/** The parked call that was interrupted and may still hold descriptors that nobody waits for any more. */
let leaving: Promise<void> | undefined;
/** Interrupts the parked call. Kept once made: a server whose descriptor table is full must still be able to wait. */
let eventfd = -1;
/** What the parked call was given, which another thread reads at a time of its own. */
let parked: Uint8Array<ArrayBuffer>;

/**
 * Waits until one of the interests is fulfilled, and tells which are. An error or hang-up on a descriptor fulfils any.
 *
 * @param signals each of them, once aborted, rejects the wait with its reason
 */
export function waitFor(
  interests: readonly Interest[],
  signals: readonly (AbortSignal | undefined)[],
): Promise<readonly boolean[]> {
  return new Promise((resolve, reject) => {
    for (const signal of signals) if (signal?.aborted) return reject(signal.reason);
    const waiter = addWaiter(interests, {
      resolve(events) {
        forget();
        resolve(events.map((event) => event !== 0));
      },
      reject(error) {
        forget();
        reject(error);
      },
    });
    function forget(): void {
      removeWaiter(waiter);
      for (const signal of signals) signal?.removeEventListener("abort", onAbort);
    }
    function onAbort(event: Event): void {
      waiter.reject((event.target as AbortSignal).reason);
      interruptPause?.();
    }
    for (const signal of signals) signal?.addEventListener("abort", onAbort);
  });
}

/**
 * Looks at a descriptor until the watch is cancelled: for what is waited for again and again, this costs less than one
 * wait after another. An error or hang-up on the descriptor counts as all events that are looked for.
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
 * Makes what a wait or a watch needs and what is kept then, so that a later one does not fail for want of it.
 *
 * @throws {SystemError} `EMFILE` or `ENFILE`
 */
export function preparePolling(): void {
  if (table !== undefined) return;
  if (host === "deno") eventfd = unwrap(shim().poolpass_eventfd(), "eventfd");
  table = new PollTable(eventfd);
}

/** Looks more often for a while, where it looks now and then: something was sent, and an answer may come. */
export function expectAnswer(): void {
  if (host === "deno" || !serving) return;
  const now = performance.now();
  const wasIdle = now - lastEvent >= attentiveMilliseconds;
  lastEvent = Math.max(lastEvent, now - spinMilliseconds);
  if (wasIdle) interruptPause?.();
}

/** A number that is another one after the descriptors were looked at again: it tells one turn of the thread from another. */
export function pollCount(): number {
  return looks;
}

/** Whether so much is waited for that what seldom happens is better looked for in another way. */
export function isCrowded(): boolean {
  return waiters.size >= comfortableCount;
}

/** Whether there is something to read at once. */
export function isReadable(fd: number): boolean {
  const pollfd = new Uint8Array(Int32Array.of(fd, readable).buffer);
  return unwrap(shim().poolpass_poll(pollfd, 1, 0), "poll") > 0;
}

/** Resolves when the kernel has let go of the descriptors of waits that were aborted, and of watches. */
export async function settled(): Promise<void> {
  await leaving;
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
  // Those who begin to wait in the same turn are then served by the same call.
  await undefined;
  while (waiters.size > 0) {
    await rest();
    await look();
  }
  serving = false;
}

/** Lets others have their turn between two looks: the longer nothing happens, the longer. */
async function rest(): Promise<void> {
  const idle = performance.now() - lastEvent;
  if (idle < spinMilliseconds) await nextTurn();
  else if (host === "deno") await park();
  else await pause(idle < attentiveMilliseconds ? attentivePause : idlePause);
}

/** Waits off the event loop's thread, until something is ready or the wait is interrupted. */
async function park(): Promise<void> {
  parked = table!.bytes(0).slice();
  const call = shim().poolpass_park(parked, table!.count) as Promise<number>;
  interruptPause = () => {
    interruptPause = undefined;
    shim().poolpass_eventfd_set(eventfd);
    leaving = call.then(() => {
      leaving = undefined;
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

/** Looks at all descriptors, and serves who waits for them. */
async function look(): Promise<void> {
  looks++;
  for (let first = 1; first < table!.count; first += lookCount) {
    if (!lookAt(first)) continue;
    lastEvent = performance.now();
    // What those who were served send is written in microtasks: now, not when everything has been looked at.
    await undefined;
  }
}

/** Looks at the descriptors from one place in the table on. Whether somebody was served. */
function lookAt(first: number): boolean {
  const count = Math.min(lookCount, table!.count - first);
  // The parked call tells nothing, so that it never writes to memory of a thread that is gone: this one does.
  const result = shim().poolpass_poll(table!.bytes(first), count, 0);
  if (result < 0 && result !== -errno.EINTR) rejectAll(result);
  if (result <= 0) return false;
  const happened = table!.happened(first, result);
  const ready = new Map<Waiter, readonly number[]>();
  for (const { waiter } of happened.keys()) {
    if (ready.has(waiter)) continue;
    const events = waiter.registrations.map((registration) => fulfilled(registration, happened.get(registration) ?? 0));
    if (events.some((event) => event !== 0)) ready.set(waiter, events);
  }
  for (const [waiter, events] of ready) if (waiters.has(waiter)) callBack(() => waiter.resolve(events));
  return ready.size > 0;
}

/** Whatever is not asked for and told all the same is an error or a hang-up. */
function fulfilled({ events }: Registration, happened: number): number {
  return (happened & ~(readable | writable)) === 0 ? happened & events : events;
}

function rejectAll(result: number): void {
  for (const waiter of [...waiters]) {
    try {
      unwrap(result, "poll");
    } catch (error) {
      callBack(() => waiter.reject(error));
    }
  }
}

/** An error in one callback is its owner's alone: the others are served all the same. */
function callBack(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
