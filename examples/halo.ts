/**
 * Simulates how heat spreads in a plate that is divided among GPUs. Each rank has some rows. In each step it needs its
 * neighbors' outermost rows, the halo: a second stream exchanges them while the first one computes the rows between.
 *
 *     deno run --allow-ffi --allow-run examples/halo.ts               # a process for each GPU
 *     deno run --allow-ffi examples/halo.ts --one-process
 *       --width 128, --height 96  the size of the plate; the ranks have the same number of rows each
 *       --steps 100               how many steps
 *
 * Rank 0 then computes the whole plate alone: it is the same, to the bit.
 *
 *     compute   [outermost rows]─(outer)─[rows between]────(wait)─[outermost rows] ...
 *                                  │                         ▲
 *     exchange                  (wait)─[send and receive]─(halo)
 *
 * @module
 */
import { Communicator, type CudaDevice, type CudaEvent, type CudaStream, type DeviceArray } from "../mod.ts";
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
import { type Kernels, ptx } from "./kernels/heat_rows.ts";
import { roleName } from "./process_group.ts";

const usage = "halo [--ranks <n>] [--width 128] [--height 96] [--steps 100] [--one-process]";
const about = `
Simulates how heat spreads in a plate that is divided among GPUs. A second stream exchanges the outermost rows of each
rank while the first one computes the rows between. Rank 0 compares the result with that of one GPU alone, to the bit.

--width <n>, --height <n>  the size of the plate: 128 and 96 by default
--steps <n>                how many steps: 100 by default
${aboutRanks}
`;

const block = [32, 8] as const;
/** A rank's outermost rows are two, and there is a row between. */
const leastRows = 3;
/** A process that queues its work answers nobody, not even Ctrl-C: it waits after so many steps. */
const queuedSteps = 100;

interface Options {
  readonly width: number;
  readonly height: number;
  readonly steps: number;
}

interface Result {
  readonly size: number;
  readonly rows: number;
  readonly milliseconds: number;
  readonly alone: number;
  /** The mean temperature of the plate. */
  readonly mean: number;
}

/** Some rows of the plate on a device, between two rows of halo. */
class Slab {
  readonly stream: CudaStream;
  now: DeviceArray<Float32Array>;
  next: DeviceArray<Float32Array>;
  readonly rows: number;
  readonly #options: Options;
  /** How many rows of the plate are above. */
  readonly #above: number;
  readonly #step: (rows: { top: number; bottom: number; stride: number }, step: number) => void;

  constructor(
    device: CudaDevice,
    { rows, above, options, resources }: { rows: number; above: number; options: Options; resources: DisposableStack },
  ) {
    this.rows = rows;
    this.#above = above;
    this.#options = options;
    const { width, height } = options;
    this.stream = resources.use(device.createStream({ nonBlocking: true }));
    const pool = resources.use(device.createPool());
    const [now, next] = [0, 1].map(() =>
      resources.use(pool.allocateArray(Float32Array, (rows + 2) * width, this.stream))
    ) as [DeviceArray<Float32Array>, DeviceArray<Float32Array>];
    now.fill(0);
    next.fill(0);
    [this.now, this.next] = [now, next];
    const kernel = resources.use(device.loadModule<Kernels>(ptx)).kernel("heat_rows");
    this.#step = ({ top, bottom, stride }, step) => {
      const count = Math.floor((bottom - top) / stride) + 1;
      const grid = [Math.ceil(width / block[0]), Math.ceil(count / block[1])] as const;
      // A Lissajous curve.
      const [x, y] = [(0.5 + 0.38 * Math.sin(step / 30)) * width, (0.5 + 0.36 * Math.sin(step / 20)) * height];
      const range = [this.#above, top, bottom, stride] as const;
      kernel.launch(
        { grid, block, stream: this.stream },
        this.next,
        this.now,
        width,
        height,
        ...range,
        x,
        y,
        height / 12,
      );
    };
  }

  /** A row, of which row 0 and the last one are the halo. */
  row(array: DeviceArray<Float32Array>, row: number): DeviceArray<Float32Array> {
    return array.subarray(row * this.#options.width, (row + 1) * this.#options.width);
  }

  /** The rows without the halo. */
  get inside(): DeviceArray<Float32Array> {
    return this.now.subarray(this.#options.width, (this.rows + 1) * this.#options.width);
  }

  /** Computes the first and the last row. */
  computeOutermost(step: number): void {
    this.#step({ top: 1, bottom: this.rows, stride: this.rows - 1 }, step);
  }

  /** Computes the rows between. */
  computeBetween(step: number): void {
    this.#step({ top: 2, bottom: this.rows - 1, stride: 1 }, step);
  }

  swap(): void {
    [this.now, this.next] = [this.next, this.now];
  }
}

/** A rank of this process, and what it works with. */
interface Place {
  readonly communicator: Communicator;
  readonly slab: Slab;
  readonly exchange: CudaStream;
  /** The outermost rows are computed. */
  readonly outer: CudaEvent;
  /** The halo has come, and the neighbors have got theirs. */
  readonly halo: CudaEvent;
}

const program: RankProgram<Options, Result> = {
  url: import.meta.url,
  async work({ ranks, size, signal }, options) {
    const { height, width, steps } = options;
    const rows = height / size;
    if (!Number.isInteger(rows) || rows < leastRows) {
      throw new UsageError(
        `Cannot divide ${height} rows among ${size} ranks: each needs the same number, of at least ${leastRows}; give ` +
          "another --height",
      );
    }
    using resources = new DisposableStack();
    const places = ranks.map((communicator): Place => {
      const { device, rank } = communicator;
      return {
        communicator,
        slab: new Slab(device, { rows, above: rank * rows, options, resources }),
        exchange: resources.use(device.createStream({ nonBlocking: true })),
        outer: resources.use(device.createEvent()),
        halo: resources.use(device.createEvent()),
      };
    });
    const wholes = places.map(({ slab, communicator }) => {
      const pool = resources.use(communicator.device.createPool());
      return resources.use(pool.allocateArray(Float32Array, width * height, slab.stream));
    });
    const finishedAll = async () => {
      for (const { slab } of places) await slab.stream.finished({ signal });
    };
    // Ranks connect to each other when they first send something, which takes longer than all steps.
    await finishedAll();
    Communicator.group(() => places.forEach(exchangeRows));
    for (const { exchange } of places) await exchange.finished({ signal });
    const begin = performance.now();
    for (let step = 0; step < steps; step++) {
      takeStep(places, step);
      if (step % queuedSteps === queuedSteps - 1) await finishedAll();
    }
    for (const { slab, halo } of places) slab.stream.wait(halo);
    await finishedAll();
    const milliseconds = performance.now() - begin;
    Communicator.group(() => {
      for (const [index, { communicator, slab }] of places.entries()) {
        communicator.allGather(slab.inside, wholes[index]!, { stream: slab.stream });
      }
    });
    await finishedAll();
    const plate = await wholes[0]!.toTypedArray({ stream: places[0]!.slab.stream, signal });
    // The others are done.
    if (places[0]!.communicator.rank !== 0) return { size, rows, milliseconds, alone: 0, mean: 0 };
    const alone = await computeAlone(places[0]!.communicator.device, { options, plate, resources, signal });
    return { size, rows, milliseconds, alone, mean: plate.reduce((sum, value) => sum + value, 0) / plate.length };
  },
};

function takeStep(places: readonly Place[], step: number): void {
  for (const { slab, exchange, outer, halo } of places) {
    // The halo of the last step. Before the first one, everything is 0.
    if (step > 0) slab.stream.wait(halo);
    slab.computeOutermost(step);
    slab.stream.record(outer);
    exchange.wait(outer);
  }
  // A group: a rank that sent first, and received afterwards, would wait for one that does the same.
  Communicator.group(() => places.forEach(exchangeRows));
  for (const { slab, exchange, halo } of places) {
    exchange.record(halo);
    slab.computeBetween(step);
    slab.swap();
  }
}

/** Sends the outermost rows to the neighbors, and receives theirs. */
function exchangeRows({ communicator, slab, exchange }: Place): void {
  const { rank, size } = communicator;
  const { next, rows } = slab;
  const options = { stream: exchange };
  if (rank > 0) {
    communicator.send(slab.row(next, 1), rank - 1, options);
    communicator.receive(slab.row(next, 0), rank - 1, options);
  }
  if (rank < size - 1) {
    communicator.send(slab.row(next, rows), rank + 1, options);
    communicator.receive(slab.row(next, rows + 1), rank + 1, options);
  }
}

/** Computes the whole plate on one device. Returns the milliseconds; throws unless it is the same as the given one. */
async function computeAlone(
  device: CudaDevice,
  { options, plate, resources, signal }: {
    options: Options;
    plate: Float32Array;
    resources: DisposableStack;
    signal: AbortSignal;
  },
): Promise<number> {
  const { height, width, steps } = options;
  const slab = new Slab(device, { rows: height, above: 0, options, resources });
  const begin = performance.now();
  for (let step = 0; step < steps; step++) {
    slab.computeOutermost(step);
    slab.computeBetween(step);
    slab.swap();
    if (step % queuedSteps === queuedSteps - 1) await slab.stream.finished({ signal });
  }
  await slab.stream.finished({ signal });
  const milliseconds = performance.now() - begin;
  const expected = await slab.inside.toTypedArray({ stream: slab.stream, signal });
  const [bits, expectedBits] = [plate, expected].map((array) => new Uint32Array(array.buffer)) as [
    Uint32Array,
    Uint32Array,
  ];
  const different = bits.findIndex((value, index) => value !== expectedBits[index]);
  if (different >= 0) {
    throw new Error(
      `The plate is another one than that of one GPU: (${different % width}, ${Math.floor(different / width)}) has ` +
        `${plate[different]} instead of ${expected[different]}`,
    );
  }
  return milliseconds;
}

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["width", "height", "steps", ...rankOptions], rankFlags);
  if (named.child !== undefined) {
    return await runChild(program, { child: named.child, path: positional[0], signal });
  }
  refuseSurplus(positional);
  const options: Options = {
    width: parseCount(named.width ?? "128", { what: "the width", least: 1 }),
    height: parseCount(named.height ?? "96", { what: "the height", least: leastRows }),
    steps: parseCount(named.steps ?? "100", { what: "the number of steps", least: 1 }),
  };
  const [ranks, ...others] = ranksFrom(named);
  if (others.length > 0) throw new UsageError("Cannot use several numbers of ranks: give one");
  const result = await runRanks(program, { options, ranks: ranks!, signal });
  if (result === undefined) return;
  const { size, rows, milliseconds, alone, mean } = result;
  const perStep = (time: number) => `${(1000 * time / options.steps).toFixed(1)} us a step`;
  console.log(
    `${size === 1 ? "1 rank" : `${size} ranks`} of ${rows} rows: ${options.steps} steps, ${perStep(milliseconds)}`,
  );
  console.log(`One GPU alone: ${perStep(alone)}`);
  console.log(`Both plates are the same, to the bit. The mean temperature is ${mean.toFixed(4)}`);
}

await runProgram(roleName === "parent" ? "halo" : roleName, main, { usage, about });
