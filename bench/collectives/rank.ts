/**
 * A rank that measures all-reduces, in the rounds of `native.cu`.
 *
 *     rank.ts RANK SIZE ID SIZES ITERATIONS [LIBRARY]
 *
 * ID is that of the communicator in hexadecimal, or `-` for rank 0, which prints it as `{"id"}`. Prints a line of JSON for
 * each size in bytes, `{"byteLength", "microseconds", "waitedMicroseconds"}`: the medians of the rounds, and for small ones
 * also if each all-reduce is waited for. With a LIBRARY, which is `native.cu`, it measures that in turns with poolpass, as
 * `native`, which has the same properties: a process has its memory where all-reduces are faster or slower than in another
 * one, by far more than what the two differ.
 *
 * @module
 */
import process from "node:process";
import { Communicator, open } from "../../mod.ts";
import { median } from "../harness/measurement.ts";

const rounds = 7;
const warmUps = 5;
/** In bytes: whether smaller ones are waited for one by one matters. */
const leastLarge = 2 ** 20;
/**
 * Before the first size, so often so many that the engine has compiled what they take, as C++ is compiled already. What it
 * has compiled before anything was freed, it compiles again.
 */
const firstWarmUps = { times: 3, count: 30_000, waited: 5_000, byteLength: 8 } as const;
/** Milliseconds in which all must come, and a collective must be done. */
const timeout = 60_000;
/** The size of NCCL's `ncclUniqueId`, in bytes. */
const idByteLength = 128;

const [rankText, sizeText, idText, sizes, iterationsText, library] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string | undefined,
];
const [rank, size, iterations] = [rankText, sizeText, iterationsText].map(Number) as [number, number, number];
using cuda = open();
const device = cuda.device(rank % cuda.devices.length);
const id = idText === "-" ? Communicator.createId(cuda) : Uint8Array.fromHex(idText);
if (idText === "-") console.log(JSON.stringify({ id: id.toHex() }));
using stream = device.createStream({ nonBlocking: true });
await using communicator = await Communicator.create(device, { id, rank, size, timeout });
const native = library === undefined ? undefined : await openNative(library);

/** The same rank of a communicator that C++ uses. */
async function openNative(library: string) {
  const { symbols } = Deno.dlopen(library, {
    createId: { parameters: ["buffer"], result: "void" },
    createRank: { parameters: ["i32", "i32", "buffer"], result: "void" },
    destroyRank: { parameters: [], result: "void" },
    begin: { parameters: ["usize"], result: "void" },
    measureRound: { parameters: ["i32", "i32"], result: "f64" },
    end: { parameters: [], result: "void" },
  });
  using shared = device.allocate(idByteLength).as(Uint8Array);
  const own = new Uint8Array(idByteLength);
  if (rank === 0) symbols.createId(own);
  shared.copyFrom(own, stream);
  communicator.broadcast(shared, 0, { stream });
  symbols.createRank(rank, size, await shared.toTypedArray({ stream }));
  return symbols;
}

/** What a function does with arrays of a size, from cudaMalloc as in C++. */
function withArrays<Result>(byteLength: number, body: (allReduce: () => void) => Result): Result {
  using source = device.allocate(byteLength);
  using target = device.allocate(byteLength);
  source.fill(0, stream);
  const [from, to] = [source.as(Float32Array), target.as(Float32Array)];
  const options = { stream };
  return body(() => communicator.allReduce(from, to, "sum", options));
}

function repeat(allReduce: () => void, count: number): void {
  for (let run = 0; run < count; run++) allReduce();
  stream.synchronize();
}

/** Microseconds of an all-reduce, of which `count` are made `times` times, and waited for. */
type Round = (count: number, times: number) => number;

function roundOf(allReduce: () => void): Round {
  return (count, times) => {
    // All ranks have come when this one is done.
    repeat(allReduce, 1);
    const begin = performance.now();
    for (let time = 0; time < times; time++) repeat(allReduce, count);
    return 1000 * (performance.now() - begin) / times / count;
  };
}

/** The times of the rounds of poolpass, or of C++. */
class Times {
  readonly #together: number[] = [];
  readonly #waited: number[] = [];

  add(measure: Round, count: number, isSmall: boolean): void {
    this.#together.push(measure(count, 1));
    if (isSmall) this.#waited.push(measure(1, count));
  }

  medians(): { microseconds: number; waitedMicroseconds?: number } {
    return {
      microseconds: median(this.#together),
      ...this.#waited.length === 0 ? {} : { waitedMicroseconds: median(this.#waited) },
    };
  }
}

function measure(byteLength: number, allReduce: () => void) {
  const count = Math.floor(Math.max(5, Math.min(iterations, iterations * 2 ** 22 / byteLength)));
  repeat(allReduce, warmUps);
  native?.begin(BigInt(byteLength));
  const own = { times: new Times(), round: roundOf(allReduce) };
  const inTurn = native === undefined ? [own] : [own, { times: new Times(), round: native.measureRound }];
  for (let round = 0; round < rounds; round++) {
    for (const { times, round: measureRound } of round % 2 === 0 ? inTurn : inTurn.toReversed()) {
      times.add(measureRound, count, byteLength < leastLarge);
    }
  }
  native?.end();
  const [ofOwn, ofNative] = inTurn.map(({ times }) => times.medians());
  return { ...ofOwn, native: ofNative };
}

if (cuda.driver === "cuda") {
  const { times, count, waited, byteLength } = firstWarmUps;
  for (let time = 0; time < times; time++) {
    withArrays(byteLength, (allReduce) => {
      repeat(allReduce, count);
      for (let run = 0; run < waited; run++) repeat(allReduce, 1);
    });
  }
}
for (const byteLength of sizes.split(",").map(Number)) {
  const measured = withArrays(byteLength, (allReduce) => measure(byteLength, allReduce));
  if (rank === 0) console.log(JSON.stringify({ byteLength, ...measured }));
}
native?.destroyRank();
