/**
 * Finds and loads libcuda and libcudart.
 *
 * @module
 */
import { cudaErrorNumbers } from "../src/cuda_error_codes.ts";
import { CudaError } from "../src/errors.ts";
import { libcuda } from "./cuda.ts";
import { cudart } from "./cudart.ts";
import { environmentVariable } from "./environment.ts";
import { dlopen, ffiRefusal, type NativeFunctions, type NativeLibrary, type NativeSymbol } from "./host.ts";
import { type DriverFunctions, type RuntimeFunctions, twinsOf } from "./twins.ts";

/** There is no CUDA here to be used: no permission, no driver, or no device. Any other failure is another error. */
export class CudaUnavailableError extends Error {}

/** CUDA's functions, ready to be called, and what is known of where they came from. */
export interface CudaLibraries {
  readonly runtime: RuntimeFunctions;
  readonly driver: DriverFunctions;
  /** Undefined where the driver library alone serves. */
  readonly runtimeVersion: number | undefined;
  /** Whether the installed driver library has no such function. */
  lacks(driverFunction: keyof typeof libcuda): boolean;
  close(): void;
}

/**
 * Loads the driver library, and the runtime library where a usable one is found.
 *
 * @param options.cudart Path of libcudart; `null` does without one.
 */
export function loadCudaLibraries(options: { cudart?: string | null }): CudaLibraries {
  const refusal = ffiRefusal();
  if (refusal !== undefined) throw new CudaUnavailableError(`Cannot use CUDA: ${refusal}`);
  const driverLibrary = tryOpen("libcuda.so.1", libcuda) ?? tryOpen("libcuda.so", libcuda);
  if (driverLibrary === undefined) {
    throw new CudaUnavailableError("Cannot use CUDA: no libcuda.so.1 was found, install the NVIDIA driver");
  }
  try {
    const driver = complete(driverLibrary, libcuda, "libcuda");
    const result = driver.cuInit(0);
    if (result === cudaErrorNumbers.cudaErrorNoDevice) {
      throw new CudaUnavailableError("Cannot use CUDA: the driver reports no device");
    }
    if (result !== 0) throw new CudaError(result, "cuInit");
    const lacks = (name: keyof typeof libcuda) => driverLibrary.symbols[name] === undefined;
    const found = findRuntime(options.cudart);
    if (found !== undefined) {
      const close = () => {
        found.library.close();
        driverLibrary.close();
      };
      return { runtime: found.functions, driver, runtimeVersion: found.version, lacks, close };
    }
    const twins = twinsOf(driver);
    const close = () => {
      twins.release();
      driverLibrary.close();
    };
    return { runtime: twins.functions, driver, runtimeVersion: undefined, lacks, close };
  } catch (error) {
    driverLibrary.close();
    throw error;
  }
}

interface FoundRuntime {
  readonly library: NativeLibrary<typeof cudart>;
  readonly functions: RuntimeFunctions;
  readonly version: number;
}

function findRuntime(path: string | null | undefined): FoundRuntime | undefined {
  if (path === null) return undefined;
  if (path !== undefined) {
    // A caller who names a library wants that one: its failure is an error, not a reason to look further.
    const found = tryRuntime(path);
    if (found === undefined) {
      throw new Error(`Cannot use "${path}" as libcudart: it does not load, or needs a newer driver than is installed`);
    }
    return found;
  }
  for (const candidate of runtimeCandidates()) {
    const found = tryRuntime(candidate);
    if (found !== undefined) return found;
  }
  return undefined;
}

function runtimeCandidates(): string[] {
  const names = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"];
  const folders = ["CUDA_HOME", "CUDA_PATH"].map(environmentVariable).filter((value) => value !== undefined);
  for (const folder of folders) names.push(`${folder}/lib64/libcudart.so`);
  names.push("/usr/local/cuda/lib64/libcudart.so");
  return names;
}

/** Opens one libcudart, or passes it over when it is absent or newer than the driver. */
function tryRuntime(path: string): FoundRuntime | undefined {
  const library = tryOpen(path, cudart);
  if (library === undefined) return undefined;
  const functions = complete(library, cudart, path);
  const out = new Int32Array(1);
  const outBytes = new Uint8Array(out.buffer);
  const usable = library.symbols.cudaGetDeviceCount !== undefined && functions.cudaGetDeviceCount(outBytes) === 0 &&
    functions.cudaRuntimeGetVersion(outBytes) === 0;
  if (!usable) {
    library.close();
    return undefined;
  }
  return { library, functions, version: out[0]! };
}

function tryOpen<const S extends Record<string, NativeSymbol>>(path: string, symbols: S): NativeLibrary<S> | undefined {
  try {
    return dlopen(path, symbols);
  } catch {
    return undefined;
  }
}

/** Puts a function that explains itself in the place of each that the library lacks. */
function complete<const S extends Record<string, NativeSymbol>>(
  library: NativeLibrary<S>,
  symbols: S,
  libraryName: string,
): NativeFunctions<S> {
  const functions: Record<string, unknown> = {};
  for (const name of Object.keys(symbols)) {
    functions[name] = library.symbols[name] ?? (() => {
      const message = `Cannot call ${name}: the installed ${libraryName} has no such function, install a newer CUDA`;
      throw new CudaError(cudaErrorNumbers.cudaErrorNotSupported, name, message);
    });
  }
  return functions as NativeFunctions<S>;
}
