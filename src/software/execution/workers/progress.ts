/**
 * The progress of the worker threads, for which the main thread can wait.
 *
 * @module
 */

/** A number in shared memory that worker threads increase whenever the main thread may have something to do. */
export class Progress {
  /** The number, in memory that all threads share. */
  readonly word: Int32Array<SharedArrayBuffer>;
  /** Whether a callback waits for the number to change. */
  #isAwaited = false;

  constructor(word: Int32Array<SharedArrayBuffer> = new Int32Array(new SharedArrayBuffer(4))) {
    this.word = word;
  }

  get value(): number {
    return Atomics.load(this.word, 0);
  }

  /** Increases the number, and wakes the main thread. */
  advance(): void {
    Atomics.add(this.word, 0, 1);
    Atomics.notify(this.word, 0);
  }

  /** Blocks until the number is not `seen`, but at most for some milliseconds. */
  wait(seen: number, milliseconds: number): void {
    Atomics.wait(this.word, 0, seen, milliseconds);
  }

  /** Calls `callback` from the event loop when the number is not `seen`. Does not keep the process alive. */
  whenAdvanced(seen: number, callback: () => void): void {
    if (this.#isAwaited) return;
    const { value } = Atomics.waitAsync(this.word, 0, seen);
    this.#isAwaited = true;
    Promise.resolve(value).then(() => {
      this.#isAwaited = false;
      callback();
    });
  }
}

/** The progress of all worker threads of the process. */
export const workerProgress: Progress = new Progress();
