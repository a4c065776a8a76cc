/**
 * What the PTX says of launches, beside what the software device sees them access.
 */
import { assert, assertEquals } from "@std/assert";
import { clangCorpus } from "../../corpus/clang/build.ts";
import { clangCudaCorpus } from "../../corpus/clang_cuda/build.ts";
import { loadProgram, runProgram } from "../../corpus/corpus.ts";
import { numbaCorpus } from "../../corpus/numba/build.ts";
import { type Corpus, nvccCorpus, programNames, readPtx } from "../../corpus/nvcc/build.ts";
import { nvrtcCorpus } from "../../corpus/nvrtc/build.ts";
import { tritonCorpus } from "../../corpus/triton/build.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";
import { kernelOf } from "../memory/programs.ts";
import { type ComparedLaunch, openCompared } from "./compared_driver.ts";
import { bufferBytes, randomLaunch } from "./random_kernels.ts";

/**
 * Nothing is said to be accessed that is not, and of an exact launch, nothing is left out. If the lines and threads are
 * said to be known, they are those that are observed.
 */
function assertTrue({ kernel, isExact, wrong, missing, said, observed }: ComparedLaunch, what: string): void {
  const untrue = [...wrong, ...isExact ? missing : []];
  assertEquals(untrue.slice(0, 5), [], `${what}: ${kernel}: ${untrue.length} bytes`);
  if (said !== undefined) assertEquals(said, observed, `${what}: ${kernel}`);
}

/** How a kernel of `kernels/` is launched: its shape, and its arguments, of which "input" and "output" are buffers. */
interface ReadyLaunch {
  readonly file: string;
  readonly kernel: string;
  readonly grid: number | readonly [number, number];
  readonly block: number | readonly [number, number];
  readonly arguments: readonly (number | "input" | "output" | "more")[];
  readonly isExact?: false;
}

const length = 4000;
const readyLaunches: readonly ReadyLaunch[] = [
  ...[[1, 32, 1], [4, 64, 1000], [4, 64, length], [3, 100, 777], [16, 256, length]].map(([grid, block, n]) => {
    return {
      file: "saxpy",
      kernel: "saxpy",
      grid: grid!,
      block: block!,
      arguments: [n!, 2, "input", "output"],
    } as const;
  }),
  ...[0, 1, 3, 4, 1003, length].map((bytes) => {
    return { file: "fill", kernel: "fill", grid: 3, block: 96, arguments: ["output", bytes, 7] } as const;
  }),
  { file: "reduce", kernel: "reduce_sum", grid: 5, block: 256, arguments: ["input", length, "output"] },
  { file: "reduce", kernel: "reduce_max", grid: 1, block: 64, arguments: ["input", 40, "output"] },
  {
    file: "matrix_multiply",
    kernel: "matrix_multiply",
    grid: [3, 2],
    block: [16, 16],
    arguments: ["input", "more", "output", 30, 41, 50],
  },
  { file: "transpose", kernel: "transpose", grid: [2, 3], block: [32, 8], arguments: ["input", "output", 70, 45] },
  {
    file: "mandelbrot",
    kernel: "mandelbrot",
    grid: [4, 4],
    block: [16, 8],
    arguments: ["output", 60, 30, -2.5, -1.5, 0.05, 8],
  },
  {
    file: "blur",
    kernel: "blur_rows",
    grid: [3, 2],
    block: [32, 4],
    arguments: ["input", "output", 90, 17, "more", 3],
  },
  {
    file: "blur",
    kernel: "blur_columns",
    grid: [3, 2],
    block: [32, 4],
    arguments: ["input", "output", 90, 17, "more", 3],
  },
  { file: "scan", kernel: "scan_totals", grid: 4, block: 256, arguments: ["input", length, "output"] },
  // Where it adds depends on the bytes.
  {
    file: "histogram",
    kernel: "histogram",
    grid: 2,
    block: 256,
    arguments: ["input", length, "output"],
    isExact: false,
  },
];

test("the bytes that the ready kernels access are known exactly", async () => {
  for (const { file, kernel, grid, block, arguments: args, isExact = true } of readyLaunches) {
    const { ptx } = await import(`../../../kernels/${file}.ts`) as { ptx: string };
    let found: ComparedLaunch | undefined;
    {
      using cuda = openCompared((launch) => found = launch);
      const gpu = cuda.device(0);
      const buffers = {
        input: gpu.allocate(4 * length),
        more: gpu.allocate(4 * length),
        output: gpu.allocate(4 * length),
      };
      for (const buffer of Object.values(buffers)) buffer.fill(0);
      const values = args.map((argument) => typeof argument === "number" ? argument : buffers[argument]);
      gpu.loadModule(ptx).kernel(kernel).launch({ grid, block }, ...values);
      gpu.synchronize();
      for (const buffer of Object.values(buffers)) buffer.free();
    }
    assertTrue(found!, `${kernel} ${args}`);
    assertEquals(found!.isExact, isExact, `${kernel} ${args}`);
  }
});

/** How many of the launches of a corpus are exact, at least. */
const corpora: readonly (readonly [corpus: Corpus, name: string, exact: number])[] = [
  [nvccCorpus, "nvcc", 368],
  [clangCorpus, "clang", 2],
  [clangCudaCorpus, "clang with CUDA's headers", 2],
  [nvrtcCorpus, "NVRTC", 4],
  [numbaCorpus, "Numba", 4],
  [tritonCorpus, "Triton", 10],
];

for (const [corpus, name, exact] of corpora) {
  test(`what is known of the programs of ${name} is true`, async () => {
    let count = 0;
    for (const [index, program] of programNames(corpus).entries()) {
      for (const [place, variant] of corpus.variants.entries()) {
        if (!isLong && (index + place) % 200 !== 0) continue;
        using cuda = openCompared((launch) => {
          assertTrue(launch, `${program} (${variant.name})`);
          if (launch.isExact) count++;
        });
        await runProgram(cuda, await loadProgram(corpus, program), readPtx(corpus, program, variant));
      }
    }
    if (isLong) assert(count >= exact, `${count} exact launches`);
  });
}

test("what is known of random kernels is true, and of most of them all is known", () => {
  const launches: ComparedLaunch[] = [];
  using cuda = openCompared((launch) => launches.push(launch));
  const gpu = cuda.device(0);
  using a = gpu.allocate(bufferBytes), b = gpu.allocate(bufferBytes);
  const middle = BigInt(bufferBytes / 2);
  const count = isLong ? 10_000 : 60;
  for (let seed = 0; seed < count; seed++) {
    const { ptx, grid, block, n } = randomLaunch(new Random(seed));
    for (const buffer of [a, b]) buffer.fill(0);
    using module = gpu.loadModule(ptx);
    module.kernel("kernel").launch({ grid, block }, a.address + middle, b.address + middle, n);
    gpu.synchronize();
    assertTrue(launches.at(-1)!, `seed ${seed}`);
  }
  const made = launches.filter(({ byteLength }) => byteLength > 0);
  const exact = made.filter(({ isExact }) => isExact).length,
    said = made.filter(({ said }) => said !== undefined).length;
  assert(exact > 0.4 * count, `${exact} of ${count}`);
  assert(said > count / 10, `the threads of ${said} of ${count}`);
});

test("numbers of 64 bits that wrap around are not taken for larger ones", () => {
  const launches: ComparedLaunch[] = [];
  using cuda = openCompared((launch) => launches.push(launch));
  const gpu = cuda.device(0);
  using buffer = gpu.allocate(1024);
  const module = gpu.loadModule(kernelOf(
    ".param .u64 x",
    `  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd2, %r1;
  shl.b64 %rd2, %rd2, 58; shr.u64 %rd2, %rd2, 56; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;`,
  ));
  module.kernel("kernel").launch({ grid: 1, block: 128 }, buffer);
  gpu.synchronize();
  assertEquals(launches.length, 1);
  for (const launch of launches) assertTrue(launch, "wrapping");
});
