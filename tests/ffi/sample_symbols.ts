/**
 * The functions of CUDA that NVIDIA's samples `streamOrderedAllocationIPC` and `simpleIPC` call, and a way to call them
 * directly.
 *
 * @module
 */
import { libcuda } from "../../ffi/libcuda.ts";
import { loadCudaLibraries } from "../../ffi/cuda_libraries.ts";
import { libcudart } from "../../ffi/libcudart.ts";
import { dlopen } from "../../ffi/native/host.ts";
import { ipcFunctions } from "../../ffi/driver_equivalents.ts";
import { sampleDriverSymbols, sampleRuntimeSymbols } from "./sample_symbol_tables.ts";

/** The functions that the description of `streamOrderedAllocationIPC` lists. */
export const streamOrderedAllocationIpcSymbols: readonly string[] = [
  "cuDeviceGet",
  "cuDeviceGetAttribute",
  "cudaDeviceCanAccessPeer",
  "cudaDeviceEnablePeerAccess",
  "cudaDeviceGetAttribute",
  "cudaFreeAsync",
  "cudaGetDeviceCount",
  "cudaGetDeviceProperties",
  "cudaGetLastError",
  "cudaMallocAsync",
  "cudaMemcpyAsync",
  "cudaMemPoolCreate",
  "cudaMemPoolDestroy",
  "cudaMemPoolExportPointer",
  "cudaMemPoolExportToShareableHandle",
  "cudaMemPoolGetAccess",
  "cudaMemPoolImportFromShareableHandle",
  "cudaMemPoolImportPointer",
  "cudaMemPoolSetAccess",
  "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
  "cudaSetDevice",
  "cudaStreamCreateWithFlags",
  "cudaStreamDestroy",
  "cudaStreamSynchronize",
];

/** The functions that the description of `simpleIPC` lists. */
export const simpleIpcSymbols: readonly string[] = [
  "cudaDeviceCanAccessPeer",
  "cudaDeviceEnablePeerAccess",
  "cudaEventCreate",
  "cudaEventDestroy",
  "cudaEventRecord",
  "cudaEventSynchronize",
  "cudaFree",
  "cudaGetDeviceCount",
  "cudaGetDeviceProperties",
  "cudaGetLastError",
  "cudaIpcCloseMemHandle",
  "cudaIpcGetEventHandle",
  "cudaIpcGetMemHandle",
  "cudaIpcOpenEventHandle",
  "cudaIpcOpenMemHandle",
  "cudaMalloc",
  "cudaMemcpyAsync",
  "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
  "cudaSetDevice",
  "cudaStreamCreateWithFlags",
  "cudaStreamDestroy",
  "cudaStreamSynchronize",
  "cudaStreamWaitEvent",
];

/** The functions of libcudart that find a kernel without a host function. */
const librarySymbols = {
  cudaLibraryLoadData: {
    parameters: [
      "buffer", // cudaLibrary_t *library
      "buffer", // const void *code
      "u64", // enum cudaJitOption *jitOptions
      "u64", // void **jitOptionsValues
      "u32", // unsigned int numJitOptions
      "u64", // enum cudaLibraryOption *libraryOptions
      "u64", // void **libraryOptionValues
      "u32", // unsigned int numLibraryOptions
    ],
    result: "i32",
  },
  cudaLibraryGetKernel: {
    parameters: [
      "buffer",
      /* cudaKernel_t *pKernel */ "u64",
      /* cudaLibrary_t library */ "buffer", /* const char *name */
    ],
    result: "i32",
  },
  cudaLibraryUnload: { parameters: ["u64" /* cudaLibrary_t library */], result: "i32" },
} as const;

/** The names of all bound functions of libcudart and libcuda. */
export const boundSymbols: readonly string[] = [
  ...Object.keys(libcudart),
  ...Object.keys(sampleRuntimeSymbols),
  ...Object.keys(ipcFunctions({ addressOfFunction: () => undefined }, { openEvent: "", openMemory: "" })),
  ...Object.keys(libcuda),
  ...Object.keys(sampleDriverSymbols),
];

/** CUDA's functions, and the names of those that were called. */
export interface RawCuda {
  /** Calls a function by its name and returns its result: a `cudaError_t` or a `CUresult`. */
  call(name: string, ...args: (Uint8Array | bigint | number)[]): number;
  readonly called: ReadonlySet<string>;
}

type RawFunction = (...args: (Uint8Array | bigint | number)[]) => number;

/** Returns why the functions cannot be called here, or undefined if they can. */
export function rawCudaRefusal(): string | undefined {
  try {
    return loadCudaLibraries({}).runtimePath === undefined ? "libcudart is not installed" : undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Opens both libraries. */
export function openRawCuda(): RawCuda {
  const { runtime, driver, runtimePath } = loadCudaLibraries({});
  const runtimeLibrary = dlopen(runtimePath!, { ...sampleRuntimeSymbols, ...librarySymbols });
  const functions: Record<string, RawFunction | undefined> = {
    ...driver as unknown as Record<string, RawFunction>,
    ...dlopen("libcuda.so.1", sampleDriverSymbols).symbols as unknown as Record<string, RawFunction>,
    ...runtimeLibrary.symbols as unknown as Record<string, RawFunction>,
    ...runtime as unknown as Record<string, RawFunction>,
  };
  const called = new Set<string>();
  return {
    called,
    call(name, ...args) {
      called.add(name);
      const found = functions[name];
      if (found === undefined) throw new Error(`Cannot call ${name}: no library exports it`);
      return found(...args);
    },
  };
}
