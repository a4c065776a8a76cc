/**
 * Stands in for `../compiler_device.ts` in `deno task test:gpu`: every kernel that a test of the compiler runs on the
 * software device runs on a GPU, too, with the same memory, and what differs is printed. The tests go on with the results
 * of the software device.
 *
 * Each file has to run in a process of its own, because a fault of the GPU ends its use. These differ on an H200, and
 * may: approximations, within their bounds; NaNs of several operations; addresses; `%warpid`; what `shfl.sync` reads
 * from lanes outside its mask; `bfe.s32` with literal positions that no word has.
 *
 * @module
 */
import { open } from "../../../mod.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { CudaModule } from "../../../src/objects/modules/cuda_module.ts";
import * as software from "../compiler_device.ts";

export { Fault, firstBodyLine, refusalOf, testModule } from "../compiler_device.ts";
export type { Allocation, RefusedPart, RunOptions, TestModule } from "../compiler_device.ts";

const gpu = open({ driver: Deno.env.get("POOLPASS_DRIVER") === "software" ? "software" : "cuda" }).device(0);
const stream = gpu.createStream();
const pool = gpu.createPool({ releaseThreshold: Infinity });
const allocations: software.Allocation[] = [];
const counts = { same: 0, different: 0, failed: 0 };
const printed = new Set<string>();
const maxPrinted = 200;
let isLost = false;

globalThis.addEventListener("unload", () => console.log("On the GPU:", JSON.stringify(counts)));

/** As on the software device. Kernels that get the address get that of a copy on the GPU. */
export function allocate(byteLength: number): software.Allocation {
  const allocation = software.allocate(byteLength);
  allocations.push(allocation);
  return allocation;
}

/** Compiles PTX for both devices. */
export function load(ptx: string, options: Parameters<typeof software.load>[1] = {}): software.TestModule {
  const module = software.load(ptx, options);
  // The GPU does not have the instructions that a test makes up.
  const onGpu = options.instructions === undefined ? tryToLoad(ptx) : undefined;
  return {
    variable: (name) => module.variable(name),
    run(name, runOptions = {}) {
      if (onGpu === undefined || isLost) return module.run(name, runOptions);
      const copies = copiesFor(runOptions);
      try {
        module.run(name, runOptions);
        compare(onGpu, { name, runOptions, copies, ptx });
      } finally {
        if (!isLost) { for (const copy of copies.values()) copy.free(); }
      }
    },
  };
}

/** As on the software device. */
export function loadKernel(ptx: string, name: string): (options?: software.RunOptions) => void {
  const module = load(ptx);
  return (options) => module.run(name, options);
}

/** As on the software device. */
export function runBody(body: string, input: DataView | undefined, outputBytes: number): DataView {
  const source = allocate(input?.byteLength ?? 8);
  if (input !== undefined) source.bytes.set(new Uint8Array(input.buffer, input.byteOffset, input.byteLength));
  const out = allocate(outputBytes);
  const parameters = [out, source].map(({ address }) => ({ type: "u64", value: address }) as const);
  loadKernel(software.testModule(body), "test")({ parameters });
  return out.view;
}

/** For the target that it names, or for `sm_90` if it uses what came later. */
function tryToLoad(ptx: string): CudaModule | undefined {
  const newer = ptx.replace(/^\.version.*$/m, ".version 9.0").replace(/^\.target.*$/m, ".target sm_90");
  for (const text of [ptx, newer]) {
    try {
      return gpu.loadModule(text);
    } catch (error) {
      const { message } = error as Error;
      if (text === ptx && message.includes("requires")) continue;
      print(`is not loaded: ${message}`, ptx);
      return undefined;
    }
  }
  return undefined;
}

type Copies = ReadonlyMap<software.Allocation, DeviceBuffer>;

function copiesFor({ parameters = [] }: software.RunOptions): Copies {
  const copies = new Map<software.Allocation, DeviceBuffer>();
  for (const { type, value } of parameters) {
    const allocation = type === "u64" ? allocationAt(BigInt(value)) : undefined;
    if (allocation === undefined || copies.has(allocation)) continue;
    const copy = pool.allocate(Math.max(1, allocation.bytes.length), stream);
    copy.copyFrom(allocation.bytes.slice());
    copies.set(allocation, copy);
  }
  return copies;
}

function allocationAt(address: bigint): software.Allocation | undefined {
  return allocations.findLast((allocation) =>
    address >= allocation.address && address < allocation.address + BigInt(Math.max(1, allocation.bytes.length))
  );
}

interface Run {
  readonly name: string;
  readonly runOptions: software.RunOptions;
  readonly copies: Copies;
  readonly ptx: string;
}

function compare(module: CudaModule, { name, runOptions, copies, ptx }: Run): void {
  const { grid = [1, 1, 1], block = [1, 1, 1], parameters = [], sharedMemoryBytes = 0 } = runOptions;
  const given = parameters.map(({ type, value }) => {
    const allocation = type === "u64" ? allocationAt(BigInt(value)) : undefined;
    if (allocation !== undefined) return copies.get(allocation)!.address + BigInt(value) - allocation.address;
    return type === "u64" ? BigInt(value) : Number(value);
  });
  let difference: string | undefined;
  try {
    const kernel = module.kernel(name);
    const missing = Math.max(0, kernel.parameters!.length - given.length);
    // Copies to the shared memory of blocks of a cluster need a launch in clusters.
    const inCluster = /shared::cluster\.shared::cta|\b(?:st|red)\.async/.test(ptx) ? { cluster: 1 } : {};
    const options = { grid: [...grid], block: [...block], sharedMemoryBytes, stream, ...inCluster } as const;
    kernel.launch(options as Parameters<typeof kernel.launch>[0], ...given, ...new Array<number>(missing).fill(0));
    for (const [{ bytes }, copy] of copies) {
      if (bytes.length > 0) difference ??= differenceOf(bytes, copy.readSync(Uint8Array));
    }
  } catch (error) {
    counts.failed++;
    const { message } = error as Error;
    isLost = message.includes("context is lost");
    return print(`fails: ${message}`, ptx);
  }
  counts[difference === undefined ? "same" : "different"]++;
  if (difference !== undefined) print(difference, ptx);
}

function differenceOf(expected: Uint8Array, actual: Uint8Array): string | undefined {
  const at = expected.findIndex((byte, index) => byte !== actual[index]);
  if (at < 0) return undefined;
  const word = at - at % 8;
  const [here, there] = [expected, actual].map((bytes) => bytes.slice(word, word + 16).toHex());
  return `has ${there} at ${word}, the software device ${here}`;
}

function print(what: string, ptx: string): void {
  const text = `The GPU ${what}: ${ptx.slice(ptx.indexOf("{") + 1).replaceAll(/\s+/g, " ").slice(0, 800)}`;
  if (printed.size >= maxPrinted || printed.has(text)) return;
  printed.add(text);
  console.log(text);
}
