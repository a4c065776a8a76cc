/**
 * Loaded modules, with their kernels and variables.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { type CudaError, explainedError } from "../../support/errors.ts";
import { isPtx, ptxText } from "../../ptx/ptx_text.ts";
import { PtxError } from "../../ptx/syntax.ts";
import { AccessibleRange } from "../memory/accessible_range.ts";
import { PtxVersionError, type UnsupportedPtxError } from "../compiler/compile.ts";
import { fail } from "../failure.ts";
import type { SoftwareKernel } from "./kernel_launch.ts";
import { loadModule, type ModulePlace, type SoftwareModule, type SoftwareVariable } from "./module_loader.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";

const loadCall = "cuModuleLoadDataEx";
/** The magic number of a fatbin. */
const fatbinMagic = 0xba55ed50;
/** The magic number of a cubin, which is an ELF file, and the machine in its header. */
const elfMagic = 0x464c457f;
const cudaElfMachine = 190;

/** A module, and the device that it was loaded for. */
export class LoadedModule {
  readonly device: number;
  /** The handles of the functions that were requested, by name. */
  readonly functions: Map<string, bigint> = new Map();
  readonly variables: ReadonlyMap<string, ModuleVariable>;
  /** Launches of its kernels that are not done. */
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

  /** `cuModuleLoadDataEx`. */
  static load(
    linearMemory: LinearMemory,
    image: string | Uint8Array,
    { device, ...options }: { device: number } & Omit<ModulePlace, "reserve">,
  ): LoadedModule {
    const ptx = textOf(image);
    const reserve = (byteLength: number) =>
      linearMemory.reserve(byteLength) ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, loadCall);
    try {
      return new LoadedModule(linearMemory, device, loadModule(ptx, linearMemory, { reserve, ...options }));
    } catch (error) {
      if (!(error instanceof PtxError)) throw error;
      const { cudaErrorInvalidPtx, cudaErrorUnsupportedPtxVersion } = cudaErrorNumbers;
      const number = error instanceof PtxVersionError ? cudaErrorUnsupportedPtxVersion : cudaErrorInvalidPtx;
      throw explainedError(number, loadCall, error.message);
    }
  }

  /** `cuModuleGetFunction`. Refuses a kernel that the device cannot run. */
  kernel(name: string, call: string): SoftwareKernel {
    const { kernels, refusals } = this.#module;
    const refusal = refusals.get(name);
    if (refusal !== undefined) throw unsupported(refusal, call, countKernels(kernels.size, refusals.size));
    if (name === "") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return kernels.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
  }

  /** `cuModuleGetGlobal`. Refuses a variable that the device does not support. */
  variable(name: string, call: string): ModuleVariable {
    const { kernels, refusals, refusedVariables } = this.#module;
    const refusal = refusedVariables.get(name);
    if (refusal !== undefined) throw unsupported(refusal, call);
    if (name === "" || kernels.has(name) || refusals.has(name)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return this.variables.get(name) ?? fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
  }

  /** Frees the memory of its variables. */
  release(): void {
    const { memory } = this.#module;
    if (memory === undefined) return;
    this.#linearMemory.discardAndRelease(memory.begin, memory.byteLength, { isShared: false });
  }
}

/** The error for a part of a module that the device does not support. */
function unsupported(error: UnsupportedPtxError, call: string, note = ""): CudaError {
  return explainedError(cudaErrorNumbers.cudaErrorNotSupported, call, `${error.message}${note}`);
}

/** How many kernels the device runs of a module with several. */
function countKernels(supported: number, refused: number): string {
  const count = supported + refused;
  return count === 1 ? "" : ` (the software device runs ${supported} of the module's ${count} kernels)`;
}

/** The PTX of an image. */
function textOf(image: string | Uint8Array): string {
  const { cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice } = cudaErrorNumbers;
  const text = ptxText(image);
  if (text !== undefined && isPtx(text)) return text;
  const isCode = typeof image !== "string" && isDeviceCode(image);
  const number = isCode ? cudaErrorNoKernelImageForDevice : cudaErrorInvalidKernelImage;
  const reason = isCode
    ? "the software device runs PTX, and this image is machine code of a GPU; load the PTX, which nvcc -ptx writes"
    : `PTX begins with its .version, and this image with ${beginningOf(image)}`;
  throw explainedError(number, loadCall, reason);
}

/** The first characters or bytes of an image, for a message. */
function beginningOf(image: string | Uint8Array): string {
  if (typeof image === "string") return JSON.stringify(image.trimStart().slice(0, 20));
  return `the bytes ${Array.from(image.subarray(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join(" ")}`;
}

/** Whether an image is a cubin or a fatbin. */
function isDeviceCode(image: Uint8Array): boolean {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  if (image.byteLength < 20) return false;
  const magic = view.getUint32(0, true);
  return magic === fatbinMagic || (magic === elfMagic && view.getUint16(18, true) === cudaElfMachine);
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
