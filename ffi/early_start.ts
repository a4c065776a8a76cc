/**
 * Starts CUDA before the library is loaded.
 *
 * @module
 */
import { dlopen, jsRuntime, keepLoaded } from "./native/host.ts";

const driverName = "libcuda.so.1";
const symbols = {
  cuInit: { parameters: ["u32" /* unsigned int Flags */], result: "i32", nonblocking: true },
  cuDevicePrimaryCtxRetain: {
    parameters: ["buffer", /* CUcontext *pctx */ "i32" /* CUdevice dev */],
    result: "i32",
    nonblocking: true,
  },
} as const;

/**
 * Starts CUDA and creates a device's context, which otherwise `open` and the first operation that needs the device do.
 * This takes 100 to 300 milliseconds on a GPU, which Deno spends in another thread. The result tells nothing: `open`
 * throws what is missing, and waits if CUDA is still starting. Does nothing in Bun and Node, which have no such calls.
 *
 * @param ordinal the number of the device, as in `cuda.device(0)`
 * @returns Resolves when CUDA has started, or cannot
 */
export async function initializeDevice(ordinal: number = 0): Promise<void> {
  if (jsRuntime !== "deno") return;
  let library;
  try {
    library = dlopen(driverName, symbols);
  } catch {
    return;
  }
  keepLoaded(driverName);
  const { cuInit, cuDevicePrimaryCtxRetain } = library.symbols;
  // Device handles are ordinals.
  if (await cuInit?.(0) === 0) await cuDevicePrimaryCtxRetain?.(new Uint8Array(8), ordinal);
}
