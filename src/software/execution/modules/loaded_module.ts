/**
 * Loaded modules, with their kernels and variables.
 *
 * @module
 */
import { forgetKernels } from "../workers/workers.ts";
import { type CudaError, cudaErrorNumbers, explainedError } from "../../../support/errors.ts";
import { type ImageKind, imageKind, isPtx, ptxText } from "../../../ptx/image_kind.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { AccessibleRange } from "../../memory/allocations.ts";
import { PtxVersionError, type UnsupportedPtxError } from "../../compiler/compile.ts";
import { LinkError, type NamedPtx } from "../../compiler/linking/link_ptx.ts";
import type { LinkedImage, MemoryRange } from "../../../driver.ts";
import { fail } from "../../failure.ts";
import {
  loadSoftwareModule,
  type ModulePlace,
  type SoftwareKernel,
  type SoftwareModule,
  type SoftwareVariable,
} from "./module_loader.ts";
import type { LinearMemory } from "../../memory/linear_memory.ts";
import { offsetOfAddress } from "../../memory/memory_layout.ts";

const loadCall = "cuModuleLoadDataEx";
const addCall = "cuLinkAddData";
/** A module that was loaded for a device. */
export class LoadedModule {
  readonly device: number;
  /** The handles of the functions that were requested, by name. */
  readonly functions: Map<string, bigint> = new Map();
  readonly variables: ReadonlyMap<string, ModuleVariable>;
  /** The number of pending launches of the module's kernels. */
  pendingLaunches = 0;
  readonly #linearMemory: LinearMemory;
  readonly #module: SoftwareModule;

  private constructor(linearMemory: LinearMemory, device: number, module: SoftwareModule) {
    this.#linearMemory = linearMemory;
    this.device = device;
    this.#module = module;
    this.variables = new Map(
      [...module.variables].map(([name, variable]) => {
        return [name, new ModuleVariable(linearMemory, { ...variable, device, name })];
      }),
    );
  }

  /** The target architecture of the PTX as a number: 90 for sm_90. */
  get ptxVersion(): number {
    return this.#module.ptxVersion;
  }

  /** The offset of the module's variables in linear memory. Undefined if the module has none. */
  get imageBegin(): number | undefined {
    return this.#module.memory?.begin;
  }

  /** The total size of the module's variables in `.const`, in bytes. */
  get constantBytes(): number {
    const variables = [...this.variables.values()].filter(({ space }) => space === "const");
    return variables.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Implements `cuModuleLoadDataEx`. */
  static load(
    linearMemory: LinearMemory,
    image: string | Uint8Array,
    { device, ...options }: { device: number } & Omit<ModulePlace, "reserve">,
  ): LoadedModule {
    return LoadedModule.#load(linearMemory, textOf(image, loadCall), { call: loadCall, device, ...options });
  }

  /** Implements `cuLinkCreate`, `cuLinkAddData`, `cuLinkComplete`, and `cuModuleLoadDataEx` of the result. */
  static link(
    linearMemory: LinearMemory,
    images: readonly LinkedImage[],
    { device, ...options }: { device: number } & Omit<ModulePlace, "reserve">,
  ): LoadedModule {
    const named = images.map(({ name, image }) => ({ name, ptx: textOf(image, addCall, name) }));
    return LoadedModule.#load(linearMemory, named, { call: addCall, device, ...options });
  }

  static #load(
    linearMemory: LinearMemory,
    ptx: string | readonly NamedPtx[],
    { call, device, ...options }: { call: string; device: number } & Omit<ModulePlace, "reserve">,
  ): LoadedModule {
    const reserve = (byteLength: number) =>
      linearMemory.reserve(byteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, loadCall);
    try {
      return new LoadedModule(linearMemory, device, loadSoftwareModule(ptx, linearMemory, { reserve, ...options }));
    } catch (error) {
      throw errorOfPtx(error, call);
    }
  }

  /** Implements `cuModuleGetFunction`. Throws `cudaErrorNotSupported` for a kernel that the device cannot run. */
  kernel(name: string, call: string): SoftwareKernel {
    const { kernels } = this.#module;
    if (name === "") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const kernel = kernels.get(name);
    if (kernel !== undefined) return kernel;
    const refusal = kernels.refusals.get(name);
    if (refusal !== undefined) throw unsupported(refusal, call, countKernels(kernels.size, kernels.refusals.size));
    fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
  }

  /** Returns the names of all kernels, including those that the device cannot run. */
  kernelNames(): string[] {
    const { kernels } = this.#module;
    return [...kernels.keys(), ...kernels.refusals.keys()];
  }

  /** Implements `cuModuleGetGlobal`. Throws `cudaErrorNotSupported` for a variable that the device does not support. */
  variable(name: string, call: string): ModuleVariable {
    const { kernels, refusedVariables } = this.#module;
    const refusal = refusedVariables.get(name);
    if (refusal !== undefined) throw unsupported(refusal, call);
    if (name === "" || kernels.has(name) || kernels.refusals.has(name)) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    return this.variables.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
  }

  /**
   * Returns whether the module's kernels may access all of the ranges, and none of the ranges overlaps the module's
   * variables. (Accesses to variables are not observed.)
   */
  areBuffers(ranges: readonly MemoryRange[]): boolean {
    const { memory } = this.#module;
    return ranges.every(({ address, byteLength }) => {
      const begin = offsetOfAddress(address);
      if (begin === undefined || !this.#linearMemory.isAccessible(this.device, begin, byteLength)) return false;
      return memory === undefined || begin + byteLength <= memory.begin || memory.begin + memory.byteLength <= begin;
    });
  }

  /** Releases the memory of the module's variables. No kernel of the module may be launched afterwards. */
  release(): void {
    const { memory, kernels } = this.#module;
    forgetKernels(kernels.compiled);
    if (memory === undefined) return;
    this.#linearMemory.discardAndRelease(memory.begin, memory.byteLength, { isShared: false });
  }
}

/** Converts an error of the PTX compiler or linker to the `CudaError` of a call. Returns other errors unchanged. */
export function errorOfPtx(error: unknown, call: string): unknown {
  const { cudaErrorInvalidPtx, cudaErrorInvalidSource, cudaErrorUnsupportedPtxVersion } = cudaErrorNumbers;
  if (error instanceof LinkError) return explainedError(cudaErrorInvalidSource, "cuLinkComplete", error.message);
  if (!(error instanceof PtxError)) return error;
  const number = error instanceof PtxVersionError ? cudaErrorUnsupportedPtxVersion : cudaErrorInvalidPtx;
  return explainedError(number, call, error.message);
}

/** Returns the `CudaError` of a call that needs a kernel or variable which the device does not support. */
function unsupported(error: UnsupportedPtxError, call: string, note = ""): CudaError {
  return explainedError(cudaErrorNumbers.cudaErrorNotSupported, call, `${error.message}${note}`);
}

/**
 * Describes how many of a module's kernels the device can run. Returns an empty string for a module with one kernel.
 */
function countKernels(supported: number, refused: number): string {
  const count = supported + refused;
  return count === 1 ? "" : ` (the software device runs ${supported} of the module's ${count} kernels)`;
}

/** The kinds of images that contain machine code or LTO IR, which only a GPU's driver can load. */
const machineCode: readonly ImageKind[] = ["cubin", "fatbin", "ltoir"];
/** The kinds of host files in which a linker finds embedded device code. */
const hostFiles: readonly ImageKind[] = ["object", "library"];

/**
 * Returns the PTX of an image. Throws if the image contains no PTX; the error includes the image's `name`, if there is
 * one.
 */
function textOf(image: string | Uint8Array, call: string, name?: string): string {
  const { cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice } = cudaErrorNumbers;
  const text = ptxText(image);
  if (text !== undefined && isPtx(text)) return text;
  const kind = imageKind(image);
  const isCode = machineCode.includes(kind) || name !== undefined && hostFiles.includes(kind);
  const number = isCode ? cudaErrorNoKernelImageForDevice : cudaErrorInvalidKernelImage;
  const reason = isCode
    ? "the software device runs PTX, and this image is machine code of a GPU; load the PTX, which nvcc -ptx writes"
    : `PTX begins with its .version, and this image with ${beginningOf(image)}`;
  throw explainedError(number, call, name === undefined ? reason : `in ${name}: ${reason}`);
}

/** Formats the first characters or bytes of an image for an error message. */
function beginningOf(image: string | Uint8Array): string {
  if (typeof image === "string") return JSON.stringify(image.trimStart().slice(0, 20));
  return `the bytes ${Array.from(image.subarray(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join(" ")}`;
}

/** A variable of a module. */
export class ModuleVariable extends AccessibleRange {
  readonly kind = "variable";
  readonly name: string;
  readonly space: SoftwareVariable["space"];

  constructor(linearMemory: LinearMemory, variable: SoftwareVariable & { name: string; device: number }) {
    super(linearMemory, variable);
    this.name = variable.name;
    this.space = variable.space;
  }
}
