/**
 * NVIDIA's samples for compute-sanitizer, written anew: each mistake is found, and what is right in its place is not
 * reported. Those about names and permissions that a program gives to memory by NVTX have no counterpart here.
 */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { type CudaDevice, CudaError, type DeviceBuffer, open, type SanitizerCheck } from "../../../mod.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { test } from "../../support/test.ts";

const ptx = readFileSync(new URL("samples.ptx", import.meta.url), "utf8");

interface Sample {
  /** The folder or the file of NVIDIA's sample. */
  readonly name: string;
  readonly check: SanitizerCheck;
  readonly kind: string;
  run(program: Program, isWrong: boolean): void;
}

/** What a sample works with. */
interface Program {
  readonly gpu: CudaDevice;
  /** Allocates memory that holds zeros. */
  zeros(byteLength: number): DeviceBuffer;
  allocate(byteLength: number): DeviceBuffer;
  /** Allocates memory that is not freed. */
  leak(byteLength: number): void;
  launch(kernel: string, block: number, ...values: readonly (DeviceBuffer | bigint | number)[]): void;
}

const samples: readonly Sample[] = [
  {
    name: "Memcheck, unaligned",
    check: "memory",
    kind: "misaligned",
    run: ({ launch }, isWrong) => launch(isWrong ? "store_misaligned" : "store_aligned", 1),
  },
  {
    name: "Memcheck, out of bounds",
    check: "memory",
    kind: "invalid-address",
    run({ launch, zeros }, isWrong) {
      const buffer = zeros(4);
      launch("store_anywhere", 1, isWrong ? 0x8765_4320n : buffer.address);
    },
  },
  {
    name: "Memcheck, a leak",
    check: "leak",
    kind: "leak",
    run: ({ leak, zeros }, isWrong) => isWrong ? leak(1024) : void zeros(1024),
  },
  {
    name: "Racecheck/block_error",
    check: "race",
    kind: "shared-race",
    run({ launch, zeros }, isWrong) {
      launch(isWrong ? "sum_without_barrier" : "sum_with_barrier", 128, zeros(512), zeros(4));
    },
  },
  {
    name: "Racecheck/warp_error",
    check: "race",
    kind: "shared-race",
    run({ launch, zeros }, isWrong) {
      launch(isWrong ? "sum_without_warp_barrier" : "sum_with_warp_barrier", 128, zeros(512), zeros(4));
    },
  },
  {
    name: "Synccheck/divergent_threads",
    check: "synchronization",
    kind: "divergent-barrier",
    run({ launch, zeros }, isWrong) {
      const count = 64 * 16 - 16;
      launch(isWrong ? "barrier_of_some" : "barrier_of_all", 64, zeros(4 * count), zeros(4), count);
    },
  },
  {
    name: "Synccheck/illegal_syncwarp",
    check: "synchronization",
    kind: "wrong-mask",
    run: ({ launch, zeros }, isWrong) => launch("warp_barrier", 32, zeros(4), isWrong ? 16 : 15),
  },
  {
    name: "NvtxMemoryPool, the last byte is out of bounds",
    check: "memory",
    kind: "out-of-bounds",
    run: ({ launch, zeros }, isWrong) => launch("number_bytes", isWrong ? 64 : 63, zeros(63)),
  },
];

/** Runs a sample, and returns the kinds that were reported. */
function kindsOf({ check, run }: Sample, isWrong: boolean): string[] {
  const kinds: string[] = [];
  {
    using cuda = open({ driver: "software", sanitize: [check], onReport: ({ kind }) => kinds.push(kind) });
    const gpu = cuda.device(0);
    const buffers: DeviceBuffer[] = [];
    const module = gpu.loadModule(ptx);
    const allocate = (byteLength: number) => {
      const buffer = gpu.defaultPool.allocate(byteLength);
      buffers.push(buffer);
      return buffer;
    };
    const zeros = (byteLength: number) => {
      const buffer = allocate(byteLength);
      buffer.fill(0);
      return buffer;
    };
    run({
      gpu,
      zeros,
      allocate,
      leak: (byteLength) => void gpu.defaultPool.allocate(byteLength),
      launch: (kernel, block, ...values) => module.kernel(kernel).launch({ grid: 1, block }, ...values),
    }, isWrong);
    try {
      gpu.synchronize();
    } catch (error) {
      if (!isWrong || !(error instanceof CudaError)) throw error;
    }
    for (const buffer of buffers) buffer[Symbol.dispose]();
    module[Symbol.dispose]();
  }
  return kinds;
}

for (const sample of samples) {
  test(`NVIDIA's ${sample.name}: found where it is wrong`, () => {
    assertEquals(kindsOf(sample, false), []);
    assertEquals(kindsOf(sample, true), [sample.kind]);
  });
}

// A value that no thread decides anything by is found when the host reads it.
for (
  const [name, kernel, written] of [
    ["Initcheck/memset_error", "add_index", 64],
    ["Suppressions/suppressions_initcheck_demo", "twice", 255],
  ] as const
) {
  test(`NVIDIA's ${name}: found where it is wrong`, { long: true }, async () => {
    const linesOf = async (bytes: number) => {
      const env = { POOLPASS_SANITIZE_HOST_READS: "1" };
      const script = "children/sanitizer/half_written.ts";
      await using child = startScript(script, [kernel, `${bytes}`], {
        env,
        permissions: ["--allow-ffi", "--allow-read"],
      });
      return await remainingLines(child);
    };
    assertEquals(await linesOf(256), ["done"]);
    assertEquals(await linesOf(written), ["uninitialized-host-read", "done"]);
  });
}
