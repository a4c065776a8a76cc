/**
 * One wait for all descriptors of a JavaScript thread.
 *
 * Where the runtime can make a call off its event loop's thread (Deno), that is one parked `poll` for everything that is
 * waited for, interrupted through an eventfd when something is added or taken away. Elsewhere (Bun, Node) the event
 * loop looks at the descriptors at each of its turns for the first two milliseconds after something happened, then
 * every millisecond, after a tenth of a second every four: up to 4 ms of latency, and one or two hundredths of a
 * processor for as long as a wait goes on.
 *
 * Nothing runs while nobody waits. A wait that is pending keeps the process alive.
 *
 * @module
 */
import { host } from "../../ffi/host.ts";
import { shim, unwrap } from "../../ffi/shim/shim.ts";
import { errno } from "../../ffi/shim/system_error.ts";
import { nextTurn } from "../turn.ts";

/** There is something to read or to accept, or the stream's end; of a process, that it has ended. */
export const readable = 1;
/** There is room to write, or nobody who would read it. */
export const writable = 4;

/** What to wait for on a descriptor: `readable` or `writable`. */
export interface Interest {
  readonly fd: number;
  readonly events: number;
}

interface Waiter {
  readonly interests: readonly Interest[];
  resolve(ready: readonly boolean[]): void;
  reject(error: unknown): void;
}

const spinMilliseconds = 2;
const attentiveMilliseconds = 100;
const attentivePause = 1;
const idlePause = 4;

const waiters = new Set<Waiter>();
let serving = false;
/** When a wait began or ended last, in milliseconds. */
let lastEvent = 0;
/** Ends the present pause or parked call early; undefined while there is neither. */
let interruptPause: (() => void) | undefined;
/** The parked call that was interrupted and may still hold descriptors that nobody waits for any more. */
let leaving: Promise<void> | undefined;
/** Interrupts the parked call. Kept once made: a server whose descriptor table is full must still be able to wait. */
let eventfd: number | undefined;

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
    if (host === "deno") eventfd ??= unwrap(shim().poolpass_eventfd(), "eventfd");
    const waiter: Waiter = {
      interests,
      resolve(ready) {
        forget();
        resolve(ready);
      },
      reject(error) {
        forget();
        reject(error);
      },
    };
    function forget(): void {
      waiters.delete(waiter);
      for (const signal of signals) signal?.removeEventListener("abort", onAbort);
    }
    function onAbort(event: Event): void {
      waiter.reject((event.target as AbortSignal).reason);
      interruptPause?.();
    }
    for (const signal of signals) signal?.addEventListener("abort", onAbort);
    waiters.add(waiter);
    lastEvent = performance.now();
    if (serving) interruptPause?.();
    else void serve();
  });
}

/** Resolves when the kernel has let go of the descriptors of waits that were aborted. */
export async function settled(): Promise<void> {
  await leaving;
}

async function serve(): Promise<void> {
  serving = true;
  // Those who begin to wait in the same turn are then served by the same call.
  await undefined;
  while (waiters.size > 0) {
    await (host === "deno" ? park() : pause());
    const served = look();
    // Most of those served wait again at once: after them, there is nothing to interrupt.
    if (served > 0 && waiters.size > 0) await nextTurn();
  }
  serving = false;
}

/** Waits off the event loop's thread, until something is ready or the wait is interrupted. */
async function park(): Promise<void> {
  const fd = eventfd!;
  const { table, count } = tableOf([{ interests: [{ fd, events: readable }] }, ...waiters]);
  const call = shim().poolpass_park(table, count) as Promise<number>;
  interruptPause = () => {
    interruptPause = undefined;
    shim().poolpass_eventfd_set(fd);
    leaving = call.then(() => {
      leaving = undefined;
    });
  };
  const result = await call;
  interruptPause = undefined;
  shim().poolpass_eventfd_clear(fd);
  if (result < 0 && result !== -errno.EINTR) rejectAll(result);
}

/** Pauses between two looks: not at all at first, and longer the longer nothing happens. */
async function pause(): Promise<void> {
  const idle = performance.now() - lastEvent;
  if (idle < spinMilliseconds) return await nextTurn();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, idle < attentiveMilliseconds ? attentivePause : idlePause);
    interruptPause = () => {
      clearTimeout(timer);
      resolve();
    };
  });
  interruptPause = undefined;
}

/** Looks at all descriptors, and resolves the waits that have come to an end: how many there were. */
function look(): number {
  const looked = [...waiters];
  const { table, count, slots } = tableOf(looked);
  // The parked call tells nothing, so that it never writes to memory of a thread that is gone: this one does.
  const result = shim().poolpass_poll(table, count, 0);
  if (result < 0 && result !== -errno.EINTR) rejectAll(result);
  if (result <= 0) return 0;
  const events = new Int16Array(table.buffer);
  let served = 0;
  for (const waiter of looked) {
    const ready = waiter.interests.map((interest) => {
      const happened = events[slots.get(interest.fd)! * 4 + 3]!;
      // Whatever is not asked for and told all the same is an error or a hang-up.
      return (happened & (interest.events | ~(readable | writable))) !== 0;
    });
    if (!ready.includes(true)) continue;
    waiter.resolve(ready);
    served++;
  }
  if (served > 0) lastEvent = performance.now();
  return served;
}

/** An array of `struct pollfd`, with one entry for each descriptor: poll takes no more than a process may open. */
function tableOf(waiters: readonly Pick<Waiter, "interests">[]): {
  readonly table: Uint8Array<ArrayBuffer>;
  readonly count: number;
  readonly slots: ReadonlyMap<number, number>;
} {
  const slots = new Map<number, number>();
  const events: number[] = [];
  for (const { interests } of waiters) {
    for (const interest of interests) {
      const slot = slots.get(interest.fd);
      if (slot === undefined) {
        slots.set(interest.fd, events.length);
        events.push(interest.events);
      } else {
        events[slot]! |= interest.events;
      }
    }
  }
  const words = new Int32Array(events.length * 2);
  for (const [fd, slot] of slots) {
    words[slot * 2] = fd;
    words[slot * 2 + 1] = events[slot]!;
  }
  return { table: new Uint8Array(words.buffer), count: events.length, slots };
}

function rejectAll(result: number): void {
  for (const waiter of [...waiters]) {
    try {
      unwrap(result, "poll");
    } catch (error) {
      waiter.reject(error);
    }
  }
}
