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
import type { NamedPtx } from "../../compiler/linking/link_ptx.ts";
import { type CompiledCode, compiledModule } from "./compiled_modules.ts";
import type { RunningChecks } from "../checks/launch_checks.ts";
import { StepCounter } from "../faults/kernel_fault.ts";
import { hostFunctions } from "../host_functions.ts";
import { GangVersions, LaunchVersions, type RunKernel } from "./kernel_versions.ts";
import { addressOfOffset, type LinearMemory, wholePages } from "../../memory/linear_memory.ts";

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
  /** The checks of launches while they run. Default: none. */
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
  const { byteLength } = image;
  const imports = {
    device: {
      memory: linearMemory.memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
      ...hostFunctionImports(hostFunctions({ linearMemory, steps, running, image: { begin, byteLength } })),
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
      image: { begin, end: begin + byteLength },
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
