/**
 * What a user can do if the driver is installed but does not start.
 *
 * @module
 */
import { CudaError, cudaErrorName } from "../src/support/errors.ts";

/** The last part of an error's advice, for users who cannot repair the driver. */
export const orUseSoftware = "or set POOLPASS_DRIVER=software to run without a GPU";

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

/** The error of a `cuInit` that returned `result`, with what to try. */
export function initializationError(result: number): CudaError {
  const hint = advice[cudaErrorName(result)];
  const message = `Cannot use CUDA: cuInit failed: ${cudaErrorName(result)} (${result}); ` +
    `${hint === undefined ? "" : `${hint}, `}${orUseSoftware}`;
  return new CudaError(result, "cuInit", message);
}
