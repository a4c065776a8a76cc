/**
 * What `all_reduce_perf` of NVIDIA's nccl-tests prints: the time and the bandwidth of all-reduces of many sizes, out of
 * place and in place, and whether their results are right.
 *
 *     deno run --allow-ffi --allow-run examples/all_reduce_bandwidth.ts                 # a process for each GPU
 *     deno run --allow-ffi examples/all_reduce_bandwidth.ts --one-process
 *       --ranks 4               how many ranks
 *       --from 8, --to 256MiB   the smallest and the largest size; 64 KiB on the software device
 *       --factor 2              from one size to the next
 *       --iterations 20         all-reduces that are timed together; 5 on the software device
 *       --reduction sum         or product, minimum, maximum, average
 *       --plot bandwidth.svg    draws the bandwidths (--allow-write=bandwidth.svg)
 *
 *     RENDEZVOUS_TOKEN=... torchrun --no-python --nproc-per-node 8 \
 *       deno run --allow-ffi --allow-env --allow-net examples/all_reduce_bandwidth.ts
 *     RENDEZVOUS_TOKEN=... srun --ntasks 16 deno run --allow-ffi --allow-env --allow-net examples/all_reduce_bandwidth.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { Communicator, type CudaStream, type DeviceArray, type Reduction } from "../mod.ts";
import { plotBandwidth } from "./bandwidth_plot.ts";
import {
  aboutRanks,
  rankFlags,
  rankOptions,
  type RankProgram,
  ranksFrom,
  runChild,
  runRanks,
} from "./bootstrap/ranks.ts";
import type { Team } from "./bootstrap/ranks.ts";
import { parseBytes, parseCount, readArguments, refuseSurplus, runProgram, UsageError } from "./command_line.ts";
import { roleName } from "./process_group.ts";

const usage = "all_reduce_bandwidth [--ranks <n>] [--from 8] [--to 256MiB] [--factor 2] [--iterations 20] " +
  "[--reduction sum] [--plot bandwidth.svg] [--one-process]";
const about = `
What all_reduce_perf of NVIDIA's nccl-tests prints: the time and the bandwidth of all-reduces of many sizes, and whether
their results are right. algbw is the size by the time. busbw is algbw * 2 (n - 1) / n, which does not depend on the
number of ranks, n, where a link is the limit.

--from <n>, --to <n>  the smallest and the largest size: 8 and 256MiB by default, or 64KiB on the software device
--factor <n>          from one size to the next: 2 by default
--iterations <n>      all-reduces that are timed together: 20 by default, or 5 on the software device
--reduction <name>    sum, product, minimum, maximum or average
--plot <path>         draws the bandwidths as an SVG
${aboutRanks}
`;

const reductions: Readonly<Record<Reduction, { readonly name: string; of(a: number, b: number): number }>> = {
  sum: { name: "sum", of: (a, b) => a + b },
  product: { name: "prod", of: (a, b) => a * b },
  minimum: { name: "min", of: (a, b) => Math.min(a, b) },
  maximum: { name: "max", of: (a, b) => Math.max(a, b) },
  average: { name: "avg", of: (a, b) => a + b },
};
const warmUps = 5;
const floatByteLength = Float32Array.BYTES_PER_ELEMENT;
/** Elements repeat: element `i` of rank `r` is `(r + i) % 3 + 1`. Products of many ranks are exact, too. */
const period = 3;

interface Options {
  readonly from: number;
  /** Undefined for the default, which depends on the device. */
  readonly to: number | undefined;
  readonly factor: number;
  readonly iterations: number | undefined;
  readonly reduction: Reduction;
}

/** What was measured of one size, out of place or in place. */
interface Measured {
  readonly microseconds: number;
  /** GB/s. */
  readonly algorithmBandwidth: number;
  readonly busBandwidth: number;
  readonly wrong: number;
}

interface Row {
  readonly byteLength: number;
  readonly outOfPlace: Measured;
  readonly inPlace: Measured;
}

/** A rank of this process, and what it works with. */
interface Place {
  readonly communicator: Communicator;
  readonly stream: CudaStream;
  readonly source: DeviceArray<Float32Array>;
  readonly target: DeviceArray<Float32Array>;
  /** What the source is filled with. */
  readonly elements: Float32Array<ArrayBuffer>;
}

const program: RankProgram<Options, { size: number; device: string; rows: readonly Row[] }> = {
  url: import.meta.url,
  async work({ cuda, ranks, size, signal }, options) {
    const isSoftware = cuda.driver === "software";
    const { from, to = isSoftware ? 65536 : 2 ** 28, factor, iterations = isSoftware ? 5 : 20, reduction } = options;
    if (to < from) throw new UsageError(`Cannot go from ${from} to ${to} bytes: give a larger --to`);
    using resources = new DisposableStack();
    const places = ranks.map((communicator) => placeOf(communicator, to, resources));
    const prints = ranks[0]!.rank === 0;
    if (prints) printHead({ size, device: ranks[0]!.device.name, iterations });
    const rows: Row[] = [];
    for (let byteLength = from; byteLength <= to; byteLength *= factor) {
      const options = { byteLength: byteLength - byteLength % floatByteLength, iterations, reduction, size, signal };
      const outOfPlace = await measure(places, { ...options, isInPlace: false });
      const row = {
        byteLength: options.byteLength,
        outOfPlace,
        inPlace: await measure(places, { ...options, isInPlace: true }),
      };
      rows.push(row);
      if (prints) console.log(formatRow(row, reduction));
    }
    if (prints) printEnd(rows);
    return { size, device: ranks[0]!.device.name, rows };
  },
};

function placeOf(communicator: Communicator, byteLength: number, resources: DisposableStack): Place {
  const { device, rank } = communicator;
  const stream = resources.use(device.createStream({ nonBlocking: true }));
  // As nccl-tests, from cudaMalloc: NCCL can register such memory.
  const [source, target] = [0, 1].map(() => resources.use(device.allocate(byteLength)).as(Float32Array)) as [
    DeviceArray<Float32Array>,
    DeviceArray<Float32Array>,
  ];
  const elements = new Float32Array(byteLength / floatByteLength);
  for (let index = 0; index < elements.length; index++) elements[index] = (rank + index) % period + 1;
  return { communicator, stream, source, target, elements };
}

interface MeasureOptions extends Pick<Team, "size" | "signal"> {
  readonly byteLength: number;
  readonly iterations: number;
  readonly reduction: Reduction;
  readonly isInPlace: boolean;
}

async function measure(places: readonly Place[], options: MeasureOptions): Promise<Measured> {
  const { byteLength, iterations, reduction, isInPlace, size, signal } = options;
  const count = byteLength / floatByteLength;
  const allReduce = () =>
    // A group, because one thread calls for several ranks if they are in one process.
    Communicator.group(() => {
      for (const { communicator, stream, source, target } of places) {
        const from = source.subarray(0, count);
        communicator.allReduce(from, isInPlace ? from : target.subarray(0, count), reduction, { stream });
      }
    });
  const finished = async () => {
    for (const { stream } of places) await stream.finished({ signal });
  };

  // In place, the numbers grow from one to the next: only the last all-reduce begins with what is known.
  for (let run = 0; run < warmUps; run++) allReduce();
  await finished();
  // All ranks have come when this one is done.
  allReduce();
  await finished();
  const begin = performance.now();
  for (let run = 0; run < iterations; run++) allReduce();
  await finished();
  const microseconds = 1000 * (performance.now() - begin) / iterations;

  for (const { source, elements, stream } of places) source.copyFrom(elements.subarray(0, count), stream);
  allReduce();
  let wrong = 0;
  for (const { source, target, stream } of places) {
    const result = await (isInPlace ? source : target).subarray(0, count).toTypedArray({ stream, signal });
    wrong += countWrong(result, expectedOf(reduction, size));
  }
  const algorithmBandwidth = byteLength / microseconds / 1000;
  return { microseconds, algorithmBandwidth, busBandwidth: algorithmBandwidth * 2 * (size - 1) / size, wrong };
}

/** The results of the elements 0, 1 and 2, which repeat. */
function expectedOf(reduction: Reduction, size: number): number[] {
  return Array.from({ length: period }, (_, index) => {
    const given = Array.from({ length: size }, (_, rank) => (rank + index) % period + 1);
    const result = given.reduce(reductions[reduction].of);
    return reduction === "average" ? result / size : result;
  });
}

function countWrong(result: Float32Array, expected: readonly number[]): number {
  let wrong = 0;
  for (let index = 0; index < result.length; index++) {
    const value = expected[index % period]!;
    // An average may be rounded twice. NaN is wrong, too.
    if (!(Math.abs(result[index]! - value) <= 1e-6 * value)) wrong++;
  }
  return wrong;
}

function printHead({ size, device, iterations }: { size: number; device: string; iterations: number }): void {
  const cells = (columns: readonly string[]) => `#${formatCells(columns).slice(1)}`;
  console.log(`# ${size} ranks, rank 0 on ${device}, ${iterations} iterations after ${warmUps}`);
  console.log(cells(["", "", "", "", "", "out of place", "", "", "", "in place", "", "", ""]));
  const half = ["time", "algbw", "busbw", "#wrong"];
  console.log(cells(["size", "count", "type", "redop", "root", ...half, ...half]));
  const units = ["(us)", "(GB/s)", "(GB/s)", ""];
  console.log(cells(["(B)", "(elements)", "", "", "", ...units, ...units]));
}

/** The columns of nccl-tests, so that what reads its output can read this. */
function formatRow({ byteLength, outOfPlace, inPlace }: Row, reduction: Reduction): string {
  const { name } = reductions[reduction];
  const count = byteLength / floatByteLength;
  return formatCells(
    [String(byteLength), String(count), "float", name, "-1", ...cellsOf(outOfPlace), ...cellsOf(inPlace)],
  );
}

function cellsOf({ microseconds, algorithmBandwidth, busBandwidth, wrong }: Measured): string[] {
  const time = microseconds < 1000 ? microseconds.toFixed(2) : microseconds.toFixed(microseconds < 10_000 ? 1 : 0);
  return [time, algorithmBandwidth.toFixed(2), busBandwidth.toFixed(2), String(wrong)];
}

const widths = [13, 13, 9, 7, 7, 14, 8, 8, 7, 14, 8, 8, 7];

function formatCells(cells: readonly string[]): string {
  return cells.map((cell, column) => cell.padStart(widths[column]!)).join("").trimEnd();
}

function printEnd(rows: readonly Row[]): void {
  const halves = rows.flatMap(({ outOfPlace, inPlace }) => [outOfPlace, inPlace]);
  const wrong = halves.reduce((sum, half) => sum + half.wrong, 0);
  const mean = halves.reduce((sum, half) => sum + half.busBandwidth, 0) / halves.length;
  console.log(`# Out of bounds values : ${wrong} ${wrong === 0 ? "OK" : "FAILED"}`);
  console.log(`# Avg bus bandwidth    : ${mean.toPrecision(6)}`);
}

function parseReduction(text: string): Reduction {
  if (Object.hasOwn(reductions, text)) return text as Reduction;
  throw new UsageError(`Cannot use "${text}" as --reduction: it is one of ${Object.keys(reductions).join(", ")}`);
}

function parseSize(text: string): number {
  const byteLength = parseBytes(text);
  if (byteLength >= floatByteLength) return byteLength;
  throw new UsageError(`Cannot reduce ${byteLength} bytes: an element has ${floatByteLength}`);
}

async function main(signal: AbortSignal): Promise<void> {
  const names = ["from", "to", "factor", "iterations", "reduction", "plot", ...rankOptions] as const;
  const { positional, named } = readArguments(names, rankFlags);
  if (named.child !== undefined) {
    return await runChild(program, { child: named.child, path: positional[0], signal });
  }
  refuseSurplus(positional);
  const options: Options = {
    from: parseSize(named.from ?? "8"),
    to: named.to === undefined ? undefined : parseSize(named.to),
    factor: parseCount(named.factor ?? "2", { what: "the factor", least: 2 }),
    iterations: named.iterations === undefined
      ? undefined
      : parseCount(named.iterations, { what: "the number of iterations", least: 1 }),
    reduction: parseReduction(named.reduction ?? "sum"),
  };
  const [ranks, ...others] = ranksFrom(named);
  if (others.length > 0) throw new UsageError("Cannot use several numbers of ranks: give one");
  const result = await runRanks(program, { options, ranks: ranks!, signal });
  if (result === undefined) return;
  const { size, device, rows } = result;
  if (named.plot !== undefined) {
    const line = (half: "outOfPlace" | "inPlace") =>
      rows.map((row) => ({ byteLength: row.byteLength, bandwidth: row[half].busBandwidth }));
    writeFileSync(
      named.plot,
      plotBandwidth(`Bus bandwidth of all-reduces: ${size} ranks, ${device}`, [
        { name: "out of place", color: "#d55e00", points: line("outOfPlace") },
        { name: "in place", color: "#0072b2", points: line("inPlace") },
      ]),
    );
    console.log(`# Drawn in ${named.plot}`);
  }
  if (rows.some(({ outOfPlace, inPlace }) => outOfPlace.wrong + inPlace.wrong > 0)) {
    throw new Error("Some results are wrong: see the columns #wrong");
  }
}

await runProgram(roleName === "parent" ? "all_reduce_bandwidth" : roleName, main, { usage, about });
