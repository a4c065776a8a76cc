/**
 * Links by nvJitLink, CUDA's linker as a library. It is newer than the driver's linker if the toolkit is newer than the
 * driver, and only it links LTO IR. Its functions are declared in `nvJitLink.h`. Each returns an `nvJitLinkResult`; a
 * comment beside each parameter has the C type and name. A link is represented by a handle.
 *
 * @module
 */
import type { JitOptions, LinkedImage } from "../src/driver.ts";
import {
  cubinDefinitions,
  hasLtoir,
  type ImageKind,
  imageKind,
  ptxText,
  strongDefinitions,
} from "../src/ptx/image_kind.ts";
import { cudaErrorNumbers, explainedError } from "../src/support/errors.ts";
import { cStringArray } from "./native/shim/shim.ts";
import { keepLoaded, type NativeFunctions, type NativeLibrary } from "./native/host.ts";
import { findToolkitLibrary, openToolkitLibrary, type UnusableLibrary } from "./toolkit_libraries.ts";

/** The symbol table passed to `dlopen` for libnvJitLink. */
const libnvJitLink = {
  nvJitLinkVersion: {
    parameters: ["buffer", /* unsigned int *major */ "buffer" /* unsigned int *minor */],
    result: "i32",
  },
  nvJitLinkCreate: {
    parameters: [
      "buffer", // nvJitLinkHandle *handle
      "u32", // uint32_t numOptions
      "buffer", // const char **options
    ],
    result: "i32",
  },
  nvJitLinkDestroy: { parameters: ["buffer" /* nvJitLinkHandle *handle */], result: "i32" },
  nvJitLinkAddData: {
    parameters: [
      "u64", // nvJitLinkHandle handle
      "i32", // nvJitLinkInputType inputType
      "buffer", // const void *data
      "u64", // size_t size
      "buffer", // const char *name
    ],
    result: "i32",
  },
  nvJitLinkComplete: { parameters: ["u64" /* nvJitLinkHandle handle */], result: "i32" },
  nvJitLinkGetLinkedCubinSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetLinkedCubin: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* void *cubin */],
    result: "i32",
  },
  nvJitLinkGetErrorLogSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetErrorLog: { parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* char *log */], result: "i32" },
  nvJitLinkGetInfoLogSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetInfoLog: { parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* char *log */], result: "i32" },
} as const;

type NvJitLinkFunctions = NativeFunctions<typeof libnvJitLink>;

/** The functions of the library, which is never unloaded; null if it was not found. */
let loaded: NvJitLinkFunctions | null | undefined;

const nvJitLinkLibrary = {
  names: ["libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"],
  packageFolder: "nvjitlink",
  title: "nvJitLink",
  functions: libnvJitLink,
  optionalFunctions: [],
  oldest: "CUDA 12",
};

/** The values of `nvJitLinkInputType`. */
const inputTypes: Readonly<Record<ImageKind, number>> = {
  cubin: 1,
  ptx: 2,
  ltoir: 3,
  fatbin: 4,
  object: 5,
  library: 6,
  // `NVJITLINK_INPUT_ANY`: nvJitLink detects the type.
  unknown: 10,
};

/** The CUDA error numbers that correspond to values of `nvJitLinkResult`. */
const errorNumbers: Readonly<Record<number, number>> = {
  4: cudaErrorNumbers.cudaErrorInvalidPtx,
};
const internalError = 6;
/** The names of the values of `nvJitLinkResult`. */
const resultNames = [
  "NVJITLINK_SUCCESS",
  "NVJITLINK_ERROR_UNRECOGNIZED_OPTION",
  "NVJITLINK_ERROR_MISSING_ARCH",
  "NVJITLINK_ERROR_INVALID_INPUT",
  "NVJITLINK_ERROR_PTX_COMPILE",
  "NVJITLINK_ERROR_NVVM_COMPILE",
  "NVJITLINK_ERROR_INTERNAL",
  "NVJITLINK_ERROR_THREADPOOL",
  "NVJITLINK_ERROR_UNRECOGNIZED_INPUT",
  "NVJITLINK_ERROR_FINALIZE",
  "NVJITLINK_ERROR_NULL_INPUT",
  "NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS",
  "NVJITLINK_ERROR_INCORRECT_INPUT_TYPE",
  "NVJITLINK_ERROR_ARCH_MISMATCH",
  "NVJITLINK_ERROR_OUTDATED_LIBRARY",
  "NVJITLINK_ERROR_MISSING_FATBIN",
  "NVJITLINK_ERROR_UNRECOGNIZED_ARCH",
  "NVJITLINK_ERROR_UNSUPPORTED_ARCH",
  "NVJITLINK_ERROR_LTO_NOT_ENABLED",
];

/** Advice for error messages: how to make nvJitLink available. */
export const whereNvJitLinkIs: string =
  "put libnvJitLink on the loader's path, or name a toolkit in CUDA_HOME or a Python environment with the package " +
  "nvidia-nvjitlink in VIRTUAL_ENV";

/** Loads nvJitLink. Returns undefined if it is not found. */
export function loadNvJitLink(): NvJitLink | undefined {
  if (loaded === undefined) {
    const found = findToolkitLibrary(nvJitLinkLibrary, tryNvJitLink);
    loaded = "reason" in found ? null : found.symbols as NvJitLinkFunctions;
  }
  return loaded === null ? undefined : new NvJitLink(loaded);
}

function tryNvJitLink(path: string): NativeLibrary<typeof libnvJitLink> | UnusableLibrary {
  const library = openToolkitLibrary(path, nvJitLinkLibrary);
  if (!("reason" in library)) keepLoaded(path);
  return library;
}

/** Links images with nvJitLink. */
export class NvJitLink {
  readonly #functions: NvJitLinkFunctions;
  readonly #out = new BigUint64Array(1);
  readonly #outBytes = new Uint8Array(this.#out.buffer);

  constructor(functions: NvJitLinkFunctions) {
    this.#functions = functions;
  }

  /** Links images into a cubin for an architecture such as `sm_90`. */
  link(architecture: string, images: readonly LinkedImage[], options: JitOptions = {}): Uint8Array<ArrayBuffer> {
    refuseDuplicates(images);
    const words = optionWords(architecture, images, options);
    const pointers = cStringArray(words);
    const created = this.#functions.nvJitLinkCreate(this.#outBytes, words.length, pointers);
    if (created !== 0) throw refusal(created, "nvJitLinkCreate", `with the options ${words.join(" ")}`);
    const handle = this.#out[0]!;
    // Keep alive the arrays that nvJitLink may read until the link is destroyed.
    const kept = [pointers];
    try {
      for (const { name, image } of images) this.#add(handle, name, image, kept);
      this.#check(handle, this.#functions.nvJitLinkComplete(handle), "nvJitLinkComplete");
      const { nvJitLinkGetLinkedCubinSize: size, nvJitLinkGetLinkedCubin: read } = this.#functions;
      this.#check(handle, size(handle, this.#outBytes), "nvJitLinkGetLinkedCubinSize");
      const cubin = new Uint8Array(Number(this.#out[0]));
      this.#check(handle, read(handle, cubin), "nvJitLinkGetLinkedCubin");
      options.onInfoLog?.(this.#log(handle, "Info"));
      return cubin;
    } finally {
      this.#out[0] = handle;
      this.#functions.nvJitLinkDestroy(this.#outBytes);
      kept.length = 0;
    }
  }

  #add(handle: bigint, name: string, image: string | Uint8Array, kept: (Uint8Array | null)[]): void {
    const text = ptxText(image);
    const data = text === undefined ? image as Uint8Array : new TextEncoder().encode(`${text}\0`);
    const named = new TextEncoder().encode(`${name}\0`);
    kept.push(data, named);
    const { nvJitLinkAddData } = this.#functions;
    const result = nvJitLinkAddData(handle, inputTypes[imageKind(image)], data, BigInt(data.byteLength), named);
    this.#check(handle, result, "nvJitLinkAddData", name);
  }

  #check(handle: bigint, result: number, call: string, image?: string): void {
    if (result === 0) return;
    const log = this.#log(handle, "Error");
    throw refusal(result, call, `${image === undefined ? "" : `in ${image}: `}${log}`);
  }

  #log(handle: bigint, kind: "Error" | "Info"): string {
    const { [`nvJitLinkGet${kind}LogSize` as const]: size, [`nvJitLinkGet${kind}Log` as const]: read } =
      this.#functions;
    if (size(handle, this.#outBytes) !== 0) return "";
    const log = new Uint8Array(Number(this.#out[0]));
    if (log.length === 0 || read(handle, log) !== 0) return "";
    const end = log.indexOf(0);
    return new TextDecoder().decode(end < 0 ? log : log.subarray(0, end)).trim();
  }
}

function refusal(result: number, call: string, why: string): Error {
  const number = errorNumbers[result] ?? cudaErrorNumbers.cudaErrorInvalidSource;
  return explainedError(number, call, `${resultNames[result] ?? `error ${result}`} ${why}`.trim());
}

/**
 * Throws nvJitLink's error for two images that define the same name. Version 13.4 writes that error to standard output,
 * returns a cubin regardless, and crashes if an earlier link of the process has failed.
 */
function refuseDuplicates(images: readonly LinkedImage[]): void {
  const owners = new Map<string, string>();
  const problems: string[] = [];
  for (const { name: image, image: content } of images) {
    for (const name of definitionsIn(content)) {
      const owner = owners.get(name);
      if (owner === undefined) owners.set(name, image);
      else problems.push(`error   : Multiple definition of '${name}' in '${image}', first defined in '${owner}'`);
    }
  }
  if (problems.length > 0) throw refusal(internalError, "nvJitLinkAddData", problems.join("\n"));
}

/**
 * Returns the names that an image defines and that no other image may define as well. Empty for LTO IR and host
 * objects, which cannot be read.
 */
function definitionsIn(image: string | Uint8Array): readonly string[] {
  if (imageKind(image) === "cubin") return cubinDefinitions(image as Uint8Array);
  return strongDefinitions(ptxText(image) ?? "");
}

function optionWords(
  architecture: string,
  images: readonly LinkedImage[],
  { maxRegisters, optimizationLevel, lineInfo, debug, verbose }: JitOptions,
): string[] {
  const words = [`-arch=${architecture}`];
  if (images.some(({ image }) => hasLtoir(image))) words.push("-lto");
  if (maxRegisters !== undefined) words.push(`-maxrregcount=${maxRegisters}`);
  if (optimizationLevel !== undefined) words.push(...optimizationWords(optimizationLevel));
  if (lineInfo) words.push("-lineinfo");
  if (debug) words.push("-g");
  if (verbose) words.push("-verbose");
  return words;
}

/**
 * Returns the options for an optimization level. nvJitLink implements two levels, and passes others to ptxas. Its level
 * 3 corresponds to the driver's level 4, the highest.
 */
function optimizationWords(level: number): string[] {
  if (level === 0) return ["-O0"];
  return level < 3 ? [`-Xptxas=-O${level}`] : ["-O3"];
}
