/**
 * Links images: by the driver's linker, and by nvJitLink for images that the driver's linker does not support. The
 * options of the driver's linker and JIT compiler are the arrays that `cuLinkCreate` and `cuModuleLoadDataEx` take.
 *
 * @module
 */
import type { JitOptions, LinkedImage } from "../src/driver.ts";
import { cubinReferences, hasLtoir, type ImageKind, imageKind, ptxText } from "../src/ptx/image_kind.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../src/support/errors.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf, foreignBuffer } from "./native/host.ts";
import { loadNvJitLink, whereNvJitLinkIs } from "./nvjitlink.ts";

/** The values of `CUjitInputType`. */
const inputTypes: Readonly<Record<Exclude<ImageKind, "ltoir">, number>> = {
  cubin: 0,
  ptx: 1,
  fatbin: 2,
  object: 3,
  library: 4,
  // The input type does not matter: for an image of unknown kind, the driver reports the error.
  unknown: 0,
};

/**
 * Links images into a cubin for the current device. The driver's linker is tried first: it always matches the driver,
 * and needs no toolkit. nvJitLink links LTO IR, and PTX that is newer than the driver.
 *
 * @param architecture Returns the device's architecture; called only if nvJitLink is used.
 */
export function linkImages(
  driver: DriverFunctions,
  images: readonly LinkedImage[],
  { architecture, ...options }: JitOptions & { architecture: () => string },
): Uint8Array<ArrayBuffer> {
  const withLtoir = images.find(({ image }) => hasLtoir(image));
  if (withLtoir === undefined) {
    try {
      return linkByDriver(driver, images, options);
    } catch (error) {
      if (!(error instanceof CudaError) || error.code !== "cudaErrorUnsupportedPtxVersion") throw error;
      const newer = loadNvJitLink();
      if (newer === undefined) {
        const why = `${error.message}; nvJitLink of its toolkit links it, and was not found: ${whereNvJitLinkIs}`;
        throw new CudaError(error.number, error.call, why);
      }
      try {
        return newer.link(specificArchitecture(architecture(), images), images, options);
      } catch (failed) {
        // nvJitLink is too old as well: throw the driver's error, because its message contains the advice.
        throw failed instanceof CudaError && failed.message.includes("Unsupported .version") ? error : failed;
      }
    }
  }
  const nvJitLink = loadNvJitLink();
  if (nvJitLink === undefined) {
    const why = `${withLtoir.name} has LTO IR, which only nvJitLink links, and it was not found: ${whereNvJitLinkIs}`;
    throw explainedError(cudaErrorNumbers.cudaErrorJitCompilerNotFound, "nvJitLinkCreate", why);
  }
  return nvJitLink.link(specificArchitecture(architecture(), images), images, options);
}

/** The names of functions that are built into every device and need no definition. */
const deviceFunctions = new Set(["vprintf", "malloc", "free", "__assertfail", "__nv_cnp_trap"]);

/**
 * Returns the linker's error for a linked cubin that still lacks definitions; undefined if none are missing. The
 * driver's linker sometimes does not report missing definitions, but a cubin that lacks definitions cannot be loaded.
 */
export function undefinedReferences(cubin: Uint8Array, images: readonly LinkedImage[]): Error | undefined {
  const problems = cubinReferences(cubin).filter((name) => !deviceFunctions.has(name)).map((name) => {
    const user = images.find(({ image }) => usesName(image, name));
    return `Undefined reference to '${name}'${user === undefined ? "" : ` in '${user.name}'`}`;
  });
  if (problems.length === 0) return undefined;
  return explainedError(cudaErrorNumbers.cudaErrorInvalidSource, "cuLinkComplete", problems.join("; "));
}

function usesName(image: string | Uint8Array, name: string): boolean {
  const text = ptxText(image);
  if (text !== undefined) return text.match(/[\w$]+/g)?.includes(name) === true;
  return imageKind(image) === "cubin" && cubinReferences(image as Uint8Array).includes(name);
}

function linkByDriver(
  driver: DriverFunctions,
  images: readonly LinkedImage[],
  options: JitOptions,
): Uint8Array<ArrayBuffer> {
  const jit = new JitCall(options);
  const out = new BigUint64Array(2);
  const [first, second] = [new Uint8Array(out.buffer, 0, 8), new Uint8Array(out.buffer, 8, 8)];
  check(driver.cuLinkCreate_v2(jit.count, jit.options, jit.values, first), "cuLinkCreate", jit);
  const state = out[0]!;
  try {
    for (const { name, image } of images) {
      const kind = imageKind(image);
      const text = ptxText(image);
      const data = text === undefined ? image as Uint8Array : new TextEncoder().encode(`${text}\0`);
      const result = driver.cuLinkAddData_v2(
        state,
        inputTypes[kind as keyof typeof inputTypes],
        data,
        BigInt(data.byteLength),
        new TextEncoder().encode(`${name}\0`),
        0,
        null,
        null,
      );
      check(result, "cuLinkAddData", jit, name);
    }
    check(driver.cuLinkComplete(state, first, second), "cuLinkComplete", jit);
    // The cubin is copied, because destroying the link frees the original.
    const cubin = new Uint8Array(foreignBuffer(out[0]!, Number(out[1]))).slice();
    jit.reportInfoLog();
    return cubin;
  } finally {
    driver.cuLinkDestroy(state);
  }
}

function check(result: number, call: string, jit: JitCall, image?: string): void {
  if (result === 0) return;
  const log = jit.errorLog();
  const where = image === undefined ? "" : `in ${image}`;
  const why = [where, log].filter((part) => part !== "").join(": ");
  throw why === "" ? new CudaError(result, call) : explainedError(result, call, why);
}

/**
 * Returns the device's architecture. If an image is PTX that targets only this architecture or its family, appends the
 * target's suffix: `sm_90a`.
 */
function specificArchitecture(architecture: string, images: readonly LinkedImage[]): string {
  for (const { image } of images) {
    const target = /^\s*\.target\s+(?:sm|compute)_(\d+)([af])\b/m.exec(ptxText(image)?.slice(0, 4096) ?? "");
    if (target !== null && architecture === `sm_${target[1]}`) return `${architecture}${target[2]}`;
  }
  return architecture;
}

/** The values of `CUjit_option`. */
const jitOption = {
  maxRegisters: 0,
  infoLogBuffer: 3,
  infoLogBufferSizeBytes: 4,
  errorLogBuffer: 5,
  errorLogBufferSizeBytes: 6,
  optimizationLevel: 7,
  generateDebugInfo: 11,
  logVerbose: 12,
  generateLineInfo: 13,
} as const;

const errorLogBytes = 8192;
/** The sizes of the information log in bytes. With `verbose`, the log has several lines for each kernel. */
const infoLogBytes = { brief: 8192, verbose: 256 * 1024 } as const;

/**
 * The options of one call, and the logs that the call writes. The option arrays hold addresses of the logs, so the
 * object must stay reachable until the call returns, and for `cuLinkCreate` until the link is destroyed.
 */
export class JitCall {
  /** The number of options. */
  readonly count: number;
  /** The argument `CUjit_option *options`. */
  readonly options: Uint8Array;
  /** The argument `void **optionValues`. */
  readonly values: Uint8Array;
  readonly #errorLog = new Uint8Array(errorLogBytes);
  readonly #infoLog: Uint8Array | undefined;
  readonly #onInfoLog: JitOptions["onInfoLog"];

  constructor({ maxRegisters, optimizationLevel, lineInfo, debug, verbose, onInfoLog }: JitOptions = {}) {
    const options: number[] = [jitOption.errorLogBuffer, jitOption.errorLogBufferSizeBytes];
    const values = [addressOf(this.#errorLog), BigInt(errorLogBytes)];
    const add = (option: number, value: bigint) => {
      options.push(option);
      values.push(value);
    };
    if (onInfoLog !== undefined) {
      this.#onInfoLog = onInfoLog;
      this.#infoLog = new Uint8Array(verbose ? infoLogBytes.verbose : infoLogBytes.brief);
      add(jitOption.infoLogBuffer, addressOf(this.#infoLog));
      add(jitOption.infoLogBufferSizeBytes, BigInt(this.#infoLog.length));
    }
    if (maxRegisters !== undefined) add(jitOption.maxRegisters, BigInt(maxRegisters));
    if (optimizationLevel !== undefined) add(jitOption.optimizationLevel, BigInt(optimizationLevel));
    if (debug) add(jitOption.generateDebugInfo, 1n);
    if (lineInfo) add(jitOption.generateLineInfo, 1n);
    if (verbose) add(jitOption.logVerbose, 1n);
    this.count = options.length;
    this.options = new Uint8Array(new Int32Array(options).buffer);
    this.values = new Uint8Array(new BigUint64Array(values).buffer);
  }

  /** Returns the error messages of the compiler or the linker. */
  errorLog(): string {
    return textOf(this.#errorLog);
  }

  /** Passes the informational messages of the compiler or the linker to `onInfoLog`. */
  reportInfoLog(): void {
    if (this.#infoLog !== undefined) this.#onInfoLog?.(textOf(this.#infoLog));
  }
}

/** Returns the text before the first NUL. */
function textOf(log: Uint8Array): string {
  const end = log.indexOf(0);
  return new TextDecoder().decode(end < 0 ? log : log.subarray(0, end)).trim();
}
