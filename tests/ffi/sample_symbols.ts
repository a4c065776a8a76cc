/**
 * The functions of CUDA that NVIDIA's samples `streamOrderedAllocationIPC` and `simpleIPC` call, and a way to call each as
 * C does.
 *
 * @module
 */
import { libcuda } from "../../ffi/libcuda.ts";
import { loadCudaLibraries } from "../../ffi/cuda_libraries.ts";
import { libcudart } from "../../ffi/libcudart.ts";
import { dlopen } from "../../ffi/host.ts";
import { ipcFunctions } from "../../ffi/ipc_functions.ts";
import { sampleDriverSymbols, sampleRuntimeSymbols } from "./sample_symbol_tables.ts";

/** What the description of `streamOrderedAllocationIPC` lists. */
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

/** What the description of `simpleIPC` lists. */
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

/** The functions of libcudart by which a kernel is found without a host function. */
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

/** The names that are bound, by libcudart's tables or libcuda's. */
export const boundSymbols: readonly string[] = [
  ...Object.keys(libcudart),
  ...Object.keys(sampleRuntimeSymbols),
  ...Object.keys(ipcFunctions({ addressOfFunction: () => undefined }, { openEvent: "", openMemory: "" })),
  ...Object.keys(libcuda),
  ...Object.keys(sampleDriverSymbols),
];

/** CUDA's functions as they are, and which of them were called. */
export interface RawCuda {
  /** Calls a function by its name and gives its result: a `cudaError_t` or a `CUresult`. */
  call(name: string, ...args: (Uint8Array | bigint | number)[]): number;
  readonly called: ReadonlySet<string>;
}

type RawFunction = (...args: (Uint8Array | bigint | number)[]) => number;

/** Why the functions cannot be called here; undefined where they can. */
export function rawCudaRefusal(): string | undefined {
  try {
    return loadCudaLibraries({}).runtimePath === undefined ? "needs libcudart, and there is none" : undefined;
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
      if (found === undefined) throw new Error(`Cannot call ${name}: no library has it`);
      return found(...args);
    },
  };
}
