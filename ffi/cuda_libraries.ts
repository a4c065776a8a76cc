/**
 * Finds and loads libcuda and libcudart. If a library, a function or a device is missing, explains what is needed: the
 * first CUDA version with the function, or permission to open the device files, without which libcuda only reports that
 * there is no device.
 *
 * @module
 */
import { CudaError, cudaErrorName, cudaErrorNumbers, CudaUnavailableError } from "../src/support/errors.ts";
import { formatVersion } from "../src/support/version.ts";
import { libcuda } from "./libcuda.ts";
import { libcudart } from "./libcudart.ts";
import { environmentVariable } from "./native/environment.ts";
import {
  dlopen,
  ffiRefusal,
  keepLoaded,
  type NativeFunctions,
  type NativeLibrary,
  type NativeSymbol,
  platform,
  withLoadable,
} from "./native/host.ts";
import {
  driverEquivalentsOf,
  type DriverFunctions,
  ipcFunctions,
  type RuntimeFunctions,
} from "./driver_equivalents.ts";
import { cString } from "./native/shim/shim.ts";

/** The functions of CUDA's libraries, and information about the loaded libraries. */
export interface CudaLibraries {
  readonly runtime: RuntimeFunctions;
  readonly driver: DriverFunctions;
  /** The version of the runtime library; undefined if the driver library is used alone. */
  readonly runtimeVersion: number | undefined;
  /** The path at which the runtime library was found. */
  readonly runtimePath: string | undefined;
  /** Returns whether the installed driver library lacks a function. */
  lacks(driverFunction: keyof typeof libcuda): boolean;
  /** Returns the address of a function of the driver library; undefined if it lacks the function. */
  addressOf(driverFunction: string): bigint | undefined;
  /**
   * Retains a device's primary context, in another thread if the runtime supports that. Returns the `CUresult`. While
   * the context is being created, other calls that need it block.
   */
  retainContext(device: number): Promise<number>;
}

/** The driver library. It is never unloaded, because it runs threads, and other Workers may use its contexts. */
let loadedDriver: NativeLibrary<typeof libcuda> | undefined;
/** The runtime library, which is also never unloaded; null if none was found. */
let loadedRuntime: FoundRuntime | null | undefined;

/**
 * Loads the driver library, and the runtime library if a usable one is found.
 *
 * @param options.cudart Path of libcudart; with `null`, none is used.
 */
export function loadCudaLibraries({ cudart }: { cudart?: string | null }): CudaLibraries {
  const refusal = ffiRefusal();
  if (refusal !== undefined) throw new CudaUnavailableError(`Cannot use CUDA: ${refusal}`);
  loadedDriver ??= openDriver();
  const { symbols } = loadedDriver;
  const version = () => versionBy(symbols.cuDriverGetVersion);
  const driver = complete(loadedDriver, libcuda, version);
  const result = driver.cuInit(0);
  if (result === cudaErrorNumbers.cudaErrorNoDevice) throw noDeviceError();
  if (result !== 0) throw initializationError(result);
  const lacks = (name: keyof typeof libcuda) => symbols[name] === undefined;
  const addressOf = (name: string) => loadedDriver!.addressOfFunction(name);
  if (lacks("cuDevicePrimaryCtxRelease_v2")) throw tooOldError(version());
  const found = findRuntime(cudart);
  if (found !== undefined) {
    const { functions: runtime, version: runtimeVersion, path: runtimePath } = found;
    return { runtime, driver, runtimeVersion, runtimePath, lacks, addressOf, retainContext };
  }
  const runtime = driverEquivalentsOf(driver, loadedDriver);
  return { runtime, driver, runtimeVersion: undefined, runtimePath: undefined, lacks, addressOf, retainContext };
}

const driverName = "libcuda.so.1";

async function retainContext(device: number): Promise<number> {
  const { cuDevicePrimaryCtxRetain } = libcuda;
  const library = dlopen(
    driverName,
    {
      cuDevicePrimaryCtxRetain: { ...cuDevicePrimaryCtxRetain, nonblocking: true },
    } as const,
  );
  try {
    return await library.symbols.cuDevicePrimaryCtxRetain!(new Uint8Array(8), device);
  } finally {
    library.close();
  }
}

function openDriver(): NativeLibrary<typeof libcuda> {
  const { os } = platform();
  if (os !== "linux") throw new CudaUnavailableError(`Cannot use CUDA: it needs Linux, and this is ${os}`);
  try {
    const library = dlopen(driverName, libcuda, { lazy: true });
    keepLoaded(driverName);
    return library;
  } catch (error) {
    if (isAbsence(error)) {
      const message = `Cannot use CUDA: no ${driverName} was found; install the NVIDIA driver, or add its folder to ` +
        "LD_LIBRARY_PATH (/usr/lib/wsl/lib under WSL 2)";
      throw new CudaUnavailableError(message);
    }
    throw new Error(`Cannot use CUDA: ${driverName} does not load: ${loaderMessage(error)}; ${orUseSoftware}`);
  }
}

/** Returns the dynamic linker's message, without the prefix that `dlopen` adds. */
function loaderMessage(error: unknown): string {
  const { cause = error } = error as Error;
  return cause instanceof Error ? cause.message : String(cause);
}

/**
 * Returns whether the error means that there is no driver library. Other errors mean that the library exists but cannot
 * be loaded, for example because a dependency is missing.
 */
function isAbsence(error: unknown): boolean {
  const message = String(error);
  // The messages of glibc and musl for a missing library.
  return message.includes(`${driverName}: cannot open shared object file: No such file`) ||
    message.includes(`Error loading shared library ${driverName}: No such file`);
}

/**
 * Returns the error to throw if there is no device. libcuda returns the same error on a machine without a GPU and on
 * one whose device files the process may not open.
 */
export function noDeviceError(): Error {
  const file = forbiddenDeviceFile();
  if (file !== undefined) {
    const message =
      `Cannot use CUDA: the driver reports no device, and this process may not open ${file}; give its user ` +
      `permission to read and write /dev/nvidia*, ${orUseSoftware}`;
    return new CudaError(cudaErrorNumbers.cudaErrorNoDevice, "cuInit", message);
  }
  const visible = environmentVariable("CUDA_VISIBLE_DEVICES");
  const hidden = visible === undefined ? "" : `, and CUDA_VISIBLE_DEVICES="${visible}" may hide devices`;
  return new CudaUnavailableError(`Cannot use CUDA: the driver reports no device${hidden}`);
}

function tooOldError(version: number): Error {
  const why = `the installed driver is for CUDA ${formatVersion(version)}, and pools need 11.2`;
  return new Error(`Cannot use CUDA: ${why}; install a newer driver, ${orUseSoftware}`);
}

function versionBy(getVersion: ((out: Uint8Array) => number) | undefined): number {
  const out = new Int32Array(1);
  getVersion?.(new Uint8Array(out.buffer));
  return out[0]!;
}

interface FoundRuntime {
  readonly functions: RuntimeFunctions;
  readonly version: number;
  readonly path: string;
}

function findRuntime(path: string | null | undefined): FoundRuntime | undefined {
  if (path === null) return undefined;
  if (path !== undefined) {
    // The caller requires this library, so a failure to load it is an error.
    const found = tryRuntime(path);
    if ("reason" in found) throw new Error(`Cannot use "${path}" as libcudart: ${found.reason}`);
    return found;
  }
  if (loadedRuntime === undefined) {
    loadedRuntime = withLoadable(runtimeCandidates(), (loadable) => {
      for (const candidate of loadable) {
        const found = tryRuntime(candidate);
        if (!("reason" in found)) return found;
      }
      return null;
    });
  }
  return loadedRuntime ?? undefined;
}

function runtimeCandidates(): string[] {
  const names = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"];
  const folders = ["CUDA_HOME", "CUDA_PATH"].map(environmentVariable).filter((value) => value !== undefined);
  for (const folder of folders) names.push(`${folder}/lib64/libcudart.so`);
  names.push("/usr/local/cuda/lib64/libcudart.so");
  return names;
}

/** Opens a libcudart, or returns why it cannot be used: it is missing, too old for pools, or newer than the driver. */
function tryRuntime(path: string): FoundRuntime | { readonly reason: string } {
  let library: NativeLibrary<typeof libcudart>;
  try {
    library = dlopen(path, libcudart, { lazy: true });
  } catch (error) {
    return { reason: loaderMessage(error) };
  }
  const reason = runtimeRefusal(library);
  if (reason !== undefined) {
    library.close();
    return { reason };
  }
  keepLoaded(path);
  const version = versionBy(library.symbols.cudaRuntimeGetVersion);
  const functions = {
    ...complete(library, libcudart, () => version),
    ...ipcFunctions(library, { openEvent: "cudaIpcOpenEventHandle", openMemory: "cudaIpcOpenMemHandle" }),
  };
  return { functions, version, path };
}

function runtimeRefusal({ symbols }: NativeLibrary<typeof libcudart>): string | undefined {
  if (symbols.cudaMemPoolCreate === undefined || symbols.cudaMemPoolExportPointer === undefined) {
    return "it is older than CUDA 11.2 and has no memory pools";
  }
  const result = symbols.cudaGetDeviceCount!(new Uint8Array(4));
  if (result === cudaErrorNumbers.cudaErrorInsufficientDriver) return "it needs a newer driver than the installed one";
  return result === 0 ? undefined : `its cudaGetDeviceCount returns ${cudaErrorName(result)}`;
}

/**
 * Returns the functions of a library. Each missing function is replaced by one that throws an error with an
 * explanation.
 */
function complete<const S extends Record<string, NativeSymbol>>(
  library: NativeLibrary<S>,
  symbols: S,
  version: () => number,
): NativeFunctions<S> {
  const functions: Record<string, unknown> = {};
  for (const name of Object.keys(symbols)) {
    functions[name] = library.symbols[name] ?? (() => {
      throw missingFunction(name, version());
    });
  }
  return functions as NativeFunctions<S>;
}

/**
 * The first CUDA version with each function: 11020 stands for CUDA 11.2. Functions of libcuda that already exist in
 * CUDA 10.0 are left out.
 */
export const minimumVersions: Readonly<Record<string, number>> = {
  cuStreamBeginCapture_v2: 10010,
  cuThreadExchangeStreamCaptureMode: 10010,

  cuGraphExecMemcpyNodeSetParams: 10020,
  cuGraphExecMemsetNodeSetParams: 10020,
  cuMemGetAllocationGranularity: 10020,
  cuMemCreate: 10020,
  cuMemRelease: 10020,
  cuMemExportToShareableHandle: 10020,
  cuMemImportFromShareableHandle: 10020,
  cuMemGetAllocationPropertiesFromHandle: 10020,
  cuMemAddressReserve: 10020,
  cuMemAddressFree: 10020,
  cuMemMap: 10020,
  cuMemUnmap: 10020,
  cuMemSetAccess: 10020,
  cuMemGetAccess: 10020,

  cuDevicePrimaryCtxRelease_v2: 11000,
  cuGraphKernelNodeSetAttribute: 11000,
  cuIpcOpenMemHandle_v2: 11000,

  cuEventRecordWithFlags: 11010,
  cuGraphUpload: 11010,
  cuGraphAddEventRecordNode: 11010,
  cuGraphAddEventWaitNode: 11010,
  cuGraphExecEventRecordNodeSetEvent: 11010,
  cuGraphExecEventWaitNodeSetEvent: 11010,
  cuGraphExecChildGraphNodeSetParams: 11010,

  cuMemAllocFromPoolAsync: 11020,
  cuMemFreeAsync: 11020,
  cuDeviceGetDefaultMemPool: 11020,
  cuDeviceGetMemPool: 11020,
  cuDeviceSetMemPool: 11020,
  cuMemPoolCreate: 11020,
  cuMemPoolDestroy: 11020,
  cuMemPoolGetAttribute: 11020,
  cuMemPoolSetAttribute: 11020,
  cuMemPoolTrimTo: 11020,
  cuMemPoolGetAccess: 11020,
  cuMemPoolSetAccess: 11020,
  cuMemPoolExportToShareableHandle: 11020,
  cuMemPoolImportFromShareableHandle: 11020,
  cuMemPoolExportPointer: 11020,
  cuMemPoolImportPointer: 11020,

  cuStreamGetCaptureInfo_v2: 11030,
  cuStreamUpdateCaptureDependencies: 11030,
  cuGraphDebugDotPrint: 11030,

  cuDeviceGetUuid_v2: 11040,
  cuGraphAddMemAllocNode: 11040,
  cuGraphAddMemFreeNode: 11040,
  cuDeviceGetGraphMemAttribute: 11040,
  cuDeviceSetGraphMemAttribute: 11040,
  cuDeviceGraphMemTrim: 11040,

  cuLaunchKernelEx: 11060,
  cuGraphNodeSetEnabled: 11060,
  cuGraphNodeGetEnabled: 11060,
  cuOccupancyMaxActiveClusters: 11070,

  cuTensorMapEncodeTiled: 12000,
  cuTensorMapEncodeIm2col: 12000,
  cuGraphInstantiateWithParams: 12000,
  cuGraphAddKernelNode_v2: 12000,
  cuGraphExecUpdate_v2: 12000,
  cuGraphExecKernelNodeSetParams_v2: 12000,

  cuMemPrefetchAsync_v2: 12020,
  cuMemAdvise_v2: 12020,

  cuFuncGetName: 12030,
  cuStreamGetCaptureInfo_v3: 12030,
  cuStreamBeginCaptureToGraph: 12030,
  cuGraphGetEdges_v2: 12030,
  cuGraphConditionalHandleCreate: 12030,
  cuGraphAddNode_v2: 12030,
  cuFuncGetParamInfo: 12040,
  cuModuleGetFunctionCount: 12040,
  cuModuleEnumerateFunctions: 12040,
  cuCtxRecordEvent: 12050,

  cuStreamGetDevice: 12080,
  cuMemcpyBatchAsync: 12080,

  cuMemcpyBatchAsync_v2: 13000,
  cuMemGetDefaultMemPool: 13000,
  cuMemGetMemPool: 13000,
  cuMemSetMemPool: 13000,
  cuMemDiscardBatchAsync: 13000,
  cuMemDiscardAndPrefetchBatchAsync: 13000,
};

/** The first CUDA version whose pool properties struct has `maxSize`, and locations other than a device. */
export const minimumVersionOfPoolOptions = 12020;

/** The first CUDA version whose pool properties struct has `usage`. */
export const minimumVersionOfPoolUsage = 12080;

/** The first CUDA version that has pools of managed memory. */
export const minimumVersionOfManagedPools = 13000;

/**
 * Returns the error for calling a function that the installed library lacks. `version` is the version of that library.
 */
function missingFunction(name: string, version: number): CudaError {
  const minimum = minimumVersions[name] ?? 0;
  if (minimum > version) return newerVersionNeeded(name, { what: name, minimum, version });
  const message = `the installed library for CUDA ${formatVersion(version)} has no ${name}`;
  return new CudaError(cudaErrorNumbers.cudaErrorNotSupported, name, message);
}

/**
 * Returns the error for a feature that is newer than the installed library. `version` is the version of that library.
 */
export function newerVersionNeeded(
  call: string,
  { what, minimum, version, library = "driver" }: { what: string; minimum: number; version: number; library?: string },
): CudaError {
  const message = `${what} needs CUDA ${formatVersion(minimum)}, and the installed ${library} is for CUDA ` +
    `${formatVersion(version)}; install a newer ${library}`;
  return new CudaError(cudaErrorNumbers.cudaErrorCallRequiresNewerDriver, call, message);
}

/** The last part of the advice in error messages, for users who cannot repair the driver. */
const orUseSoftware = "or set POOLPASS_DRIVER=software to run without a GPU";

const advice: Readonly<Record<string, string>> = {
  cudaErrorInitializationError: "check with nvidia-smi that the driver works; a container may lack a part of it",
  cudaErrorStubLibrary:
    "the libcuda.so.1 that was found is the toolkit's stub, which is only for linking: remove its folder from " +
    "LD_LIBRARY_PATH, and install the driver or start the container with its GPUs",
  cudaErrorDevicesUnavailable: "another process may have exclusive use of the GPU: see its compute mode in nvidia-smi",
  cudaErrorOperatingSystem: "the system refused a request of the driver: a sandbox may hide /dev/nvidia*, " +
    "/proc/driver/nvidia or /proc/self from it",
  cudaErrorSystemNotReady: "a service that the GPUs need is not running: with NVSwitch, start nvidia-fabricmanager",
  cudaErrorSystemDriverMismatch:
    "libcuda and the kernel module have different versions: restart the machine after a driver update, and give a " +
    "container the libraries of its host",
  cudaErrorCompatNotSupportedOnDevice:
    "this GPU does not support a libcuda that is newer than its driver: remove the cuda-compat folder from " +
    "LD_LIBRARY_PATH",
  cudaErrorUnknown:
    "the driver may lack permission for a file /dev/nvidia*, or the kernel module nvidia-uvm may not be " +
    "loaded: try nvidia-modprobe -u, and see dmesg",
};

/** Returns the error for a `cuInit` that returned `result`, with advice. */
function initializationError(result: number): CudaError {
  const hint = advice[cudaErrorName(result)];
  const message = `Cannot use CUDA: cuInit failed: ${cudaErrorName(result)} (${result}); ` +
    `${hint === undefined ? "" : `${hint}, `}${orUseSoftware}`;
  return new CudaError(result, "cuInit", message);
}

const symbols = {
  access: { parameters: ["buffer", /* const char *path */ "i32" /* int mode */], result: "i32" },
} as const;
const fileExists = 0;
const readAndWrite = 4 | 2;
/** The names in `/dev` of the driver's device files, including those of its first GPU and of WSL 2. */
const deviceFiles = ["nvidiactl", "nvidia-uvm", "nvidia0", "dxg"];

/** Returns the first of the driver's device files that exists but that this process may not read and write. */
export function forbiddenDeviceFile(folder = "/dev"): string | undefined {
  let access: (path: Uint8Array, mode: number) => number;
  try {
    access = dlopen("libc.so.6", symbols).symbols.access!;
  } catch {
    return undefined;
  }
  return deviceFiles.map((name) => `${folder}/${name}`).find((path) => {
    const name = cString(path);
    return access(name, fileExists) === 0 && access(name, readAndWrite) !== 0;
  });
}
