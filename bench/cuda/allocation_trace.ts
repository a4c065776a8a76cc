/**
 * A pseudorandom sequence of allocations, which the programs in all languages generate in the same way.
 *
 * @module
 */

/** What a trace consists of. */
export interface TraceParameters {
  /** The number of steps. A step frees the buffer in a slot, if there is one, and allocates a new one into it. */
  readonly steps: number;
  /** The number of slots, and so of buffers that exist at a time. */
  readonly slots: number;
  /** The number of streams. */
  readonly streams: number;
  /** The smallest size in bytes. */
  readonly leastByteLength: number;
  /** The number of powers of two that sizes are chosen from. Within a power, each size is equally likely. */
  readonly octaves: number;
}

/** A trace. Each array has an element for each step. */
export interface AllocationTrace {
  readonly slots: readonly number[];
  readonly streams: readonly number[];
  readonly byteLengths: readonly number[];
  /** Differs between traces, so that each program can check that it has generated the same one. */
  readonly checksum: number;
}

/** Generates a trace. It only needs unsigned integers of 32 bits: the same trace exists in every language. */
export function allocationTrace(
  { steps, slots, streams, leastByteLength, octaves }: TraceParameters,
): AllocationTrace {
  const random = xorshift();
  const trace = {
    slots: [] as number[],
    streams: [] as number[],
    byteLengths: [] as number[],
    checksum: 0,
  };
  for (let step = 0; step < steps; step++) {
    const slot = random() % slots;
    const stream = random() % streams;
    const octave = leastByteLength * 2 ** (random() % octaves);
    const byteLength = octave + random() % octave;
    trace.slots.push(slot);
    trace.streams.push(stream);
    trace.byteLengths.push(byteLength);
    for (const number of [slot, stream, byteLength]) trace.checksum = (Math.imul(trace.checksum, 31) + number) >>> 0;
  }
  return trace;
}

/** Returns a generator of pseudorandom 32-bit integers, which are the same in each run. */
export function xorshift(): () => number {
  let state = 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}
