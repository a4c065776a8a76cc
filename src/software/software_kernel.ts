import { BlockScheduler, DeadlockError } from "./block_scheduler.ts";
import {
  type CompiledKernel,
  type CompiledModule,
  compilePtx,
  faultKind,
  hostFunctionImports,
  initializeImage,
  type ModuleVariable,
} from "./compiler/compile.ts";
import { type ContextField, contextFields, contextOffset } from "./compiler/launch_context.ts";
import { assertionMessage, printFromDevice } from "./device_print.ts";
import { writeStandardError, writeStandardOutput } from "./standard_output.ts";
import { addressOfOffset, scratch, wholePages, type Window } from "./window.ts";

/** Blocks and threads in each dimension, and what each block gets. */
export interface Geometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
}

/** A kernel met an address that it may not access, a trap, or what else ends it before its end. */
export class KernelFault extends Error {
  /** One of `faultKind`. */
  readonly kind: number;
  /** Undefined where it is not about memory. */
  readonly address: bigint | undefined;
  /** Line of the PTX text. */
  readonly line: number;

  constructor(
    kind: number,
    { address, line, detail }: { address?: bigint | undefined; line: number; detail?: string },
  ) {
    const what = detail ?? (address === undefined ? undefined : `address 0x${address.toString(16)}`);
    super(line === 0 ? what : what === undefined ? `Line ${line} of the PTX` : `Line ${line} of the PTX, ${what}`);
    this.kind = kind;
    this.address = address;
    this.line = line;
  }
}

/** What a compiled kernel exports: it is told where the launch's record begins. */
type RunKernel = (launch: number) => void;

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly run: RunKernel;
  /** What counts the steps of the blocks that are run. */
  readonly steps: StepCounter;
}

/** A variable of a loaded module, by where it lies in the window. */
export interface SoftwareVariable {
  readonly space: ModuleVariable["space"];
  readonly begin: number;
  readonly byteLength: number;
}

/** What PTX was loaded to. */
export interface SoftwareModule {
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  /** Those in `.global` and `.const`, each at the start of a granule. No device's kernels may access them yet. */
  readonly variables: ReadonlyMap<string, SoftwareVariable>;
  /** The part of the window that was reserved for the variables; undefined where there are none. */
  readonly memory: { readonly begin: number; readonly byteLength: number } | undefined;
}

/** Where a module's variables go. */
export interface ModulePlace {
  /** Reserves whole pages of the window: where they begin. What it throws where there are none is the caller's affair. */
  reserve(byteLength: number): number;
  /** How many steps the threads of a block may do: any number unless it is said. */
  readonly stepLimit?: number;
  /** Whether accesses are checked, as they are unless it is false. */
  readonly boundsChecks?: boolean;
}

/**
 * Compiles PTX, places its variables in the window and binds its kernels to it. Throws `PtxError` before anything is
 * reserved.
 */
export function loadModule(
  ptx: string,
  window: Window,
  { reserve, stepLimit = Infinity, boundsChecks = true }: ModulePlace,
): SoftwareModule {
  const module = compilePtx(ptx, { boundsChecks });
  const { image } = module;
  const code = new WebAssembly.Module(module.wasm);
  if (image.byteLength === 0) {
    return {
      kernels: bindKernels(code, module, { window, begin: 0, stepLimit }),
      variables: new Map(),
      memory: undefined,
    };
  }
  const byteLength = wholePages(image.byteLength);
  const begin = reserve(byteLength);
  // What had these pages before may have left something there.
  if (!window.discard(begin, byteLength)) window.bytes.fill(0, begin, begin + byteLength);
  const view = new DataView(window.memory.buffer, begin, image.byteLength);
  initializeImage(image, { view, address: addressOfOffset(begin) });
  const variables = [...image.variables].map(([name, { space, offset, byteLength }]) => {
    return [name, { space, begin: begin + offset, byteLength }] as const;
  });
  return {
    kernels: bindKernels(code, module, { window, begin, stepLimit }),
    variables: new Map(variables),
    memory: { begin, byteLength },
  };
}

/** @param begin where in the window the module's variables begin */
function bindKernels(
  code: WebAssembly.Module,
  { kernels }: CompiledModule,
  { window, begin, stepLimit }: { window: Window; begin: number; stepLimit: number },
): ReadonlyMap<string, SoftwareKernel> {
  const steps = new StepCounter(stepLimit);
  const instance = new WebAssembly.Instance(code, {
    device: {
      memory: window.memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
      ...hostFunctionImports({
        fault(kind: number, address: bigint, line: number): never {
          throw faultOf(kind, BigInt.asUintN(64, address), line);
        },
        goOn: () => steps.goOn(),
        clock: () => BigInt(Math.round(performance.now() * 1e6)),
        print: (format: bigint, values: bigint, local: number, shared: number) =>
          printFromDevice(window.bytes, { format, arguments: values, local, shared }, writeStandardOutput),
        failAssertion(
          message: bigint,
          file: bigint,
          sourceLine: number,
          name: bigint,
          ...[blockX, blockY, blockZ, threadX, threadY, threadZ, line]: number[]
        ): never {
          const text = assertionMessage(window.bytes, {
            message,
            file,
            function: name,
            line: sourceLine,
            block: [blockX!, blockY!, blockZ!],
            thread: [threadX!, threadY!, threadZ!],
          });
          writeStandardError(new TextEncoder().encode(`${text}\n`));
          throw new KernelFault(faultKind.failedAssertion, { line: line!, detail: text });
        },
      }),
    },
  });
  return new Map(
    [...kernels].map(([name, compiled]) => [name, { compiled, run: instance.exports[name] as RunKernel, steps }]),
  );
}

function faultOf(kind: number, address: bigint, line: number): KernelFault {
  switch (kind) {
    case faultKind.trap:
      return new KernelFault(kind, { line, detail: "a trap" });
    case faultKind.stackOverflow:
      return new KernelFault(kind, { line, detail: "the functions that a thread is in need more than its stack" });
    case faultKind.invalidFunction:
      return new KernelFault(kind, { line, detail: `0x${address.toString(16)} is the address of no function` });
    default:
      return new KernelFault(kind, { address, line });
  }
}

/** Counts what the threads of a block do, and stops those that do too much: they have no end, most likely. */
class StepCounter {
  /** How often a kernel may go around loops before it asks whether it may go on. */
  readonly atOnce: number = 2 ** 20;
  readonly #limit: number;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Begins with the next block. */
  restart(): void {
    this.#count = 0;
  }

  goOn(): number {
    this.count(this.atOnce);
    return this.atOnce;
  }

  count(steps: number): void {
    this.#count += steps;
    if (this.#count <= this.#limit) return;
    throw new KernelFault(faultKind.stepLimit, {
      line: 0,
      detail: `it was stopped after ${this.#count} steps: POOLPASS_SOFTWARE_STEPS sets how many a block may do`,
    });
  }
}

const sliceMilliseconds = 4;

/** What a launch takes beside its geometry. */
export interface LaunchPlace {
  readonly window: Window;
  readonly parameters: Uint8Array;
  /** Where the limits of the device that runs it begin in the window. */
  readonly limits: number;
  /** What the launch adds to the block's shared memory. */
  readonly sharedMemoryBytes?: number;
  /** Where the memory of the block's threads begins, as much as `threadMemoryBytes` tells. */
  readonly threadMemory?: number;
}

/** The bytes of the memory that the threads of a block need at once, for their variables and saved registers. */
export function threadMemoryBytes(
  { suspensions, localBytes, savedBytes }: CompiledKernel,
  threadsPerBlock: number,
): number {
  return suspensions === undefined ? localBytes : threadsPerBlock * (localBytes + savedBytes);
}

/** A launch as work for a stream: each call runs some blocks and returns whether none is left. */
export function launchInSlices(kernel: SoftwareKernel, geometry: Geometry, place: LaunchPlace): () => boolean {
  const launch = new LaunchRecord(kernel, geometry, place);
  return kernel.compiled.suspensions === undefined ? blocksAtOnce(launch) : blockAfterBlock(launch);
}

/** What a kernel reads of a launch. */
class LaunchRecord {
  readonly kernel: SoftwareKernel;
  readonly geometry: Geometry;
  readonly place: LaunchPlace;
  readonly #fields: Int32Array;

  constructor(kernel: SoftwareKernel, geometry: Geometry, place: LaunchPlace) {
    this.kernel = kernel;
    this.geometry = geometry;
    this.place = place;
    this.#fields = new Int32Array(place.window.memory.buffer, scratch.launch.begin, contextFields.length);
  }

  /** Where the threads' registers are saved: behind their local memory. */
  get savedRegisters(): number {
    const { block } = this.geometry;
    return this.localMemory + this.kernel.compiled.localBytes * block[0] * block[1] * block[2];
  }

  get localMemory(): number {
    return this.place.threadMemory ?? scratch.local.begin;
  }

  /** Writes it into the window, which other launches use in between. */
  write(): void {
    const { window, parameters, limits, sharedMemoryBytes = 0 } = this.place;
    const { grid, block } = this.geometry;
    const { compiled, steps } = this.kernel;
    window.bytes.set(parameters, scratch.parameters.begin);
    this.set("gridX", grid[0]);
    this.set("gridY", grid[1]);
    this.set("gridZ", grid[2]);
    this.set("blockDimX", block[0]);
    this.set("blockDimY", block[1]);
    this.set("blockDimZ", block[2]);
    this.set("parameters", scratch.parameters.begin);
    this.set("shared", scratch.shared.begin);
    this.set("sharedBytes", compiled.sharedBytes + sharedMemoryBytes);
    this.set("localMemory", this.localMemory);
    this.set("savedRegisters", this.savedRegisters);
    this.set("threads", scratch.threads.begin);
    this.set("limits", limits);
    this.set("stepsAtOnce", steps.atOnce);
  }

  set(field: ContextField, value: number): void {
    this.#fields[contextOffset(field) / 4] = value;
  }
}

/** The blocks of a grid in order. */
class BlockIndex {
  x = 0;
  y = 0;
  z = 0;
  readonly #grid: Geometry["grid"];

  constructor(grid: Geometry["grid"]) {
    this.#grid = grid;
  }

  get isPastEnd(): boolean {
    return this.z === this.#grid[2];
  }

  /** Goes on to the block of the row with that index, or to the next row. */
  goOnTo(x: number): void {
    this.x = x;
    if (this.x < this.#grid[0]) return;
    this.x = 0;
    if (++this.y < this.#grid[1]) return;
    this.y = 0;
    this.z++;
  }
}

/** Threads that never wait are run block after block by the kernel itself, as many blocks of a row as time allows. */
function blocksAtOnce(launch: LaunchRecord): () => boolean {
  const { grid } = launch.geometry;
  const index = new BlockIndex(grid);
  const { run, steps } = launch.kernel;
  let count = 1;
  return () => {
    launch.write();
    const start = performance.now();
    while (!index.isPastEnd) {
      const last = Math.min(index.x + count, grid[0]);
      launch.set("firstBlockX", index.x);
      launch.set("lastBlockX", last);
      launch.set("blockY", index.y);
      launch.set("blockZ", index.z);
      steps.restart();
      run(scratch.launch.begin);
      index.goOnTo(last);
      const elapsed = performance.now() - start;
      if (elapsed > sliceMilliseconds) break;
      if (elapsed < sliceMilliseconds / 4) count = Math.min(count * 2, 2 ** 24);
    }
    return index.isPastEnd;
  };
}

/** Threads that may wait are run by the scheduler, one block at a time. */
function blockAfterBlock(launch: LaunchRecord): () => boolean {
  const { geometry: { grid, block }, kernel: { compiled, run, steps } } = launch;
  const index = new BlockIndex(grid);
  const scheduler = new BlockScheduler({
    memory: launch.place.window.memory,
    block,
    threads: scratch.threads.begin,
    saved: launch.savedRegisters,
    local: launch.localMemory,
    kernel: { ...compiled, suspensions: compiled.suspensions! },
    run(firstThread, lastThread) {
      launch.set("firstThread", firstThread);
      launch.set("lastThread", lastThread);
      run(scratch.launch.begin);
    },
    countSteps: (count) => steps.count(count),
  });
  return () => {
    launch.write();
    const start = performance.now();
    while (!index.isPastEnd && performance.now() - start < sliceMilliseconds) {
      launch.set("blockX", index.x);
      launch.set("blockY", index.y);
      launch.set("blockZ", index.z);
      steps.restart();
      try {
        scheduler.runBlock();
      } catch (error) {
        if (!(error instanceof DeadlockError)) throw error;
        const { x, y, z } = index;
        throw new KernelFault(faultKind.deadlock, {
          line: error.line,
          detail: `block ${x}, ${y}, ${z}: ${error.message}`,
        });
      }
      index.goOnTo(index.x + 1);
    }
    return index.isPastEnd;
  };
}
