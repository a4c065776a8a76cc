const pauseMilliseconds = 0.2;

/** Stays 0, so that `Atomics.wait` always waits until its timeout. */
let neverChanged: Int32Array<SharedArrayBuffer> | undefined;

/** Blocks the thread for 0.2 milliseconds without using the processor, between polls of another process. */
export function pause(): void {
  neverChanged ??= new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(neverChanged, 0, 0, pauseMilliseconds);
}
