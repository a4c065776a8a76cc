/**
 * The host and a kernel change the same integers at the same time, as NVIDIA's sample systemWideAtomics.
 *
 *     deno run --allow-ffi examples/system_wide_atomics.ts [--threads 2048] [--loops 10]
 *
 * The integers are in managed memory. The kernel uses atomic operations that are atomic for the whole system, and the
 * host uses `Atomics` of JavaScript in a view of the memory: no change is lost.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "./kernels/system_atomics.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "system_wide_atomics [--threads 2048] [--loops 10]";
const about = `
Changes integers on the host and on the device at the same time, and checks the results.

--threads <n>  how many threads the kernel has; rounded up to a multiple of 64
--loops <n>    how often each thread, and the host, does each operation
`;

const block = 64;
/** At these values, the counters of atomicInc and atomicDec begin again. */
const [incrementLimit, decrementLimit] = [17, 137];

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["threads", "loops"]);
  refuseSurplus(positional);
  const wanted = parseCount(named.threads ?? "2048", { what: "the number of threads", least: 1 });
  const loops = parseCount(named.loops ?? "10", { what: "the number of loops", least: 1 });
  const grid = Math.ceil(wanted / block), threads = grid * block;
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using memory = gpu.allocateManaged(10 * Int32Array.BYTES_PER_ELEMENT);
  using module = gpu.loadModule(ptx);

  const values = new Int32Array(memory.hostView());
  values.set([0, 0, 0, threads, 0, 0, 0, -1, 0, 0]);
  module.kernel("system_atomics").launch({ grid, block, stream }, memory, loops);
  change(values, { number: threads, loops }); // while the kernel runs: the host is one thread more
  await stream.finished({ signal });

  const wrong = check(values, { numbers: threads + 1, loops });
  if (wrong !== undefined) throw new Error(wrong);
  console.log(`${threads} threads and the host have done ${loops} rounds of ten operations: ${values.join(" ")}`);
  console.log("All results are right");
}

/** Does on the host what each thread of the kernel does. */
function change(values: Int32Array, { number, loops }: { number: number; loops: number }): void {
  for (let loop = 0; loop < loops; loop++) {
    Atomics.add(values, 0, 10);
    Atomics.exchange(values, 1, number);
    replace(values, 2, (value) => Math.max(value, number));
    replace(values, 3, (value) => Math.min(value, number));
    replace(values, 4, (value) => value >= incrementLimit ? 0 : value + 1);
    replace(values, 5, (value) => value === 0 || value > decrementLimit ? decrementLimit : value - 1);
    Atomics.compareExchange(values, 6, number - 1, number);
    Atomics.and(values, 7, 2 * number + 7);
    Atomics.or(values, 8, 1 << (number & 31));
    Atomics.xor(values, 9, number);
  }
}

/** Replaces a value in one step: if another thread has changed it meanwhile, begins again. */
function replace(values: Int32Array, index: number, next: (value: number) => number): void {
  for (let value = Atomics.load(values, index);;) {
    const found = Atomics.compareExchange(values, index, value, next(value));
    if (found === value) return;
    value = found;
  }
}

/** Returns which value is not what all operations together must give; undefined if all of them are right. */
function check(values: Int32Array, { numbers, loops }: { numbers: number; loops: number }): string | undefined {
  const all = Array.from({ length: numbers }, (_, number) => number);
  const operations = numbers * loops;
  const isOne = (value: number) => value >= 0 && value < numbers;
  const rounds = (limit: number) => operations % (limit + 1);
  const expected: readonly (number | ((value: number) => boolean))[] = [
    10 * operations,
    isOne, // the last exchange may be of any thread
    numbers - 1,
    0,
    rounds(incrementLimit),
    (decrementLimit + 1 - rounds(decrementLimit)) % (decrementLimit + 1),
    isOne,
    all.reduce((result, number) => result & (2 * number + 7), -1),
    all.reduce((result, number) => result | 1 << (number & 31), 0),
    loops % 2 === 0 ? 0 : all.reduce((result, number) => result ^ number, 0),
  ];
  const names = ["add", "exchange", "max", "min", "increment", "decrement", "compare and swap", "and", "or", "xor"];
  const index = expected.findIndex((one, index) => {
    return typeof one === "number" ? one !== values[index] : !one(values[index]!);
  });
  return index < 0 ? undefined : `The result of ${names[index]} is wrong: ${values[index]}`;
}

await runProgram("system_wide_atomics", main, { usage, about });
