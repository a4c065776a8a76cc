/**
 * Loads, links and compiles modules, and checks the options for this.
 *
 * @module
 */
import type { JitOptions, LinkedImage } from "../../driver.ts";
import {
  checkBoolean,
  checkOptions,
  type KnownOptions,
  type OptionNames,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { checkImage, ptxText, ptxVariableNames } from "../../ptx/image_kind.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { CudaModule } from "./cuda_module.ts";
import { type KernelSignature, kernelSignatures } from "../../ptx/kernel_signature.ts";
import type { SurveyedPtx } from "../../ptx/instruction_support.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import type { CompileOptions } from "../../compile/compile_options.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/**
 * Options of the driver's JIT compiler, which compiles PTX. The software device checks and ignores them: it has no
 * registers to limit, and its errors name source lines whenever the PTX has line information.
 */
export interface LoadModuleOptions {
  /**
   * The maximum number of registers of a thread (`CU_JIT_MAX_REGISTERS`), 1 to 255. Fewer registers allow more threads
   * on a multiprocessor; values that do not fit are kept in local memory, which is slower.
   */
  maxRegisters?: number;
  /** The level of optimization (`CU_JIT_OPTIMIZATION_LEVEL`), 0 to 4. Defaults to 4, the highest. */
  optimizationLevel?: number;
  /**
   * Whether to generate line information (`CU_JIT_GENERATE_LINE_INFO`), so that debuggers and profilers can map
   * instructions to source lines. Defaults to false.
   */
  lineInfo?: boolean;
  /** Whether to compile for a debugger (`CU_JIT_GENERATE_DEBUG_INFO`), which makes the code slow. Defaults to false. */
  debug?: boolean;
  /**
   * Whether the module's `log` includes details such as the number of registers that each kernel uses
   * (`CU_JIT_LOG_VERBOSE`). Defaults to false.
   */
  verbose?: boolean;
}

const names: OptionNames<LoadModuleOptions> = {
  maxRegisters: true,
  optimizationLevel: true,
  lineInfo: true,
  debug: true,
  verbose: true,
};

/**
 * Advice for the error message, keyed by the name of an equivalent option in CUDA, its compilers, or another library.
 */
const instead = {
  maxrregcount: 'did you mean "maxRegisters"?',
  maxRegisterCount: 'did you mean "maxRegisters"?',
  registers: 'did you mean "maxRegisters"?',
  optLevel: 'did you mean "optimizationLevel"?',
  lineinfo: 'did you mean "lineInfo"?',
  generateLineInfo: 'did you mean "lineInfo"?',
  generateDebugInfo: 'did you mean "debug"?',
};

/** The maximum number of registers per thread on any device. */
const maximumRegisters = 255;
const maximumOptimizationLevel = 4;

/** Checks the options of `CudaDevice.loadModule` or `CudaDevice.link`, and returns a copy. */
export function jitOptions(options: LoadModuleOptions, action: string): JitOptions {
  checkOptions(options, { action, names, instead });
  const { maxRegisters, optimizationLevel, lineInfo, debug, verbose } = options;
  checkInteger(maxRegisters, "maxRegisters", [1, maximumRegisters]);
  checkInteger(optimizationLevel, "optimizationLevel", [0, maximumOptimizationLevel]);
  for (const [name, value] of Object.entries({ lineInfo, debug, verbose })) {
    if (value !== undefined) checkBoolean(value, `a module's ${name}`);
  }
  return { maxRegisters, optimizationLevel, lineInfo, debug, verbose };
}

function checkInteger(value: number | undefined, name: string, [minimum, maximum]: [number, number]): void {
  if (value === undefined) return;
  if (typeof value !== "number") {
    const bounds = `it must be a whole number from ${minimum} to ${maximum}`;
    throw new TypeError(`Cannot use ${shown(value)} as a module's ${name}: ${bounds}`);
  }
  if (!Number.isInteger(value) || value < minimum || value > maximum) {
    throw new RangeError(
      `Cannot use ${value} as a module's ${name}: it must be a whole number from ${minimum} to ${maximum}`,
    );
  }
}

/** An image to link, with a name. */
export interface LinkImage {
  /** The image's name in error messages and for the linker, such as its file name. */
  name: string;
  /** PTX as a string, or the bytes of PTX, a cubin, a fatbin, a host object or library with device code, or LTO IR. */
  image: string | Uint8Array;
}

const known: KnownOptions<LinkImage> = {
  action: "link an image",
  names: { name: true, image: true },
  required: "PTX text, the bytes of an image as a Uint8Array, or { name, image }",
};

/** Checks images, and assigns a name to those without one. */
export function linkedImages(images: readonly (string | Uint8Array | LinkImage)[]): LinkedImage[] {
  if (!Array.isArray(images)) {
    throw new TypeError(`Cannot link ${whatIs(images)}: give an array of images, such as [ptx, otherPtx]`);
  }
  if (images.length === 0) throw new RangeError("Cannot link no images: give at least one");
  return Array.from(images, (given, index) => {
    const isImage = typeof given === "string" || Object.prototype.toString.call(given) === "[object Uint8Array]";
    if (!isImage) checkNamed(given, index);
    const { name, image } = isImage ? { name: `image ${index}`, image: given } : given;
    try {
      checkImage(image, { isLinked: true });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const { message } = error;
      throw new TypeError(`Cannot link ${name}: ${message[0]!.toLowerCase()}${message.slice(1)}`);
    }
    return { name, image };
  });
}

function checkNamed(given: LinkImage, index: number): void {
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  if (!isObject || !("image" in given)) {
    throw new TypeError(`Cannot link ${whatIs(given)} as image ${index}: give ${known.required}`);
  }
  checkOptions(given, known);
  if (typeof given.name !== "string" || given.name === "" || given.name.includes("\0")) {
    const name = typeof given.name === "string" ? JSON.stringify(given.name) : whatIs(given.name);
    throw new TypeError(`Cannot use ${name} as the name of image ${index}: it must be a string that is not empty`);
  }
}

/** Parameters of a module other than its image. */
export interface ModuleSource {
  /** The options of the driver's JIT compiler, already checked. */
  readonly options?: JitOptions;
  /**
   * The PTX that declares the image's kernels and variables. For a cubin that was compiled from PTX, this is that PTX.
   * Defaults to the image's own text, or to undefined if the image is binary.
   */
  readonly ptx?: string;
  /** The compiler's messages, with which the module's log begins. */
  readonly log?: string;
  /**
   * The PTX symbols of C++ name expressions, such as `scale<float>`. The module finds kernels and variables by the
   * expression and by the symbol.
   */
  readonly loweredNames?: ReadonlyMap<string, string>;
}

/** Loads an image that `checkImage` has accepted. */
export function loadModule(
  session: Session,
  device: CudaDevice,
  image: string | Uint8Array,
  { options, ptx = ptxText(image), log = "", loweredNames }: ModuleSource = {},
): CudaModule {
  const logs = [log];
  let handle: bigint;
  try {
    const onInfoLog = (text: string) => void logs.push(text);
    handle = session.driver.moduleLoadData(device.ordinal, image, { ...options, onInfoLog });
  } catch (error) {
    throw cannot(`load a module on device ${device.ordinal}`, error);
  }
  const isBinary = ptx === undefined;
  return createModule(session, device, { handle, ptx: isBinary ? [] : [{ ptx }], isBinary, logs, loweredNames });
}

/** Links images that were already checked, and loads the result. */
export function linkModule(
  session: Session,
  device: CudaDevice,
  images: readonly LinkedImage[],
  { options }: ModuleSource = {},
): CudaModule {
  const logs: string[] = [];
  let handle: bigint;
  try {
    const onInfoLog = (text: string) => void logs.push(text);
    handle = session.driver.linkModules(device.ordinal, images, { ...options, onInfoLog });
  } catch (error) {
    throw cannot(`link ${countOf(images.length, "image")} on device ${device.ordinal}`, error, linkHint(error));
  }
  const ptx = images.flatMap(({ name, image }) => {
    const text = ptxText(image);
    return text === undefined ? [] : [{ name, ptx: text }];
  });
  return createModule(session, device, { handle, ptx, isBinary: ptx.length < images.length, logs });
}

/** Creates the object of a module that the driver has loaded. Unloads the module if that fails. */
function createModule(
  session: Session,
  device: CudaDevice,
  { handle, ptx, isBinary, logs, loweredNames }: {
    handle: bigint;
    /** The images that are PTX. */
    ptx: readonly SurveyedPtx[];
    isBinary: boolean;
    logs: readonly string[];
    loweredNames?: ReadonlyMap<string, string>;
  },
): CudaModule {
  try {
    const { signatures, isAmbiguous } = mergeSignatures(ptx.flatMap(({ ptx }) => kernelSignatures(ptx)));
    return new CudaModule(session, {
      device,
      handle,
      signatures,
      variableNames: ptx.flatMap(({ ptx }) => ptxVariableNames(ptx)),
      isBinary: isBinary || isAmbiguous,
      ptx: isBinary ? undefined : ptx,
      loweredNames,
      log: joinLogs(logs),
    });
  } catch (error) {
    session.driver.moduleUnload(device.ordinal, handle);
    throw error;
  }
}

/**
 * Returns the signature of each name. Several images may have a kernel of the same name if it is weak or not visible to
 * the others. If the signatures of kernels of the same name differ, none is returned for the name: the driver provides
 * the signature of the kernel that it finds.
 */
function mergeSignatures(
  signatures: readonly KernelSignature[],
): { signatures: KernelSignature[]; isAmbiguous: boolean } {
  const byName = new Map<string, KernelSignature>();
  const ambiguous = new Set<string>();
  for (const signature of signatures) {
    const { name } = signature;
    const other = byName.get(name);
    if (other !== undefined && JSON.stringify(other) !== JSON.stringify(signature)) ambiguous.add(name);
    byName.set(name, signature);
  }
  for (const name of ambiguous) byName.delete(name);
  return { signatures: [...byName.values()], isAmbiguous: ambiguous.size > 0 };
}

/** Returns advice for the most common errors of linkers. */
function linkHint(error: unknown): string | undefined {
  const message = error instanceof CudaError ? error.message : "";
  if (message.includes("Undefined reference to ")) return "link the image that defines it, too";
  if (message.includes("Multiple definition of ")) return "define it in one image, and declare it extern in the others";
  return undefined;
}

/** Joins the messages of several compilers. */
function joinLogs(logs: readonly string[]): string {
  return logs.map((log) => log.trim()).filter((log) => log !== "").join("\n");
}

/** Compiles CUDA C++ for a device, and loads it there. */
export function compileModule(
  session: Session,
  device: CudaDevice,
  source: string,
  options: CompileOptions,
): CudaModule {
  const { driver } = session;
  const target = {
    computeCapability: device.computeCapability,
    driverVersion: driver.driverGetVersion(),
    executesMachineCode: driver.executesMachineCode,
  };
  const { ptx, cubin, log, loweredNames } = session.compilers.compileFor(target, source, options);
  return loadModule(session, device, cubin ?? ptx, { ptx, log, loweredNames });
}
