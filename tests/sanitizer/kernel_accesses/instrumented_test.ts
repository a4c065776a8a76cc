/**
 * Kernels that note what they access, beside what the software device sees them access.
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { instrumentedPtx } from "../../../src/sanitizer/kernel_accesses/instrumented_launches.ts";
import { withoutPtxas } from "../../compiler/instructions/ptxas/ask_ptxas.ts";
import { clangCorpus } from "../../corpus/clang/build.ts";
import { differences, loadProgram, runProgram } from "../../corpus/corpus.ts";
import { numbaCorpus } from "../../corpus/numba/build.ts";
import { checkPtx, type Corpus, nvccCorpus, programNames, readPtx } from "../../corpus/nvcc/build.ts";
import { nvrtcCorpus } from "../../corpus/nvrtc/build.ts";
import { tritonCorpus } from "../../corpus/triton/build.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";
import { type ComparedLaunch, openInstrumented } from "./compared_driver.ts";
import { bufferBytes, randomLaunch } from "./random_kernels.ts";

const corpora: readonly (readonly [corpus: Corpus, name: string])[] = [
  [nvccCorpus, "nvcc"],
  [clangCorpus, "clang"],
  [nvrtcCorpus, "NVRTC"],
  [numbaCorpus, "Numba"],
  [tritonCorpus, "Triton"],
];

/** The programs that are run, and the PTX of each. */
function* programsOf(corpus: Corpus, every: number): Generator<readonly [name: string, ptx: string]> {
  for (const [index, name] of programNames(corpus).entries()) {
    for (const [place, variant] of corpus.variants.entries()) {
      if (isLong || (index + place) % every === 0) yield [name, readPtx(corpus, name, variant)];
    }
  }
}

for (const [corpus, name] of corpora) {
  test(`the programs of ${name} give the same results if they note what they access, and the notes are true`, async () => {
    for (const [name, ptx] of programsOf(corpus, 160)) {
      const launches: ComparedLaunch[] = [];
      const { cuda, settle } = openInstrumented((launch) => launches.push(launch));
      const program = await loadProgram(corpus, name);
      const results = await runProgram(cuda, program, ptx);
      settle();
      cuda[Symbol.dispose]();
      assertEquals(differences(program.expected(program.buffers()), results, program.bounds), [], name);
      for (const { kernel, wrong } of launches) assertEquals(wrong.slice(0, 5), [], `${name}: ${kernel}`);
    }
  });

  test(
    `ptxas takes the programs of ${name} if they note what they access`,
    { skip: withoutPtxas, long: true },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "poolpass_instrumented_"));
      try {
        for (const [, ptx] of programsOf(corpus, 15)) {
          const instrumented = instrumentedPtx(ptx);
          if (instrumented !== undefined) await checkPtx(instrumented, folder);
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );
}

test("random kernels note all that they access, and nothing else", () => {
  const launches: ComparedLaunch[] = [];
  const { cuda, settle } = openInstrumented((launch) => launches.push(launch));
  const gpu = cuda.device(0);
  const buffers = [0, 1].map(() => gpu.allocate(bufferBytes));
  const [a, b] = buffers.map(({ address }) => address + BigInt(bufferBytes / 2)) as [bigint, bigint];
  const count = isLong ? 2000 : 14;
  for (let seed = 0; seed < count; seed++) {
    const { ptx, grid, block, n } = randomLaunch(new Random(seed));
    for (const buffer of buffers) buffer.fill(0);
    using module = gpu.loadModule(ptx);
    module.kernel("kernel").launch({ grid, block }, a, b, n);
    gpu.synchronize();
    settle();
    const { wrong, missing } = launches.at(-1)!;
    assertEquals([...wrong, ...missing].slice(0, 5), [], `seed ${seed}`);
  }
  assertEquals(launches.length, count);
  assert(launches.some(({ byteLength }) => byteLength > 100));
  for (const buffer of buffers) buffer.free();
  cuda[Symbol.dispose]();
});
