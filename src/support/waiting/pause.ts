const pauseMilliseconds = 0.2;

/** Stays 0, so that `Atomics.wait` always waits until its timeout. */
let neverChanged: Int32Array<SharedArrayBuffer> | undefined;

/** Blocks the thread without using the processor, between polls of another process: for 0.2 milliseconds unless given. */
export function pause(milliseconds: number = pauseMilliseconds): void {
  neverChanged ??= new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(neverChanged, 0, 0, milliseconds);
}
