/**
 * Loads PTX: checks and compiles the code, allocates the variables in linear memory, and binds the kernels to that
 * memory.
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
  UnsupportedPtxError,
} from "../../compiler/compile.ts";
import { defaultStackBytes } from "../../compiler/codegen/function_emitter.ts";
import type { NamedPtx } from "../../compiler/linking/link_ptx.ts";
import { type CompiledCode, compiledKernel, compiledModule } from "./compiled_modules.ts";
import type { RunningChecks } from "../checks/launch_checks.ts";
import { StepCounter } from "../faults/kernel_fault.ts";
import { hostFunctions } from "../host_functions.ts";
import { GangVersions, LaunchVersions, type RunKernel } from "./kernel_versions.ts";
import type { LinearMemory } from "../../memory/linear_memory.ts";
import { addressOfOffset, wholePages } from "../../memory/memory_layout.ts";

/** The properties of a compiled kernel that running its blocks needs. All are plain data. */
export type BlockProperties = Pick<
  CompiledKernel,
  | "name"
  | "sharedBytes"
  | "localBytes"
  | "savedBytes"
  | "productBytes"
  | "frameBytes"
  | "resumeLines"
  | "callSites"
  | "suspensions"
>;

/** A kernel whose blocks the calling thread can run. */
export interface RunnableKernel {
  readonly compiled: BlockProperties;
  readonly run: RunKernel;
  /** Counts the steps of the running blocks. */
  readonly steps: StepCounter;
}

/** A kernel of a loaded module. */
export interface SoftwareKernel extends RunnableKernel {
  readonly compiled: CompiledKernel;
  /** The code of the kernel, and the variables that the code uses. */
  readonly binding: KernelBinding;
  /** Maps lines of the module's PTX to lines of the source from which the PTX was compiled. */
  readonly lineInfo: LineInfo;
  /** The versions of the kernel that are compiled for gangs. */
  readonly gang: GangVersions;
  /** The versions of the kernel that are compiled for particular launches. */
  readonly versions: LaunchVersions<SoftwareKernel>;
  /** Returns a version of the kernel that also skips the checks in `more`. The version is compiled on first use. */
  without(more: Partial<SkippedChecks>): SoftwareKernel;
}

/** The code of a kernel, with all that a thread needs to instantiate it. */
export interface KernelBinding {
  readonly code: WebAssembly.Module;
  /** The range of the module's variables in linear memory. */
  readonly image: { readonly begin: number; readonly byteLength: number };
}

/** The checks that a compiled version of a kernel skips. */
export interface SkippedChecks {
  readonly races: boolean;
  readonly accesses: boolean;
  readonly initialization: boolean;
  readonly barriers: boolean;
  /** Whether the check for writes to read-only memory is skipped. Most programs have no read-only memory. */
  readonly writes: boolean;
}

/**
 * The checks whose need is determined when a launch is enqueued. The need for the other checks is determined when the
 * launch starts.
 */
export type SkippedChecksOfLaunch = Omit<SkippedChecks, "initialization" | "writes">;

/** A variable of a loaded module, with its offset in linear memory. */
export interface SoftwareVariable {
  readonly space: ImageVariable["space"];
  readonly begin: number;
  readonly byteLength: number;
}

/** A compiled module whose kernels can be launched. */
export interface SoftwareModule {
  readonly kernels: ModuleKernels;
  /** The target architecture of the PTX as a number: 90 for sm_90. */
  readonly ptxVersion: number;
  /** Maps the name of each variable that the device does not support to the error that explains why. */
  readonly refusedVariables: ReadonlyMap<string, UnsupportedPtxError>;
  /**
   * The variables in `.global` and `.const`, each of which starts at a multiple of 512 bytes. Initially, no device has
   * access to the variables.
   */
  readonly variables: ReadonlyMap<string, SoftwareVariable>;
  /** The part of linear memory that is reserved for the variables. Undefined if there are none. */
  readonly memory: { readonly begin: number; readonly byteLength: number } | undefined;
}

/** Options for loading a module and running its kernels. */
export interface ModulePlace {
  /** Reserves whole pages of linear memory, and returns their offset. Throws if linear memory is full. */
  reserve(byteLength: number): number;
  /** The maximum total number of steps of a block's threads. Default: unlimited. */
  readonly stepLimit?: number;
  /** Whether kernels check the bounds of accesses. Default: true. */
  readonly boundsChecks?: boolean;
  /**
   * Whether threads run in gangs: never (false), in large launches where gangs are profitable (true, the default), or
   * wherever possible (`"always"`).
   */
  readonly gangs?: boolean | "always";
  /** Receives the calls that kernels make for checks. Undefined if kernels make no such calls. */
  readonly running?: RunningChecks | undefined;
  /** Whether kernels report every access to global memory. Default: false. */
  readonly observesAccesses?: boolean;
  /**
   * Whether the threads of a block run in the order that the launch specifies. Default: false, which runs threads in
   * ascending order.
   */
  readonly variesThreads?: boolean;
  /** The checks that kernels perform. Default: no checks. */
  readonly kernelChecks?: ReadonlySet<KernelCheck>;
  /** The extra stack size of each thread, in bytes, for functions that may be recursive or allocate stack memory. */
  readonly stackBytes?: number | undefined;
}

/** The checks that are available to kernels that run in gangs. */
const checksOfGangs: ReadonlySet<KernelCheck> = new Set(["memory"]);

/** The minimum number of threads of a launch for which recompiling the kernel for gangs is worthwhile. */
const leastGangThreads = 4096;

/**
 * Compiles PTX, or several modules linked into one, allocates the variables in linear memory, and binds the kernels to
 * that memory. Throws `PtxError` or `LinkError` before reserving anything.
 */
export function loadSoftwareModule(
  ptx: string | readonly NamedPtx[],
  linearMemory: LinearMemory,
  { reserve, stepLimit = Infinity, boundsChecks = true, gangs = true, ...checks }: ModulePlace,
): SoftwareModule {
  const {
    running,
    observesAccesses: observed = false,
    variesThreads = false,
    kernelChecks: checked = new Set<KernelCheck>(),
    stackBytes = defaultStackBytes,
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
      stackBytes,
    });
  };
  const left: SkippedChecks = { races: false, accesses: false, initialization: false, barriers: false, writes: true };
  const compiled = codeWithout(left);
  const { module } = compiled;
  const leastThreads = gangs === "always" ? 0 : leastGangThreads;
  const { image } = module;
  const others = { ptxVersion: module.ptxVersion, refusedVariables: image.refusals };
  const bound = (begin: number) =>
    new ModuleKernels(compiled, { linearMemory, begin, stepLimit, leastThreads, running, codeWithout, left });
  if (image.byteLength === 0) return { kernels: bound(0), ...others, variables: new Map(), memory: undefined };
  const byteLength = wholePages(image.byteLength);
  const begin = reserve(byteLength);
  try {
    // Clears the pages, which may contain data of a previous owner.
    if (!linearMemory.discard(begin, byteLength)) linearMemory.bytes.fill(0, begin, begin + byteLength);
    const view = new DataView(linearMemory.memory.buffer, begin, image.byteLength);
    initializeImage(image, { view, address: addressOfOffset(begin) });
    const variables = [...image.variables].map(([name, { space, offset, byteLength }]) => {
      return [name, { space, begin: begin + offset, byteLength }] as const;
    });
    return { kernels: bound(begin), ...others, variables: new Map(variables), memory: { begin, byteLength } };
  } catch (error) {
    linearMemory.discardAndRelease(begin, byteLength, { isShared: false });
    throw error;
  }
}

/** Options for binding the kernels of a module to its variables. */
interface BindingOptions {
  readonly linearMemory: LinearMemory;
  /** The offset of the module's variables in linear memory. */
  readonly begin: number;
  readonly stepLimit: number;
  readonly leastThreads: number;
  readonly running: RunningChecks | undefined;
  /** Returns the module compiled without the given checks. */
  codeWithout(left: SkippedChecks): CompiledCode;
  /** The checks that the module's code skips. */
  readonly left: SkippedChecks;
}

/** The kernels of a loaded module that the device can run. Large modules compile a kernel when it is first used. */
export class ModuleKernels {
  /** Maps the name of each kernel that the device cannot run to the error that explains why. */
  readonly refusals: ReadonlyMap<string, UnsupportedPtxError>;
  readonly #module: CompiledModule;
  readonly #options: BindingOptions;
  readonly #steps: StepCounter;
  readonly #imports: WebAssembly.Imports;
  readonly #bound = new Map<string, SoftwareKernel>();
  readonly #refusals: Map<string, UnsupportedPtxError>;
  /** The kernels of the versions of the module that skip other checks. */
  readonly #others = new Map<string, ModuleKernels>();

  constructor({ code, module }: CompiledCode, options: BindingOptions) {
    const { linearMemory, begin, stepLimit, running } = options;
    this.#module = module;
    this.#options = options;
    this.refusals = this.#refusals = new Map(module.refusals);
    const steps = this.#steps = new StepCounter(stepLimit);
    const image = { begin, byteLength: module.image.byteLength };
    this.#imports = {
      device: {
        memory: linearMemory.memory,
        imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
        ...hostFunctionImports(hostFunctions({ linearMemory, steps, running, image })),
      },
    };
    const instance = this.#instantiate(code);
    for (const [name, compiled] of module.kernels) this.#bound.set(name, this.#bind(compiled, instance));
  }

  /** The kernels that have been compiled. */
  get compiled(): Iterable<SoftwareKernel> {
    return this.#bound.values();
  }

  get size(): number {
    return this.#module.kernels.size + this.#module.deferred.size + this.#module.refusals.size - this.#refusals.size;
  }

  /** Returns the names of the kernels. */
  keys(): string[] {
    const { kernels, deferred } = this.#module;
    return [...kernels.keys(), ...deferred.keys()].filter((name) => !this.#refusals.has(name));
  }

  has(name: string): boolean {
    return this.#bound.has(name) || this.#module.deferred.has(name) && !this.#refusals.has(name);
  }

  /**
   * Returns a kernel, which is compiled if it has not been used before. Returns undefined if there is no such kernel, or
   * the device cannot run it.
   */
  get(name: string): SoftwareKernel | undefined {
    const bound = this.#bound.get(name);
    const deferred = bound === undefined ? this.#module.deferred.get(name) : undefined;
    if (deferred === undefined || this.#refusals.has(name)) return bound;
    try {
      const { code, kernel } = compiledKernel(deferred);
      const version = this.#bind(kernel, this.#instantiate(code));
      this.#bound.set(name, version);
      return version;
    } catch (error) {
      if (!(error instanceof UnsupportedPtxError)) throw error;
      this.#refusals.set(name, error);
      return undefined;
    }
  }

  #without(more: Partial<SkippedChecks>): ModuleKernels {
    const left = { ...this.#options.left, ...more };
    const key = Object.values(left).join();
    let version = this.#others.get(key);
    if (version === undefined) {
      version = new ModuleKernels(this.#options.codeWithout(left), { ...this.#options, left });
      this.#others.set(key, version);
    }
    return version;
  }

  #instantiate(code: WebAssembly.Module): Instantiated {
    const image = { begin: this.#options.begin, byteLength: this.#module.image.byteLength };
    return { exports: new WebAssembly.Instance(code, this.#imports).exports, binding: { code, image } };
  }

  #bind(compiled: CompiledKernel, { exports, binding }: Instantiated): SoftwareKernel {
    const { linearMemory, leastThreads } = this.#options;
    const { begin, byteLength } = binding.image;
    const versions = new LaunchVersions(compiled, {
      bind: (wasm, kernel) => this.#bind(kernel, this.#instantiate(new WebAssembly.Module(wasm))),
      memory: linearMemory.memory,
      image: { begin, end: begin + byteLength },
    });
    return {
      compiled,
      run: exports[compiled.name] as RunKernel,
      steps: this.#steps,
      binding,
      lineInfo: this.#module.lineInfo,
      gang: new GangVersions(compiled, this.#imports, leastThreads),
      versions,
      without: (more) => this.#without(more).get(compiled.name)!,
    };
  }
}

/** The exports of an instance of compiled kernels, and their code. */
interface Instantiated {
  readonly exports: WebAssembly.Exports;
  readonly binding: KernelBinding;
}
