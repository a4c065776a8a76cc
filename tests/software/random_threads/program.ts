/**
 * Random programs for the worker threads of the software device. A seed always gives the same program, which is plain
 * data.
 *
 * @module
 */
import { Random } from "../../differential/random.ts";
import { faultNames, type KernelTraits, kernelTraits, rightNames } from "./kernels.ts";

type Dimensions = readonly [x: number, y: number, z: number];

/** A launch of a kernel. */
export interface LaunchStep {
  readonly kind: "launch";
  readonly kernel: string;
  readonly grid: Dimensions;
  readonly block: Dimensions;
  readonly sharedMemoryBytes: number;
  /** The buffers that the kernel writes and reads, by their indices. */
  readonly out: number;
  readonly in: number;
  readonly n: number;
  readonly k: number;
  /** Whether the output is filled with 0 before. */
  readonly isCleared: boolean;
}

/** What a program does on one of its streams, or while the streams have work. */
export type Step =
  & { readonly stream: number }
  & (
    | LaunchStep
    | { readonly kind: "fill"; readonly buffer: number; readonly byte: number }
    | { readonly kind: "copy"; readonly from: number; readonly to: number }
    | { readonly kind: "upload"; readonly buffer: number; readonly seed: number }
    | { readonly kind: "read"; readonly buffer: number }
    | { readonly kind: "reallocate"; readonly buffer: number; readonly length: number }
    | { readonly kind: "abortWait"; readonly milliseconds: number }
    | { readonly kind: "calculate"; readonly milliseconds: number }
    | { readonly kind: "synchronize" | "finish" | "query" | "nextTurn" | "synchronizeDevice" }
  );

/** A random program. */
export interface Program {
  readonly seed: number;
  readonly streams: number;
  /** The lengths of the buffers at the begin, in words. */
  readonly lengths: readonly number[];
  readonly steps: readonly Step[];
  /** Whether a kernel faults. */
  readonly isFaulty: boolean;
  /** Whether worker threads run all launches that they can. Otherwise, they run those that take long. */
  readonly isEager: boolean;
  /** The number of steps after which the `Cuda` object is disposed. Undefined if the program runs to its end. */
  readonly disposedAfter: number | undefined;
}

/** Returns the program of a seed. */
export function programOf(seed: number): Program {
  const random = new Random(seed);
  const streams = 1 + random.below(5);
  const buffers = 2 + random.below(5);
  const lengths = Array.from({ length: buffers }, () => lengthOf(random));
  const isFaulty = random.percent(20);
  const isEager = random.percent(60);
  const count = 4 + random.below(20);
  const fault = isFaulty ? random.below(count) : undefined;
  const steps = Array.from({ length: count }, (_, index): Step => {
    const stream = random.below(streams);
    return { stream, ...index === fault ? launchOf(random, lengths, faultNames) : stepOf(random, lengths) };
  });
  const disposedAfter = random.percent(15) ? random.below(count) : undefined;
  return { seed, streams, lengths, steps, isFaulty, isEager, disposedAfter };
}

/** Odd, so that after a buffer memory follows which no kernel may access. */
function lengthOf(random: Random): number {
  return 65 + 2 * random.below(random.pick([500, 5000, 20_000]));
}

function stepOf(random: Random, lengths: readonly number[]): DistributedOmit<Step, "stream"> {
  const buffer = random.below(lengths.length);
  const action = random.below(100);
  if (action < 50) return launchOf(random, lengths, rightNames);
  if (action < 55) return { kind: "fill", buffer, byte: random.below(256) };
  if (action < 62) return { kind: "copy", from: buffer, to: random.below(lengths.length) };
  if (action < 66) return { kind: "upload", buffer, seed: random.bits32() };
  if (action < 72) return { kind: "read", buffer };
  if (action < 78) return { kind: "reallocate", buffer, length: lengths[buffer]! };
  if (action < 81) return { kind: "abortWait", milliseconds: random.below(4) };
  if (action < 85) return { kind: "calculate", milliseconds: random.below(4) };
  return { kind: random.pick(["synchronize", "finish", "query", "nextTurn", "synchronizeDevice"]) };
}

/** `Omit` of each type of a union. */
type DistributedOmit<Type, Key extends PropertyKey> = Type extends unknown ? Omit<Type, Key> : never;

function launchOf(random: Random, lengths: readonly number[], names: readonly string[]): LaunchStep {
  const kernel = random.pick(names);
  const traits = kernelTraits.get(kernel)!;
  const { sharedPerThread = 0, counts = false, isWide = false, mostBlocks: limitOfBlocks = Infinity } = traits;
  const isFault = faultNames.includes(kernel);
  const out = random.below(lengths.length);
  // A kernel may read what it writes if each thread reads only its own word. One that faults must know the length.
  const others = lengths.map((_, index) => index).filter((index) => index !== out);
  const source = isWide ? random.pick(others) : isFault ? out : random.below(lengths.length);
  const block = blockOf(random, traits);
  const threads = block[0] * block[1] * block[2];
  const mostBlocks = Math.max(1, Math.min(limitOfBlocks, Math.floor(40_000 / threads)));
  const blocks = 1 + random.below(Math.min(mostBlocks, random.pick([4, 60, 400])));
  const grid = gridOf(random, blocks, traits);
  const blockCount = grid[0] * grid[1] * grid[2];
  const work = random.pick([2000, 100_000, 500_000, 4_000_000]);
  // In these kernels each block waits for others.
  const limit = ["lock", "chain"].includes(kernel) ? 200 : 5000;
  const n = random.below(1 + Math.min(limit, Math.floor(work / (threads * blockCount))));
  return {
    kind: "launch",
    kernel,
    grid,
    block,
    sharedMemoryBytes: threads * sharedPerThread + (sharedPerThread === 0 ? 0 : random.pick([0, 1024, 20_000])),
    out,
    in: source,
    n,
    k: isFault ? random.below(blockCount) : random.below(1000),
    isCleared: counts,
  };
}

function blockOf(random: Random, { hasWarps, isFlat }: KernelTraits): Dimensions {
  if (hasWarps) return random.pick([[32, 1, 1], [64, 1, 1], [256, 1, 1], [16, 4, 1], [8, 8, 2], [1024, 1, 1]]);
  const shapes: readonly Dimensions[] = [
    [1, 1, 1],
    [32, 1, 1],
    [64, 1, 1],
    [128, 1, 1],
    [256, 1, 1],
    [1024, 1, 1],
    [1 + random.below(200), 1, 1],
    [16, 16, 1],
    [8, 4, 4],
    [1 + random.below(9), 1 + random.below(9), 1 + random.below(5)],
  ];
  return random.pick(isFlat ? shapes.slice(0, 7) : shapes);
}

function gridOf(random: Random, blocks: number, { isFlat }: KernelTraits): Dimensions {
  const shape = isFlat ? 2 : random.below(4);
  if (shape === 0) return [Math.ceil(blocks / 3), 3, 1];
  if (shape === 1) return [1, Math.ceil(blocks / 2), 2];
  return [blocks, 1, 1];
}
