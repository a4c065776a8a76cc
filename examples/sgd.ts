/**
 * Trains a small network on several GPUs: each rank computes the gradient of its part of each batch, an all-reduce
 * averages the gradients, and all ranks take the same step. In the end all have the same parameters, to the bit.
 *
 *     deno run --allow-ffi --allow-run examples/sgd.ts               # a process for each GPU
 *     deno run --allow-ffi --allow-run examples/sgd.ts --ranks 1,2,4 # one training after another, side by side
 *     deno run --allow-ffi examples/sgd.ts --one-process
 *       --steps 200, --batch 256  how many steps, of how many samples for all ranks together
 *       --hidden 32, --rate 0.2   the units of the hidden layer, and how far a step goes
 *
 * The batches do not depend on the number of ranks: the losses are the same but for rounding, because a sum of parts is
 * rounded otherwise than a sum of all.
 *
 * @module
 */
import { Communicator, type CudaStream, type DeviceArray } from "../mod.ts";
import {
  aboutRanks,
  rankFlags,
  rankOptions,
  type RankProgram,
  ranksFrom,
  runChild,
  runRanks,
} from "./bootstrap/ranks.ts";
import { parseCount, readArguments, refuseSurplus, runProgram, UsageError } from "./command_line.ts";
import { type Kernels, ptx } from "./kernels/perceptron.ts";
import { roleName } from "./process_group.ts";
import { formatTable } from "./table.ts";

const usage = "sgd [--ranks <n>[,<n>...]] [--steps 200] [--batch 256] [--hidden 32] [--rate 0.2] [--one-process]";
const about = `
Trains a small network on several GPUs: each rank computes the gradient of its part of each batch, an all-reduce averages
the gradients, and all ranks take the same step. The network learns to multiply two numbers.

--steps <n>   how many steps: 200 by default
--batch <n>   the samples of a step, for all ranks together: 256 by default
--hidden <n>  the units of the hidden layer: 32 by default
--rate <x>    how far a step goes: 0.2 by default
${aboutRanks}
--ranks 1,2,4 trains with each number of ranks, and prints the losses side by side.
`;

const block = 64;
const printedLosses = 10;
/** A process that queues its work answers nobody, not even Ctrl-C: it waits after so many steps. */
const queuedSteps = 50;

interface Options {
  readonly steps: number;
  readonly batch: number;
  readonly hidden: number;
  readonly rate: number;
}

/** What a training gives. */
interface Training {
  readonly size: number;
  /** The mean squared error of the batch of each step, before the step. */
  readonly losses: readonly number[];
  readonly parameters: number;
  /** Of the parameters' bits. */
  readonly checksum: string;
}

/** A rank of this process, and what it works with. */
interface Place {
  readonly communicator: Communicator;
  readonly stream: CudaStream;
  readonly parameters: DeviceArray<Float32Array>;
  /** A gradient for each parameter, and the loss. */
  readonly gradient: DeviceArray<Float32Array>;
  readonly losses: DeviceArray<Float32Array>;
  readonly gathered: DeviceArray<Float32Array>;
  /** Computes the gradient of this rank's part of the batch of a step. */
  computeGradient(step: number): void;
  descend(): void;
}

const program: RankProgram<Options, Training> = {
  url: import.meta.url,
  async work({ ranks, size, signal }, options) {
    const { steps, batch, hidden } = options;
    checkBatch(batch, size);
    const count = 4 * hidden + 1;
    using resources = new DisposableStack();
    const places = ranks.map((communicator) => placeOf(communicator, options, resources));
    /** Calls a collective of each rank of this process: a group, because one thread calls for all of them. */
    const together = (call: (place: Place) => void) => Communicator.group(() => places.forEach(call));

    // Rank 0 chooses where the training begins.
    for (const { communicator, parameters } of places) {
      if (communicator.rank === 0) parameters.copyFrom(firstParameters(hidden));
    }
    together(({ communicator, parameters }) => communicator.broadcast(parameters, 0));
    for (let step = 0; step < steps; step++) {
      for (const place of places) place.computeGradient(step);
      together(({ communicator, gradient }) => communicator.allReduce(gradient, gradient, "average"));
      for (const { descend, losses, gradient, stream } of places) {
        losses.subarray(step, step + 1).copyFrom(gradient.subarray(count, count + 1), stream);
        descend();
      }
      if (step % queuedSteps === queuedSteps - 1) {
        for (const { stream } of places) await stream.finished({ signal });
      }
    }
    together(({ communicator, parameters, gathered }) => communicator.allGather(parameters, gathered));
    for (const { gathered, communicator, stream } of places) {
      checkSame(await gathered.toTypedArray({ stream, signal }), { count, rank: communicator.rank });
    }
    const [{ losses, parameters }] = places as [Place];
    return {
      size,
      losses: [...await losses.toTypedArray({ signal })],
      parameters: count,
      checksum: checksumOf(await parameters.toTypedArray({ signal })),
    };
  },
};

function placeOf(communicator: Communicator, options: Options, resources: DisposableStack): Place {
  const { device, rank, size } = communicator;
  const { steps, batch, hidden, rate } = options;
  const count = 4 * hidden + 1;
  const share = batch / size;
  const stream = resources.use(device.createStream({ nonBlocking: true }));
  const pool = resources.use(device.createPool());
  const allocate = (length: number) => resources.use(pool.allocateArray(Float32Array, length, stream));
  const module = resources.use(device.loadModule<Kernels>(ptx));
  const [forward, backward, descend] = [module.kernel("forward"), module.kernel("backward"), module.kernel("descend")];
  const [parameters, gradient] = [allocate(count), allocate(count + 1)];
  const [units, errors] = [allocate(share * hidden), allocate(share)];
  const launch = (threads: number) => ({ grid: Math.ceil(threads / block), block, stream });
  return {
    communicator,
    stream,
    parameters,
    gradient,
    losses: allocate(steps),
    gathered: allocate(size * count),
    computeGradient(step) {
      const first = step * batch + rank * share;
      forward.launch(launch(share), parameters, hidden, first, share, units, errors);
      backward.launch(launch(count + 1), parameters, hidden, first, share, units, errors, gradient);
    },
    descend: () => descend.launch(launch(count), parameters, gradient, rate, count),
  };
}

/** Random weights, always the same. The biases and the offset are 0. */
function firstParameters(hidden: number): Float32Array<ArrayBuffer> {
  let state = 1;
  const random = () => {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    return state / 2 ** 31 - 1;
  };
  const second = Math.sqrt(3 / hidden);
  return Float32Array.from({ length: 4 * hidden + 1 }, (_, index) => {
    if (index < 2 * hidden) return random();
    return index >= 3 * hidden && index < 4 * hidden ? second * random() : 0;
  });
}

/** Throws unless the parameters of all ranks, one behind the other, have the same bits as this rank's. */
function checkSame(gathered: Float32Array, { count, rank }: { count: number; rank: number }): void {
  const bits = new Uint32Array(gathered.buffer, gathered.byteOffset, gathered.length);
  const different = bits.findIndex((value, index) => value !== bits[rank * count + index % count]);
  if (different < 0) return;
  const other = Math.floor(different / count);
  throw new Error(`Ranks ${rank} and ${other} have different parameters: ${different % count} is the first`);
}

/** FNV-1a of the bits. */
function checksumOf(values: Float32Array): string {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(values.buffer, values.byteOffset, values.byteLength)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(8, "0");
}

function print(trainings: readonly Training[]): void {
  const { length } = trainings[0]!.losses;
  const every = Math.max(1, Math.ceil(length / printedLosses));
  const steps = Array.from({ length }, (_, step) => step).filter((step) => step % every === 0 || step === length - 1);
  const names = trainings.map(({ size }) => size === 1 ? "1 rank" : `${size} ranks`);
  console.log(formatTable([
    ["step", ...names.map((name) => `loss, ${name}`)],
    ...steps.map((step) => [String(step), ...trainings.map(({ losses }) => losses[step]!.toFixed(8))]),
  ]));
  if (trainings.length > 1) {
    const differences = trainings.flatMap(({ losses }) =>
      losses.map((loss, step) => Math.abs(loss - trainings[0]!.losses[step]!) / trainings[0]!.losses[step]!)
    );
    console.log(`The losses differ by at most ${Math.max(...differences).toExponential(1)} of their value`);
  }
  for (const [index, { size, parameters, checksum }] of trainings.entries()) {
    const who = size === 1 ? "1 rank has" : `All ${names[index]} have the same`;
    console.log(`${who} ${parameters} parameters${size === 1 ? "" : ", to the bit"}: checksum ${checksum}`);
  }
}

function checkBatch(batch: number, size: number): void {
  if (batch % size === 0) return;
  throw new UsageError(`Cannot divide a batch of ${batch} samples among ${size} ranks: give another --batch`);
}

function parseRate(text: string): number {
  const rate = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN;
  if (rate > 0) return rate;
  throw new UsageError(`Cannot use "${text}" as the rate: it must be a number above 0, such as 0.2`);
}

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["steps", "batch", "hidden", "rate", ...rankOptions], rankFlags);
  if (named.child !== undefined) {
    return await runChild(program, { child: named.child, path: positional[0], signal });
  }
  refuseSurplus(positional);
  const count = (text: string, what: string) => parseCount(text, { what: `the number of ${what}`, least: 1 });
  const options: Options = {
    steps: count(named.steps ?? "200", "steps"),
    batch: count(named.batch ?? "256", "samples"),
    hidden: count(named.hidden ?? "32", "hidden units"),
    rate: parseRate(named.rate ?? "0.2"),
  };
  // The kernels count samples with 32 bits, two numbers for each.
  if (2 * options.steps * options.batch >= 2 ** 32) {
    throw new UsageError(
      `Cannot take ${options.steps} steps of ${options.batch} samples: 2147483647 samples is the most`,
    );
  }
  const trainings: Training[] = [];
  const all = ranksFrom(named);
  // Before there are processes, which would all say so.
  for (const { size } of all) if (size !== undefined) checkBatch(options.batch, size);
  for (const ranks of all) {
    const training = await runRanks(program, { options, ranks, signal });
    if (training !== undefined) trainings.push(training);
  }
  if (trainings.length > 0) print(trainings);
}

await runProgram(roleName === "parent" ? "sgd" : roleName, main, { usage, about });
