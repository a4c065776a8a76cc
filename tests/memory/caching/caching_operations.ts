/**
 * Random traces for an allocator: operations that a program may do with it and with its streams, recorded so that parts
 * of a trace can be repeated.
 *
 * @module
 */
import type { LateAnswers } from "./caching_fake_driver.ts";
import type { Random } from "../../support/ptx_mutations.ts";

/**
 * One operation of a trace. An operation that names a missing object is skipped, so that any subset of a trace is a
 * trace.
 */
export type Operation =
  | { do: "allocate"; buffer: number; allocator: number; stream: number; byteLength: number; isArray: boolean }
  | { do: "fill"; buffer: number; stream: number; begin: number; end: number; byKernel: boolean }
  | { do: "copy"; from: number; to: number; stream: number }
  | { do: "read"; buffer: number; stream: number }
  | { do: "keep"; buffer: number }
  | { do: "let go"; buffer: number }
  | { do: "free"; buffer: number; stream: number; byDispose: boolean; isUnordered: boolean }
  | { do: "create stream"; stream: number; device: number }
  | { do: "dispose stream"; stream: number }
  | { do: "delay"; stream: number; works: number }
  | { do: "hold"; stream: number }
  | { do: "open" }
  | { do: "record"; event: number; stream: number }
  | { do: "wait"; event: number; stream: number }
  | { do: "query"; stream: number }
  | { do: "synchronize"; stream: number }
  | { do: "progress"; stream: number; steps: number }
  | { do: "answer late"; late: LateAnswers }
  | { do: "trim"; allocator: number; byteLength: number }
  | { do: "reset high"; allocator: number }
  | { do: "misuse"; buffer: number; allocator: number; stream: number }
  | { do: "dispose allocator"; allocator: number }
  | { do: "dispose pool" };

/** The settings of a whole trace. */
export interface TraceSettings {
  /** 0 for the default: slabs for single large buffers when memory is scarce. */
  readonly slabByteLength: number;
  readonly allocators: number;
  /** 0 for no limit, as in `poolMaxSize`. */
  readonly maxSize: number;
  readonly poolMaxSize: number;
  readonly maxUnused: number;
  readonly isInHostMemory: boolean;
  /** The objects that are disposed first at the end. */
  readonly ending: "buffers" | "allocators" | "pool" | "session";
}

/** The objects that an operation can name. */
export interface TraceState {
  readonly buffers: readonly { readonly id: number; readonly byteLength: number; readonly stream: number }[];
  /** Buffers that holders keep, freed or not. */
  readonly kept: readonly number[];
  readonly streams: readonly number[];
}

/** The capabilities of a device. */
export interface TraceDevice {
  readonly devices: number;
  /** Whether it is a fake, which advances only on request, has exact limits, and computes nothing. */
  readonly isFake: boolean;
  /** Whether a trace may hold streams. */
  readonly mayHold: boolean;
}

type Kind = Operation["do"];

/** Relative frequencies of the operations, before a trace varies them. */
const usualWeights: Readonly<Record<Kind, number>> = {
  "allocate": 40,
  "fill": 20,
  "copy": 4,
  "read": 2,
  "keep": 3,
  "let go": 4,
  "free": 36,
  "create stream": 2.5,
  "dispose stream": 2.5,
  "delay": 6,
  "hold": 0,
  "open": 0,
  "record": 3,
  "wait": 3,
  "query": 2,
  "synchronize": 3,
  "progress": 12,
  "answer late": 2,
  "trim": 2,
  "reset high": 1,
  "misuse": 1,
  "dispose allocator": 0.1,
  "dispose pool": 0.05,
};
/** Operations that are rare in a long trace, so that streams and the allocator's knowledge of them last. */
const lasting: ReadonlySet<Kind> = new Set([
  "create stream",
  "dispose stream",
  "trim",
  "answer late",
  "keep",
  "dispose allocator",
  "dispose pool",
]);
const kinds = Object.keys(usualWeights) as Kind[];
const events = 3;
const mebibyte = 2 ** 20;

/** Distributions of sizes, by the bytes that the trace has at most, or should use approximately. */
const sizesOf: Readonly<Record<string, (random: Random, room: number) => () => number>> = {
  tiny: (random) => () => 1 + random.below(2048),
  equal: (random, room) => {
    const size = 1 + random.below(Math.ceil(room / 4));
    return () => size;
  },
  few: (random, room) => {
    const sizes = Array.from({ length: 3 }, () => 1 + random.below(Math.ceil(room / 4)));
    return () => random.pick(sizes);
  },
  powers: (random, room) => {
    const exponents = Math.max(1, Math.floor(Math.log2(room)));
    return () => 2 ** random.below(exponents);
  },
  any: (random, room) => () => 1 + random.below(Math.ceil(room / 3)),
  large: (random, room) => () => 1 + random.below(random.below(3) === 0 ? Math.ceil(room * 1.1) : 4096),
};

/** Generates operations of every kind. The same seed gives the same operations. */
export class OperationSource {
  readonly settings: TraceSettings;
  readonly length: number;
  readonly #random: Random;
  readonly #device: TraceDevice;
  readonly #weights: readonly number[];
  readonly #size: () => number;
  readonly #fewBuffers: number;
  readonly #staysOnStream: number;
  readonly #freesElsewhere: number;
  #next = 100;
  #lastStream = 0;

  constructor(random: Random, device: TraceDevice) {
    this.#random = random;
    this.#device = device;
    const { isFake, mayHold } = device;
    // Only in a long trace does a stream take other streams' memory so many times that it gets a slab of its own.
    const isLong = isFake && random.below(12) === 0;
    const isTight = isLong || random.below(2) === 0;
    // A slab has at least 2 MiB, unless there is too little room.
    const room = isTight ? random.pick([4096, 20_000, 65_536, 300_001, 3 * mebibyte]) : random.pick([
      65_536,
      mebibyte,
      isFake ? 9 * mebibyte : mebibyte,
    ]);
    const isPoolTight = isFake && isTight && random.below(2) === 0;
    this.settings = {
      slabByteLength: random.pick([0, 1, 256, 2 * mebibyte, 5_000_000]),
      allocators: random.below(5) === 0 ? 2 : 1,
      maxSize: isTight && !isPoolTight ? room : random.below(8) === 0 ? 2 ** 40 : 0,
      poolMaxSize: isPoolTight ? room : 0,
      maxUnused: random.below(6) === 0 ? random.pick([0, 65_536, 2 * mebibyte]) : Infinity,
      isInHostMemory: random.below(10) === 0,
      ending: random.pick(["buffers", "buffers", "allocators", "pool", ...isFake ? ["session"] as const : []]),
    };
    this.length = isLong ? 250 : 10 + random.below(isFake ? 80 : 60);
    this.#size = sizesOf[random.pick(Object.keys(sizesOf))]!(random, isFake ? room : Math.min(room, 100_000));
    this.#weights = kinds.map((kind) => {
      if (!isFake && (kind === "progress" || kind === "answer late")) return kind === "progress" ? 3 : 0;
      if (kind === "hold" || kind === "open") return mayHold ? 2 : 0;
      if (isLong && kind === "progress") return usualWeights[kind] * 4;
      if (isLong && lasting.has(kind)) return usualWeights[kind] / 10;
      return usualWeights[kind] * random.pick([0.2, 1, 1, 1, 3]);
    });
    this.#fewBuffers = random.pick([3, 8, 20]);
    this.#staysOnStream = isLong ? 97 : random.pick([20, 60, 90]);
    this.#freesElsewhere = isLong ? 100 : random.pick([0, 10, 50]);
  }

  /** The streams at the start, besides the default stream of the first device. */
  first(): Operation[] {
    return Array.from({ length: this.#random.below(4) }, () => this.#createStream());
  }

  /** Returns the next operation, or undefined if the kind chosen is impossible. */
  next({ buffers, kept, streams }: TraceState): Operation | undefined {
    const random = this.#random;
    const stream = this.#stream(streams);
    const buffer = buffers.length === 0 ? undefined : random.pick(buffers);
    const allocator = random.below(this.settings.allocators);
    const kind = this.#kind(buffers.length);
    switch (kind) {
      case "allocate": {
        const byteLength = this.#size();
        return { do: kind, buffer: this.#next++, allocator, stream, byteLength, isArray: random.below(8) === 0 };
      }
      case "fill": {
        if (buffer === undefined) return undefined;
        const isPart = random.below(4) === 0;
        const begin = isPart ? random.below(buffer.byteLength) : 0;
        const end = isPart ? begin + random.below(buffer.byteLength - begin + 1) : buffer.byteLength;
        const on = random.below(4) === 0 ? stream : buffer.stream;
        return { do: kind, buffer: buffer.id, stream: on, begin, end, byKernel: random.below(3) === 0 };
      }
      case "copy":
        return buffer && { do: kind, from: buffer.id, to: random.pick(buffers).id, stream };
      case "read":
        return buffer && { do: kind, buffer: buffer.id, stream };
      case "keep":
        return buffer && { do: kind, buffer: buffer.id };
      case "let go":
        return kept.length === 0 ? undefined : { do: kind, buffer: random.pick(kept) };
      case "free": {
        const on = random.below(100) < this.#freesElsewhere ? random.pick(streams) : buffer?.stream ?? stream;
        const byDispose = random.below(6) === 0;
        return buffer && { do: kind, buffer: buffer.id, stream: on, byDispose, isUnordered: random.below(3) === 0 };
      }
      case "create stream":
        return streams.length < 6 ? this.#createStream() : undefined;
      case "delay":
        return { do: kind, stream, works: 1 + random.below(20) };
      case "record":
      case "wait":
        return { do: kind, event: random.below(events), stream };
      case "progress":
        return { do: kind, stream, steps: 1 + random.below(30) };
      case "answer late":
        return { do: kind, late: random.pick(["none", "none", "streams", "events", "all"]) };
      case "trim": {
        const byteLength = random.pick([0, 0, 65_536, 2 * mebibyte, 1 + random.below(6 * mebibyte)]);
        return { do: kind, allocator, byteLength };
      }
      case "reset high":
      case "dispose allocator":
        return { do: kind, allocator };
      case "misuse":
        return { do: kind, buffer: buffer?.id ?? -1, allocator, stream };
      case "open":
      case "dispose pool":
        return { do: kind };
      default:
        return { do: kind, stream };
    }
  }

  #createStream(): Operation {
    return {
      do: "create stream",
      stream: this.#next++,
      device: this.#random.below(4) === 0 ? this.#device.devices - 1 : 0,
    };
  }

  #stream(streams: readonly number[]): number {
    const isKnown = streams.includes(this.#lastStream);
    if (!isKnown || this.#random.below(100) >= this.#staysOnStream) this.#lastStream = this.#random.pick(streams);
    return this.#lastStream;
  }

  #kind(buffers: number): Kind {
    const weights = this.#weights.map((weight, index) => {
      if (kinds[index] === "allocate" && buffers > this.#fewBuffers) return weight / 4;
      return weight;
    });
    const sum = weights.reduce((before, weight) => before + weight, 0);
    let left = this.#random.below(2 ** 20) / 2 ** 20 * sum;
    for (const [index, weight] of weights.entries()) if ((left -= weight) < 0) return kinds[index]!;
    return "allocate";
  }
}

/** Describes an operation as a string. */
export function describeOperation(operation: Operation): string {
  const { do: kind, ...rest } = operation;
  return [kind, ...Object.entries(rest).map(([name, value]) => `${name} ${value}`)].join(", ");
}
