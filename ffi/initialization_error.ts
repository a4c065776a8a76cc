/**
 * What a user can do where the driver is there and does not start.
 *
 * @module
 */
import { CudaError, cudaErrorName } from "../src/support/errors.ts";

/** What is left to whoever cannot mend the driver. */
export const otherwise = "or set POOLPASS_DRIVER=software to do without a GPU";

const advice: Readonly<Record<string, string>> = {
  cudaErrorInitializationError: "ask nvidia-smi whether the driver works; a container may lack a part of it",
  cudaErrorStubLibrary:
    "the libcuda.so.1 that was found is the toolkit's stub, for linking alone: take its folder out of LD_LIBRARY_PATH, " +
    "and install the driver, or start the container with its GPUs",
  cudaErrorDevicesUnavailable: "another process may have the GPU for itself: see its compute mode in nvidia-smi",
  cudaErrorOperatingSystem: "the system refused what the driver asked of it: a sandbox may keep /dev/nvidia*, " +
    "/proc/driver/nvidia or /proc/self from it",
  cudaErrorSystemNotReady: "a service that the GPUs need is not running: with NVSwitch that is nvidia-fabricmanager",
  cudaErrorSystemDriverMismatch:
    "libcuda and the kernel's module are of different versions: restart the machine after an update of the driver, and " +
    "give a container the libraries of its host",
  cudaErrorCompatNotSupportedOnDevice:
    "this GPU does not take a libcuda that is newer than its driver: take the folder of cuda-compat out of " +
    "LD_LIBRARY_PATH",
  cudaErrorUnknown: "the driver may have no permission for a file /dev/nvidia*, or the module nvidia-uvm may not be " +
    "loaded: see nvidia-modprobe -u, and dmesg",
};

/** The error that `cuInit` gave, with what to try. */
export function initializationError(result: number): CudaError {
  const hint = advice[cudaErrorName(result)];
  const message = `Cannot use CUDA: cuInit failed: ${cudaErrorName(result)} (${result}); ` +
    `${hint === undefined ? "" : `${hint}, `}${otherwise}`;
  return new CudaError(result, "cuInit", message);
}
