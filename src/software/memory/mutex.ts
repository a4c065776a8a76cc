/**
 * A mutex in shared memory, for threads that share nothing else.
 *
 * @module
 */

/** The values of a mutex's word. */
const mutexState = {
  free: 0,
  held: 1,
  /** Held, and other threads may sleep until it is released. */
  contended: 2,
} as const;
/** How often a thread looks at a held mutex before it sleeps. Holders execute a few hundred instructions. */
const spins = 200;
/** The maximum number of milliseconds for which a thread sleeps before it looks again. */
const sleepMilliseconds = 100;

/** Acquires the mutex in a word, which is 0 at first. Blocks while another thread holds the mutex. */
export function acquireMutex(words: Int32Array, index: number): void {
  if (Atomics.compareExchange(words, index, mutexState.free, mutexState.held) !== mutexState.free) {
    awaitMutex(words, index);
  }
}

function awaitMutex(words: Int32Array, index: number): void {
  for (let spin = 0; spin < spins; spin++) {
    const isFree = Atomics.load(words, index) === mutexState.free;
    if (isFree && Atomics.compareExchange(words, index, mutexState.free, mutexState.held) === mutexState.free) return;
  }
  while (Atomics.exchange(words, index, mutexState.contended) !== mutexState.free) {
    Atomics.wait(words, index, mutexState.contended, sleepMilliseconds);
  }
}

/** Releases a mutex. What the thread has written becomes visible to others before what it writes later. */
export function releaseMutex(words: Int32Array, index: number): void {
  if (Atomics.exchange(words, index, mutexState.free) === mutexState.contended) Atomics.notify(words, index, 1);
  // An exchange alone lets a processor with weak ordering move later stores before earlier ones.
  Atomics.load(words, index);
}
