/**
 * Loading of modules on a device.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import { CudaModule } from "./cuda_module.ts";
import { kernelSignatures } from "../ptx/kernel_signature.ts";
import { ptxText, ptxVariableNames } from "../ptx/ptx_text.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";

/**
 * Loads an image, which `checkImage` has accepted.
 *
 * @param ptx The PTX that declares the image's kernels and variables. It differs from the image if that is a cubin that
 * was compiled from the PTX. Defaults to the image's own text; a cubin has none.
 */
export function loadModule(
  session: Session,
  device: CudaDevice,
  image: string | Uint8Array,
  { ptx = ptxText(image) }: { ptx?: string } = {},
): CudaModule {
  const { driver } = session;
  let handle: bigint;
  try {
    handle = driver.moduleLoadData(device.ordinal, image);
  } catch (error) {
    throw cannot(`load a module on device ${device.ordinal}`, error);
  }
  try {
    const signatures = ptx === undefined ? [] : kernelSignatures(ptx);
    const variableNames = ptx === undefined ? [] : ptxVariableNames(ptx);
    return new CudaModule(session, { device, handle, signatures, variableNames });
  } catch (error) {
    driver.moduleUnload(device.ordinal, handle);
    throw error;
  }
}
