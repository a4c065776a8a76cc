/** A device for the compiler's tests: memory, a bounds table, and kernels that run straight from their PTX. */
import { PtxError } from "../../src/ptx/syntax.ts";
import {
  type CompiledModule,
  compilePtx,
  type GangKernel,
  hostFunctionImports,
  initializeImage,
  type ModuleImage,
  UnsupportedPtxError,
} from "../../src/software/compiler/compile.ts";
import { addressBase, boundsTable, decodePlace, shadowOffset } from "../../src/software/abi/addresses.ts";
import type { GangWidth } from "../../src/software/compiler/simd/gang_layout.ts";
import { instructionSet } from "../../src/software/compiler/instructions/instructions.ts";
import type { InstructionSet } from "../../src/software/compiler/typing/find_form.ts";
import { BlockScheduler } from "../../src/software/execution/scheduling/block_scheduler.ts";
import { type LaunchField, launchFieldOffset, launchFields } from "../../src/software/abi/launch_record.ts";

/** The arguments of `device.fault`. */
export class Fault extends Error {
  readonly kind: number;
  readonly address: bigint;
  readonly line: number;

  constructor(kind: number, address: bigint, line: number) {
    super(`Fault ${kind} at 0x${address.toString(16)}, line ${line}`);
    this.kind = kind;
    this.address = address;
    this.line = line;
  }
}

const places = {
  parameters: 0x1_0000,
  launch: 0x1_8000,
  shared: 0x2_0000,
  threads: 0x6_0000,
  local: 0x10_0000,
  bounds: 0x800_0000,
  heap: 0x1000_0000,
};
const memory = new WebAssembly.Memory({ initial: 65536, maximum: 65536, shared: true });
const granules = 2 ** 23;
const allocations = new Uint32Array(memory.buffer, places.bounds, granules);
const lengths = new Uint32Array(memory.buffer, places.bounds + boundsTable.lengths, granules);
const launch = new Int32Array(memory.buffer, places.launch, launchFields.length);
let heapEnd = places.heap;

/** No test's kernel executes as many steps. */
const stepLimit = 2 ** 30;
const steps = { count: 0 };

function countSteps(count: number): void {
  steps.count += count;
  if (steps.count > stepLimit) throw new Error(`The kernel has done ${steps.count} steps`);
}

/** The shadow of some memory: the bits of it that are uninitialized, for kernels that look for them. */
export function shadowOf({ bytes }: Allocation): Uint8Array {
  return new Uint8Array(memory.buffer, bytes.byteOffset + shadowOffset, bytes.byteLength);
}

/** Memory that kernels may access. */
export interface Allocation {
  readonly address: bigint;
  /** Exactly the bytes of the allocation. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Allocates zeroed bytes at the start of a granule. The first byte past them is out of bounds. */
export function allocate(byteLength: number): Allocation {
  const begin = heapEnd;
  heapEnd += Math.ceil((byteLength + 1) / 512) * 512;
  allow(begin, byteLength);
  const bytes = new Uint8Array(memory.buffer, begin, byteLength);
  bytes.fill(0);
  return {
    address: addressBase + BigInt(begin),
    bytes,
    view: new DataView(memory.buffer, begin, byteLength),
  };
}

function allow(begin: number, byteLength: number): void {
  lengths[begin / 512] = byteLength;
  allocations.fill(begin / 512 + 1, begin / 512, Math.ceil((begin + byteLength) / 512));
}

/** Zeroed memory at a multiple of 65536. Kernels may only access the variables of an image in it. */
function place(image: ModuleImage): Allocation {
  heapEnd = Math.ceil(heapEnd / 65536) * 65536;
  const begin = heapEnd;
  heapEnd += image.byteLength;
  const bytes = new Uint8Array(memory.buffer, begin, image.byteLength);
  const view = new DataView(memory.buffer, begin, image.byteLength);
  bytes.fill(0);
  allocations.fill(0, begin / 512, heapEnd / 512);
  for (const { offset, byteLength } of image.variables.values()) allow(begin + offset, byteLength);
  const address = addressBase + BigInt(begin);
  initializeImage(image, { view, address });
  return { address, bytes, view };
}

/** How to run a kernel. */
export interface RunOptions {
  readonly grid?: readonly [number, number, number];
  readonly block?: readonly [number, number, number];
  /** The size of the dynamic shared memory. */
  readonly sharedMemoryBytes?: number;
  /** The parameters, from the first on. */
  readonly parameters?: readonly { readonly type: "u16" | "u32" | "f32" | "u64"; readonly value: number | bigint }[];
}

/** A module that is ready to run. */
export interface TestModule {
  run(name: string, options?: RunOptions): void;
  /** The memory of one of its variables. */
  variable(name: string): Allocation;
}

/** Compiles PTX, and returns a function that runs one of its kernels. */
export function loadKernel(ptx: string, name: string): (options?: RunOptions) => void {
  const module = load(ptx);
  return (options) => module.run(name, options);
}

/** What an error concerns: the whole module, which a GPU refuses too, or one kernel, which the device cannot run. */
export type RefusedPart = "module" | "kernel";

/** The error for PTX whose only kernel does not compile, and what it concerns. */
export function refusalOf(ptx: string): { readonly error: PtxError; readonly part: RefusedPart } {
  let refusals: CompiledModule["refusals"];
  try {
    refusals = compilePtx(ptx).refusals;
  } catch (error) {
    if (!(error instanceof PtxError) || error instanceof UnsupportedPtxError) throw error;
    return { error, part: "module" };
  }
  for (const error of refusals.values()) return { error, part: "kernel" };
  throw new Error("Nothing is refused");
}

/**
 * Compiles PTX and places its variables.
 *
 * @param gangWidth runs kernels in gangs of this width; throws if that is not possible
 * @param instructions replaces the instructions of the software device
 * @param decide makes kernels look for what is uninitialized; called where that decides something, with the line
 * @param partBytes divides kernels whose threads may wait into parts of this size
 */
export function load(
  ptx: string,
  { gangWidth, instructions = instructionSet, decide, partBytes }: {
    gangWidth?: GangWidth | undefined;
    instructions?: InstructionSet;
    decide?: ((line: number) => void) | undefined;
    partBytes?: number | undefined;
  } = {},
): TestModule {
  const kernelChecks: ReadonlySet<"initialization"> = new Set(decide === undefined ? [] : ["initialization"]);
  const division = partBytes === undefined ? {} : { dividedAbove: 0, partBytes };
  const { wasm, kernels, refusals, image } = compilePtx(ptx, {
    gangs: "always",
    instructions,
    kernelChecks,
    ...division,
  });
  for (const refusal of refusals.values()) throw refusal;
  const placed = place(image);
  const imports = {
    device: {
      memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, placed.address),
      ...hostFunctionImports({
        fault(kind: number, address: bigint, place: number): never {
          throw new Fault(kind, BigInt.asUintN(64, address), decodePlace(place).line);
        },
        refuel() {
          countSteps(2 ** 20);
          return 2 ** 20;
        },
        decideByUninitialized: (_decision: number, place: number) => decide?.(decodePlace(place).line),
        loadUninitialized: () => {},
        storeUninitialized: () => {},
        clock: () => BigInt(Math.round(performance.now() * 1e6)),
      }),
    },
  };
  const instance = new WebAssembly.Instance(new WebAssembly.Module(wasm), imports);
  const run = (
    name: string,
    { grid = [1, 1, 1], block = [1, 1, 1], parameters = [], sharedMemoryBytes = 0 }: RunOptions = {},
  ) => {
    steps.count = 0;
    const kernel = kernels.get(name)!;
    const view = new DataView(memory.buffer, places.parameters, 0x1_0000);
    parameters.forEach(({ type, value }, index) => {
      const { offset } = kernel.parameters[index]!;
      if (type === "u64") view.setBigUint64(offset, BigInt(value), true);
      else if (type === "u32") view.setUint32(offset, Number(value), true);
      else if (type === "u16") view.setUint16(offset, Number(value), true);
      else view.setFloat32(offset, Number(value), true);
    });
    const count = block[0] * block[1] * block[2];
    const saved = places.local + count * kernel.localBytes;
    const set = (fields: Partial<Record<LaunchField, number>>) => {
      for (const [field, value] of Object.entries(fields)) launch[launchFieldOffset(field as LaunchField) / 4] = value;
    };
    const { parameters: packed, shared, local, bounds, threads } = places;
    set({ parameters: packed, shared, localMemory: local, bounds, threads, savedRegisters: saved });
    set({ warpWorkspace: saved + count * kernel.savedBytes });
    set({ sharedBytes: kernel.sharedBytes + sharedMemoryBytes, fuelLeft: 2 ** 20 });
    set({ clusterDimX: 1, clusterDimY: 1, clusterDimZ: 1 });
    set({
      gridX: grid[0],
      gridY: grid[1],
      gridZ: grid[2],
      blockDimX: block[0],
      blockDimY: block[1],
      blockDimZ: block[2],
    });
    // A kernel in which the lanes of a warp wait for each other runs in whole warps only.
    if (gangWidth !== undefined && (kernel.lockstepPointCount === 0 || gangWidth === 32)) {
      const compiled = kernel.compileGangs(gangWidth);
      if (compiled === undefined || block[0] % gangWidth !== 0) throw new Error(`"${name}" cannot be run in gangs`);
      const instance = new WebAssembly.Instance(new WebAssembly.Module(compiled.wasm), imports);
      runGangs(instance.exports as unknown as GangExports, compiled, { grid, block, set });
      return;
    }
    const runKernel = instance.exports[name] as (launch: number) => void;
    const { suspensions } = kernel;
    const scheduler = suspensions === undefined ? undefined : new BlockScheduler({
      memory,
      block,
      threads,
      saved,
      local,
      hasShadows: decide !== undefined,
      kernel: { ...kernel, suspensions },
      run(firstThread, lastThread) {
        set({ firstThread, lastThread });
        runKernel(places.launch);
      },
      countSteps,
    });
    for (let blockZ = 0; blockZ < grid[2]; blockZ++) {
      for (let blockY = 0; blockY < grid[1]; blockY++) {
        set({ blockY, blockZ, firstBlockX: 0, lastBlockX: grid[0] });
        if (scheduler === undefined) runKernel(places.launch);
        for (let blockX = 0; scheduler !== undefined && blockX < grid[0]; blockX++) {
          set({ blockX });
          scheduler.runBlock();
        }
      }
    }
  };
  const variable = (name: string): Allocation => {
    const { offset, byteLength } = image.variables.get(name)!;
    const begin = placed.bytes.byteOffset + offset;
    return {
      address: placed.address + BigInt(offset),
      bytes: new Uint8Array(memory.buffer, begin, byteLength),
      view: new DataView(memory.buffer, begin, byteLength),
    };
  };
  return { run, variable };
}

/** The exports of a {@linkcode GangKernel}. */
interface GangExports {
  gangs(launch: number): number;
  threads(launch: number): void;
}

function runGangs(
  { gangs, threads }: GangExports,
  kernel: GangKernel,
  { grid, block, set }: Required<Pick<RunOptions, "grid" | "block">> & {
    set(fields: Partial<Record<LaunchField, number>>): void;
  },
): void {
  const count = kernel.hasBarriers ? block[0] * block[1] * block[2] : kernel.width;
  const saved = places.local + count * kernel.localBytes;
  set({ savedRegisters: saved, gangs: saved + count * kernel.savedBytes, divergences: 0 });
  const scheduler = new BlockScheduler({
    memory,
    block,
    threads: places.threads,
    saved,
    local: places.local,
    kernel,
    run(firstThread, lastThread) {
      set({ firstThread, lastThread });
      threads(places.launch);
    },
    countSteps,
  });
  for (let blockZ = 0; blockZ < grid[2]; blockZ++) {
    for (let blockY = 0; blockY < grid[1]; blockY++) {
      for (let firstBlockX = 0; firstBlockX < grid[0];) {
        set({ blockY, blockZ, firstBlockX, lastBlockX: grid[0] });
        const stopped = gangs(places.launch);
        if (stopped < grid[0]) scheduler.finishBlock();
        firstBlockX = stopped + 1;
      }
    }
  }
}

/** A module with a kernel named `test`, whose parameters are the addresses `out` and `in`. */
export function testModule(body: string): string {
  return `.version ${/wgmma|setmaxnreg|tensormap\.replace/.test(body) ? "8.0\n.target sm_90a" : "7.0\n.target sm_60"}
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred %p<10>;
  .reg .b16 %h<20>;
  .reg .b32 %r<30>;
  .reg .b64 %rd<30>;
  .reg .f32 %f<20>;
  .reg .f64 %fd<20>;
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [in];
${body}
  ret;
}
`;
}

/** The line of a body's first line in {@linkcode testModule}. */
export const firstBodyLine = 13;

/** Runs a body once with `input`, and returns what it wrote to `out`. */
export function runBody(body: string, input: DataView | undefined, outputBytes: number): DataView {
  const source = allocate(input?.byteLength ?? 8);
  if (input !== undefined) source.bytes.set(new Uint8Array(input.buffer, input.byteOffset, input.byteLength));
  const out = allocate(outputBytes);
  loadKernel(testModule(body), "test")({
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  return out.view;
}
