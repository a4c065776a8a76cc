/**
 * Programs that the check of memory looks at.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaStream,
  type KernelArgument,
  type LaunchOptions,
  type MemoryPool,
  open,
  type SanitizerReport,
} from "../../../mod.ts";
import { test } from "../../support/test.ts";

/** What a program works with. */
export interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  /** Launches the program's kernel, by default with one thread. */
  launch(options: Partial<LaunchOptions>, ...args: KernelArgument[]): void;
}

/** Two programs: one is right, and the other makes a mistake. */
export interface Pair {
  readonly name: string;
  readonly ptx: string;
  readonly kind: string;
  /** What the message says. */
  readonly says: RegExp;
  readonly right: (context: Context) => void;
  readonly wrong: (context: Context) => void;
}

/** A module with one kernel, named `kernel`. */
export function kernelOf(parameters: string, body: string, declarations = ""): string {
  return `.version 8.0
.target sm_90
.address_size 64
${declarations}
.visible .entry kernel (${parameters})
{
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<8>; .reg .pred %p<4>;
${body}
  ret;
}
`;
}

/** Runs a program, and returns what is reported. An error of CUDA ends it. */
export function reportsOf(ptx: string, run: Pair["right"], schedule?: "newest"): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  const onReport = (report: SanitizerReport) => void reports.push(report);
  const softwareSchedule = schedule === undefined ? {} : { softwareSchedule: schedule };
  const cuda = open({ driver: "software", softwareDevices: 2, sanitize: ["memory"], onReport, ...softwareSchedule });
  try {
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    const kernel = gpu.loadModule(ptx).kernel("kernel");
    const launch: Context["launch"] = (options, ...args) =>
      kernel.launch({ grid: 1, block: 1, stream, ...options }, ...args);
    run({ cuda, gpu, stream, pool: gpu.createPool(), launch });
    stream.synchronize();
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
  } finally {
    cuda[Symbol.dispose]();
  }
  return reports;
}

/** Tests that the right programs are silent, and that each wrong one is reported once. */
export function testPairs(pairs: readonly Pair[]): void {
  for (const { name, ptx, kind, says, right, wrong } of pairs) {
    test(`${name}: the right program is silent`, () => assertEquals(reportsOf(ptx, right), []));
    test(`${name}: the wrong one is reported`, () => {
      const reports = reportsOf(ptx, wrong);
      assertEquals(reports.map(({ check, kind }) => ({ check, kind })), [{ check: "memory", kind }]);
      const [{ message }] = reports as [SanitizerReport];
      assertEquals(says.test(message), true, `${says} is not in:\n${message}`);
      assertEquals(message.includes("programs.ts"), true, "the launch is not named");
    });
  }
}
