import { BlockScheduler, DeadlockError } from "./block_scheduler.ts";
import {
  type CompiledKernel,
  type CompiledModule,
  compilePtx,
  faultKind,
  hostFunctionImports,
  initializeImage,
  type ModuleVariable,
  type PackedKernel,
} from "./compiler/compile.ts";
import type { PackWidth } from "./compiler/packs/pack_layout.ts";
import { type ContextField, contextFields, contextOffset } from "./compiler/launch_context.ts";
import { assertionMessage, printFromDevice, type ReadableMemory, UnreadableError } from "./device_print.ts";
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
  /** Its other version, which runs packs of threads. */
  readonly pack: KernelPack;
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
  /** Whether threads are run in packs: in large launches where it is likely to be faster, always where it is possible. */
  readonly packedThreads?: boolean | "always";
}

/** From so many threads on, running them in packs is worth compiling the kernel once more. */
const leastPackedThreads = 4096;

/**
 * Compiles PTX, places its variables in the window and binds its kernels to it. Throws `PtxError` before anything is
 * reserved.
 */
export function loadModule(
  ptx: string,
  window: Window,
  { reserve, stepLimit = Infinity, boundsChecks = true, packedThreads = true }: ModulePlace,
): SoftwareModule {
  const module = compilePtx(ptx, { boundsChecks, packedThreads });
  const packedFrom = packedThreads === "always" ? 0 : leastPackedThreads;
  const { image } = module;
  const code = new WebAssembly.Module(module.wasm);
  if (image.byteLength === 0) {
    return {
      kernels: bindKernels(code, module, { window, begin: 0, stepLimit, packedFrom }),
      variables: new Map(),
      memory: undefined,
    };
  }
  const byteLength = wholePages(image.byteLength);
  const begin = reserve(byteLength);
  try {
    // What had these pages before may have left something there.
    if (!window.discard(begin, byteLength)) window.bytes.fill(0, begin, begin + byteLength);
    const view = new DataView(window.memory.buffer, begin, image.byteLength);
    initializeImage(image, { view, address: addressOfOffset(begin) });
    const variables = [...image.variables].map(([name, { space, offset, byteLength }]) => {
      return [name, { space, begin: begin + offset, byteLength }] as const;
    });
    return {
      kernels: bindKernels(code, module, { window, begin, stepLimit, packedFrom }),
      variables: new Map(variables),
      memory: { begin, byteLength },
    };
  } catch (error) {
    window.giveBack(begin, byteLength, { isShared: false });
    throw error;
  }
}

/** @param begin where in the window the module's variables begin */
function bindKernels(
  code: WebAssembly.Module,
  { kernels }: CompiledModule,
  { window, begin, stepLimit, packedFrom }: {
    window: Window;
    begin: number;
    stepLimit: number;
    packedFrom: number;
  },
): ReadonlyMap<string, SoftwareKernel> {
  const steps = new StepCounter(stepLimit);
  const imports = {
    device: {
      memory: window.memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
      ...hostFunctionImports({
        fault(kind: number, address: bigint, line: number): never {
          throw faultOf(kind, BigInt.asUintN(64, address), line);
        },
        goOn: () => steps.goOn(),
        clock: () => BigInt(Math.round(performance.now() * 1e6)),
        print(format: bigint, values: bigint, line: number, ...spaces: Spaces): number {
          try {
            const call = { format, arguments: values, memory: readableMemory(spaces) };
            return printFromDevice(window.bytes, call, writeStandardOutput);
          } catch (error) {
            if (!(error instanceof UnreadableError)) throw error;
            throw faultOf(faultKind.illegalAddress, error.address, line);
          }
        },
        failAssertion(
          message: bigint,
          file: bigint,
          sourceLine: number,
          name: bigint,
          blockX: number,
          blockY: number,
          blockZ: number,
          threadX: number,
          threadY: number,
          threadZ: number,
          line: number,
          ...spaces: Spaces
        ): never {
          const text = assertionMessage(window.bytes, {
            message,
            file,
            function: name,
            line: sourceLine,
            block: [blockX, blockY, blockZ],
            thread: [threadX, threadY, threadZ],
            memory: readableMemory(spaces),
          });
          writeStandardError(new TextEncoder().encode(`${text}\n`));
          throw new KernelFault(faultKind.failedAssertion, { line, detail: text });
        },
      }),
    },
  };
  const { exports } = new WebAssembly.Instance(code, imports);
  return new Map(
    [...kernels].map(([name, compiled]) => {
      const run = exports[name] as RunKernel;
      return [name, { compiled, run, steps, pack: new KernelPack(compiled, imports, packedFrom) }];
    }),
  );
}

/** What compiled code says of the memory that it may read: see `pushSpaces`. */
type Spaces = [
  shared: number,
  sharedBytes: number,
  local: number,
  localBytes: number,
  parameters: number,
  parameterBytes: number,
  limits: number,
];

/** The same. WebAssembly passes what is above 2 GiB as numbers below 0. */
function readableMemory(spaces: Spaces): ReadableMemory {
  const [shared, sharedBytes, local, localBytes, parameters, parameterBytes, limits] = spaces.map((number) => {
    return number >>> 0;
  }) as Spaces;
  return {
    shared: { begin: shared, byteLength: sharedBytes },
    local: { begin: local, byteLength: localBytes },
    parameters: { begin: parameters, byteLength: parameterBytes },
    limits,
  };
}

function faultOf(kind: number, address: bigint, line: number): KernelFault {
  switch (kind) {
    case faultKind.trap:
      return new KernelFault(kind, { line, detail: "a trap" });
    case faultKind.stackOverflow:
      return new KernelFault(kind, { line, detail: "the functions that a thread is in need more than its stack" });
    case faultKind.invalidFunction:
      return new KernelFault(kind, { line, detail: `0x${address.toString(16)} is the address of no function` });
    case faultKind.noBarrier:
      return new KernelFault(kind, {
        line,
        detail: `a block has the barriers 0 to 15, and no barrier ${address}`,
      });
    case faultKind.noBarrierCount:
      return new KernelFault(kind, {
        line,
        detail: `${BigInt.asIntN(32, address)} threads are to come to a barrier, which counts them in whole warps`,
      });
    default:
      return new KernelFault(kind, { address, line });
  }
}

/** The functions of a kernel that runs packs of threads. */
interface PackRun {
  readonly compiled: PackedKernel;
  /** Runs the blocks that the launch's record names, and tells the one at which it has stopped. */
  readonly packs: (launch: number) => number;
  readonly threads: RunKernel;
}

/** The widths of packs, the best first: work that is done once for a pack is the less, the more threads it has. */
const packWidths: readonly PackWidth[] = [32, 16, 8, 4];
/** With more registers in vectors, the widest packs have most of them in memory, and the next are faster. */
const mostRegistersOfWidest = 6;

/** The version of a kernel that runs packs of threads, which is compiled when it is first of use. */
class KernelPack {
  readonly #kernel: CompiledKernel;
  readonly #imports: WebAssembly.Imports;
  readonly #packedFrom: number;
  readonly #runs = new Map<PackWidth, PackRun | undefined>();

  constructor(kernel: CompiledKernel, imports: WebAssembly.Imports, packedFrom: number) {
    this.#kernel = kernel;
    this.#imports = imports;
    this.#packedFrom = packedFrom;
  }

  /** For a launch; undefined where its threads cannot be run in packs, or are too few. */
  for({ grid, block }: Geometry): PackRun | undefined {
    const threads = block[0] * block[1] * block[2];
    if (grid[0] * grid[1] * grid[2] * threads < this.#packedFrom) return undefined;
    const width = packWidths.find((width) => block[0] % width === 0);
    let run = width === undefined ? undefined : this.#ofWidth(width);
    if (run?.compiled.width === 32 && run.compiled.vectorRegisters > mostRegistersOfWidest) run = this.#ofWidth(16);
    if (run === undefined) return undefined;
    return packMemoryBytes(run.compiled, threads) > scratch.local.byteLength ? undefined : run;
  }

  #ofWidth(width: PackWidth): PackRun | undefined {
    if (!this.#runs.has(width)) this.#runs.set(width, this.#compile(width));
    return this.#runs.get(width);
  }

  #compile(width: PackWidth): PackRun | undefined {
    const compiled = this.#kernel.compilePacked(width);
    if (compiled === undefined) return undefined;
    const exports = instantiateIfPossible(compiled.wasm, this.#imports);
    if (exports === undefined) return undefined;
    const { packs, threads } = exports as unknown as { packs: PackRun["packs"]; threads: RunKernel };
    return { compiled, packs, threads };
  }
}

/** Undefined where the engine refuses, as for want of memory. */
function instantiateIfPossible(
  wasm: Uint8Array<ArrayBuffer>,
  imports: WebAssembly.Imports,
): WebAssembly.Exports | undefined {
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(wasm), imports).exports;
  } catch {
    return undefined;
  }
}

/** The bytes of memory for what is saved of threads and packs at once. */
function packMemoryBytes(kernel: PackedKernel, threadsPerBlock: number): number {
  const { localBytes, savedBytes, packBytes, width, hasBarriers } = kernel;
  const threads = hasBarriers ? threadsPerBlock : width;
  return threads * (localBytes + savedBytes) + threads / width * packBytes;
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
  const pack = kernel.pack.for(geometry);
  const index = new BlockIndex(geometry.grid);
  if (pack !== undefined) return packsAtOnce(launch, index, pack);
  return runSingly(launch, index);
}

function runSingly(launch: LaunchRecord, index: BlockIndex): () => boolean {
  return launch.kernel.compiled.suspensions === undefined
    ? blocksAtOnce(launch, index)
    : blockAfterBlock(launch, index);
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

  /** Writes in what that differs for packs of threads. */
  writePacked(kernel: PackedKernel): PackPlaces {
    const { block } = this.geometry;
    const threads = kernel.hasBarriers ? block[0] * block[1] * block[2] : kernel.width;
    const local = scratch.local.begin;
    const saved = local + threads * kernel.localBytes;
    this.set("localMemory", local);
    this.set("savedRegisters", saved);
    this.set("packs", saved + threads * kernel.savedBytes);
    return { local, saved };
  }

  set(field: ContextField, value: number): void {
    this.#fields[contextOffset(field) / 4] = value;
  }

  get(field: ContextField): number {
    return this.#fields[contextOffset(field) / 4]!;
  }
}

/** Where the local memory and the saved registers begin of threads that do not run in packs any more. */
interface PackPlaces {
  readonly local: number;
  readonly saved: number;
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
function blocksAtOnce(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { grid } = launch.geometry;
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
function blockAfterBlock(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { geometry: { block }, kernel: { compiled, run, steps } } = launch;
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
      withPlaceOfDeadlock(index, () => scheduler.runBlock());
      index.goOnTo(index.x + 1);
    }
    return index.isPastEnd;
  };
}

function withPlaceOfDeadlock({ x, y, z }: BlockIndex, run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof DeadlockError)) throw error;
    throw new KernelFault(faultKind.deadlock, { line: error.line, detail: `block ${x}, ${y}, ${z}: ${error.message}` });
  }
}

/** Of the packs that a launch runs, the part that may come apart before the rest is run thread by thread. */
const partingShare = 1 / 8;

/** Runs threads in packs, as many blocks of a row as time allows, as long as the packs stay whole. */
function packsAtOnce(launch: LaunchRecord, index: BlockIndex, { compiled, packs, threads }: PackRun): () => boolean {
  const { geometry: { grid, block }, kernel: { steps } } = launch;
  const packsPerBlock = block[0] * block[1] * block[2] / compiled.width;
  const places = launch.writePacked(compiled);
  const scheduler = new BlockScheduler({
    memory: launch.place.window.memory,
    block,
    threads: scratch.threads.begin,
    ...places,
    kernel: compiled,
    run(firstThread, lastThread) {
      launch.set("firstThread", firstThread);
      launch.set("lastThread", lastThread);
      threads(scratch.launch.begin);
    },
    countSteps: (count) => steps.count(count),
  });
  let count = 1;
  let begun = 0;
  let parted = 0;
  let runRest: (() => boolean) | undefined;
  return () => {
    if (runRest !== undefined) return runRest();
    launch.write();
    launch.writePacked(compiled);
    const start = performance.now();
    while (!index.isPastEnd) {
      const last = Math.min(index.x + count, grid[0]);
      launch.set("firstBlockX", index.x);
      launch.set("lastBlockX", last);
      launch.set("blockY", index.y);
      launch.set("blockZ", index.z);
      launch.set("divergences", 0);
      launch.set("rounds", 0);
      steps.restart();
      const stopped = packs(scratch.launch.begin);
      const rounds = compiled.hasBarriers ? launch.get("rounds") : last - index.x;
      begun += rounds * packsPerBlock;
      parted += launch.get("divergences");
      index.goOnTo(stopped);
      if (stopped < last) {
        withPlaceOfDeadlock(index, () => scheduler.finishBlock());
        index.goOnTo(stopped + 1);
      }
      if (parted > begun * partingShare && begun > 64) {
        runRest = runSingly(launch, index);
        return index.isPastEnd;
      }
      const elapsed = performance.now() - start;
      if (elapsed > sliceMilliseconds) break;
      if (elapsed < sliceMilliseconds / 4) count = Math.min(count * 2, 2 ** 24);
    }
    return index.isPastEnd;
  };
}
