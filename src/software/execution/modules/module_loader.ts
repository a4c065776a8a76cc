/**
 * Loads PTX: compiles it, places its variables in linear memory, and binds its kernels to that memory.
 *
 * @module
 */
import type { KernelCheck } from "../../../kernel_checker.ts";
import type { LineInfo } from "../../../ptx/line_info.ts";
import {
  type CompiledKernel,
  type CompiledModule,
  hostFunctionImports,
  type ImageVariable,
  initializeImage,
  type UnsupportedPtxError,
} from "../../compiler/compile.ts";
import { decodePlace, faultKind } from "../../abi/addresses.ts";
import { originSpaces } from "../../abi/host_functions.ts";
import { assertionMessage, printFromDevice, type ReadableMemory, UnreadableError } from "../printing/device_print.ts";
import type { NamedPtx } from "../../compiler/linking/link_ptx.ts";
import { type CompiledCode, compiledModule } from "./compiled_modules.ts";
import type { RunningChecks } from "../checks/launch_checks.ts";
import { KernelStop } from "../faults/kernel_fault.ts";
import { StepCounter } from "../faults/step_counter.ts";
import { GangVersions, type RunKernel } from "./gang_versions.ts";
import { LaunchVersions } from "./launch_versions.ts";
import { writeStandardError, writeStandardOutput } from "../printing/standard_output.ts";
import type { DeviceHeap, HeapSite } from "../../memory/device_heap.ts";
import { addressOfOffset, type LinearMemory, offsetOfAddress, wholePages } from "../../memory/linear_memory.ts";
import { nearestOf } from "../../memory/named_memory.ts";

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly run: RunKernel;
  /** Counts the steps of the blocks that run. */
  readonly steps: StepCounter;
  /** The source that the module's PTX was compiled from. */
  readonly lineInfo: LineInfo;
  /** Its versions that run in gangs. */
  readonly gang: GangVersions;
  /** Versions compiled for particular launches. */
  readonly versions: LaunchVersions<SoftwareKernel>;
  /** Returns a version that skips more checks, and is compiled on first use. */
  without(more: Partial<SkippedChecks>): SoftwareKernel;
}

/** Checks that a version of the code skips. */
export interface SkippedChecks {
  readonly races: boolean;
  readonly accesses: boolean;
  readonly initialization: boolean;
  readonly barriers: boolean;
  /** Writes to memory that is read-only: most programs have none. */
  readonly writes: boolean;
}

/** Checks that a launch skips, as far as that is known when it is enqueued. */
export type SkippedChecksOfLaunch = Omit<SkippedChecks, "initialization" | "writes">;

/** A variable of a loaded module, with its offset in linear memory. */
export interface SoftwareVariable {
  readonly space: ImageVariable["space"];
  readonly begin: number;
  readonly byteLength: number;
}

/** A compiled module whose kernels can be launched. */
export interface SoftwareModule {
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  /** The architecture of its target: 90 for sm_90. */
  readonly ptxVersion: number;
  /** The other kernels of the module, with what the device does not support of each. */
  readonly refusals: ReadonlyMap<string, UnsupportedPtxError>;
  /** Variables that the device does not support, with the reasons. */
  readonly refusedVariables: ReadonlyMap<string, UnsupportedPtxError>;
  /** The variables in `.global` and `.const`. Each begins a granule. No device's kernels may access them yet. */
  readonly variables: ReadonlyMap<string, SoftwareVariable>;
  /** The part of linear memory that is reserved for the variables. Undefined if there are none. */
  readonly memory: { readonly begin: number; readonly byteLength: number } | undefined;
}

/** Where to place a module's variables, and how to run its kernels. */
export interface ModulePlace {
  /** Reserves whole pages of linear memory, and returns their offset. Throws if there are not enough. */
  reserve(byteLength: number): number;
  /** The maximum number of steps of a block's threads. Default: unlimited. */
  readonly stepLimit?: number;
  /** Whether accesses are checked. Default: true. */
  readonly boundsChecks?: boolean;
  /**
   * Whether to run threads in gangs: never, in large launches where it is likely to be faster, or wherever it is
   * possible.
   */
  readonly gangs?: boolean | "always";
  /** What looks at launches while they run. Default: nothing. */
  readonly running?: RunningChecks | undefined;
  /** Whether kernels report every access to global memory. Default: no. */
  readonly observesAccesses?: boolean;
  /** Whether the threads of a block run in the order of their launch. Default: as they are counted. */
  readonly variesThreads?: boolean;
  /** The checks that kernels make. Default: none. */
  readonly kernelChecks?: ReadonlySet<KernelCheck>;
}

/** The checks that gangs make, too. */
const checksOfGangs: ReadonlySet<KernelCheck> = new Set(["memory"]);

/** The number of threads from which on it pays to compile a kernel again for gangs. */
const leastGangThreads = 4096;

/**
 * Compiles PTX, or several modules linked to one, places its variables in linear memory, and binds its kernels to it.
 * Throws `PtxError` or `LinkError` before anything is reserved.
 */
export function loadModule(
  ptx: string | readonly NamedPtx[],
  linearMemory: LinearMemory,
  { reserve, stepLimit = Infinity, boundsChecks = true, gangs = true, ...checks }: ModulePlace,
): SoftwareModule {
  const {
    running,
    observesAccesses: observed = false,
    variesThreads = false,
    kernelChecks: checked = new Set<KernelCheck>(),
  } = checks;
  const codeWithout = ({ races, accesses, initialization, barriers, writes }: SkippedChecks): CompiledCode => {
    const observesAccesses = observed && !accesses;
    const isLeftOut: Partial<Record<KernelCheck, boolean>> = {
      race: races,
      initialization,
      synchronization: barriers,
    };
    const kernelChecks = new Set([...checked].filter((check) => !isLeftOut[check]));
    return compiledModule(ptx, {
      boundsChecks,
      gangs: gangs && !observesAccesses && !variesThreads && writes &&
        [...kernelChecks].every((check) => checksOfGangs.has(check)),
      observesAccesses,
      variesThreads,
      checksWrites: !writes,
      kernelChecks,
    });
  };
  const left: SkippedChecks = { races: false, accesses: false, initialization: false, barriers: false, writes: true };
  const { module, code } = codeWithout(left);
  const leastThreads = gangs === "always" ? 0 : leastGangThreads;
  const { image, refusals } = module;
  const others = { ptxVersion: module.ptxVersion, refusals, refusedVariables: image.refusals };
  if (image.byteLength === 0) {
    return {
      kernels: bindKernels(code, module, {
        linearMemory,
        begin: 0,
        stepLimit,
        leastThreads,
        running,
        codeWithout,
        left,
      }),
      ...others,
      variables: new Map(),
      memory: undefined,
    };
  }
  const byteLength = wholePages(image.byteLength);
  const begin = reserve(byteLength);
  try {
    // The pages may hold data of a previous user.
    if (!linearMemory.discard(begin, byteLength)) linearMemory.bytes.fill(0, begin, begin + byteLength);
    const view = new DataView(linearMemory.memory.buffer, begin, image.byteLength);
    initializeImage(image, { view, address: addressOfOffset(begin) });
    const variables = [...image.variables].map(([name, { space, offset, byteLength }]) => {
      return [name, { space, begin: begin + offset, byteLength }] as const;
    });
    return {
      kernels: bindKernels(code, module, { linearMemory, begin, stepLimit, leastThreads, running, codeWithout, left }),
      ...others,
      variables: new Map(variables),
      memory: { begin, byteLength },
    };
  } catch (error) {
    linearMemory.discardAndRelease(begin, byteLength, { isShared: false });
    throw error;
  }
}

/** @param begin the offset of the module's variables */
function bindKernels(
  code: WebAssembly.Module,
  { kernels, lineInfo, image }: CompiledModule,
  { linearMemory, begin, stepLimit, leastThreads, running, codeWithout, left }: {
    linearMemory: LinearMemory;
    begin: number;
    stepLimit: number;
    leastThreads: number;
    running: RunningChecks | undefined;
    /** Compiles the module without some checks. */
    codeWithout: (left: SkippedChecks) => CompiledCode;
    /** The checks that this code skips. */
    left: SkippedChecks;
  },
): ReadonlyMap<string, SoftwareKernel> {
  const steps = new StepCounter(stepLimit);
  const imports = {
    device: {
      memory: linearMemory.memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
      ...hostFunctionImports({
        fault(kind: number, address: bigint, place: number, thread: number): never {
          const offset = kind === faultKind.illegalAddress ? offsetOfAddress(BigInt.asUintN(64, address)) : undefined;
          if (offset !== undefined) running?.refuse(offset, place, thread);
          throw new KernelStop({
            kind,
            address: BigInt.asUintN(64, address),
            place: decodePlace(place),
            thread,
          });
        },
        refuel: (place: number, thread: number) => steps.refuel(place, thread),
        access(offset: number, place: number, thread: number): void {
          const unsigned = offset >>> 0;
          // The module's own variables are nobody's buffer.
          if (unsigned < begin || unsigned >= begin + image.byteLength) {
            running?.access(unsigned, place, thread);
          } else {
            running?.accessVariable(unsigned);
          }
        },
        orderedAccess(offset: number, place: number, thread: number, order: number): void {
          running?.orderedAccess(offset >>> 0, place, thread, order);
        },
        order: (place: number, thread: number, order: number) => running?.order(place, thread, order),
        stray(...[location, place, thread, space, offset, begin, byteLength]: StrayNumbers): void {
          running?.stray({
            begin: location >>> 0,
            place,
            thread,
            origin: { space: originSpaces[space]!, offset, begin: begin >>> 0, byteLength: byteLength >>> 0 },
          });
        },
        decideByUninitialized: (decision: number, place: number, thread: number) =>
          running?.initialization?.decide(decision, place, thread),
        loadUninitialized: (offset: number, place: number, thread: number) =>
          running?.initialization?.load(offset >>> 0, place, thread),
        storeUninitialized: (offset: number, place: number) => running?.initialization?.store(offset >>> 0, place),
        mark: (mark: number, thread: number) => running?.mark(mark, thread),
        clock: () => BigInt(Math.round(performance.now() * 1e6)),
        print(format: bigint, values: bigint, place: number, thread: number, ...spaces: Spaces): number {
          try {
            const call = { format, arguments: values, memory: readableMemory(spaces) };
            return printFromDevice(linearMemory.bytes, call, writeStandardOutput);
          } catch (error) {
            if (!(error instanceof UnreadableError)) throw error;
            const { address, byteLength: bytes } = error;
            throw new KernelStop({
              kind: faultKind.illegalAddress,
              address,
              place: { ...decodePlace(place), bytes },
              thread,
            });
          }
        },
        allocate(size: bigint, alignment: bigint, place: number, _thread: number, bounds: number): bigint {
          const heap = linearMemory.heapAt(bounds >>> 0);
          const address = allocateOnHeap(heap, { size, alignment, site: running?.siteOf(place) });
          const offset = offsetOfAddress(address);
          if (offset !== undefined) running?.allocated(offset, Number(BigInt.asUintN(64, size)));
          running?.initialization?.allocate(offset, Number(size));
          return address;
        },
        free(address: bigint, place: number, thread: number, bounds: number): void {
          const heap = linearMemory.heapAt(bounds >>> 0);
          const offset = offsetOfAddress(BigInt.asUintN(64, address));
          if (offset !== undefined) running?.frees(offset, heap.byteLengthAt(offset), place, thread);
          const what = refusalOfFree(heap, BigInt.asUintN(64, address));
          if (what === undefined) return;
          throw new KernelStop({ kind: faultKind.illegalAddress, address, place: decodePlace(place), thread, what });
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
          const { text, source, what } = assertionMessage(linearMemory.bytes, {
            message,
            file,
            function: name,
            line: sourceLine,
            block: [blockX, blockY, blockZ],
            thread: [threadX, threadY, threadZ],
            memory: readableMemory(spaces),
          });
          writeStandardError(new TextEncoder().encode(`${text}\n`));
          const kind = faultKind.failedAssertion;
          throw new KernelStop({ kind, place: { line }, index: [threadX, threadY, threadZ], source, what });
        },
      }),
    },
  };
  const { exports } = new WebAssembly.Instance(code, imports);
  const others = new Map<string, ReadonlyMap<string, SoftwareKernel>>();
  const without = (left: SkippedChecks): ReadonlyMap<string, SoftwareKernel> => {
    const key = Object.values(left).join();
    let version = others.get(key);
    if (version === undefined) {
      const { code, module } = codeWithout(left);
      version = bindKernels(code, module, { linearMemory, begin, stepLimit, leastThreads, running, codeWithout, left });
      others.set(key, version);
    }
    return version;
  };
  const bind = (compiled: CompiledKernel, exports: WebAssembly.Exports): SoftwareKernel => {
    const { name } = compiled;
    const run = exports[name] as RunKernel;
    const versions = new LaunchVersions(compiled, {
      bind: (wasm, kernel) => bind(kernel, new WebAssembly.Instance(new WebAssembly.Module(wasm), imports).exports),
      memory: linearMemory.memory,
      image: { begin, end: begin + image.byteLength },
    });
    const gang = new GangVersions(compiled, imports, leastThreads);
    return {
      compiled,
      run,
      steps,
      lineInfo,
      gang,
      versions,
      without: (more) => without({ ...left, ...more }).get(name)!,
    };
  };
  return new Map([...kernels].map(([name, compiled]) => [name, bind(compiled, exports)]));
}

/** A kernel's call of `malloc`. Returns the address, or 0. The sizes are unsigned 64-bit numbers. */
function allocateOnHeap(
  heap: DeviceHeap,
  { size, alignment, site }: { size: bigint; alignment: bigint; site: HeapSite | undefined },
): bigint {
  const [bytes, multiple] = [size, alignment].map((number) => Number(BigInt.asUintN(64, number))) as [number, number];
  const offset = heap.allocate(bytes, multiple, site);
  return offset === undefined ? 0n : addressOfOffset(offset);
}

/** A kernel's call of `free`. Returns what is wrong with it, if anything. */
function refusalOfFree(heap: DeviceHeap, address: bigint): string | undefined {
  if (address === 0n) return undefined;
  const offset = offsetOfAddress(address);
  if (offset !== undefined && heap.free(offset)) return undefined;
  const position = offset === undefined ? undefined : nearestOf({ begin: offset, byteLength: 1 }, heap.ranges());
  return `frees 0x${address.toString(16)}, which malloc in a kernel did not return, or which was freed already` +
    (position === undefined ? "" : `: it is ${position}`);
}

/** The memory that compiled code says may be read. See `pushSpaces`. */
type Spaces = [
  shared: number,
  sharedBytes: number,
  local: number,
  localBytes: number,
  parameters: number,
  parameterBytes: number,
  bounds: number,
];

/** What compiled code says of an access outside of its origin. See `hostFunctions`. */
type StrayNumbers = [
  location: number,
  place: number,
  thread: number,
  space: number,
  offset: number,
  begin: number,
  byteLength: number,
];

/** The same as offsets. WebAssembly passes offsets above 2 GiB as negative numbers. */
function readableMemory(spaces: Spaces): ReadableMemory {
  const [shared, sharedBytes, local, localBytes, parameters, parameterBytes, bounds] = spaces.map((number) => {
    return number >>> 0;
  }) as Spaces;
  return {
    shared: { begin: shared, byteLength: sharedBytes },
    local: { begin: local, byteLength: localBytes },
    parameters: { begin: parameters, byteLength: parameterBytes },
    bounds,
  };
}
