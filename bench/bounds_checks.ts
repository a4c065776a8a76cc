/**
 * A software device that checks no bounds, to measure what the checks cost. Nobody else may have it: a kernel that runs
 * on it can write anywhere in the device's memory.
 *
 * @module
 */
import { ptx as fill } from "../kernels/fill.ts";
import { Cuda } from "../src/objects/cuda.ts";
import { CudaError } from "../src/support/errors.ts";
import { Session } from "../src/session.ts";
import { SoftwareDriver } from "../src/software/software_driver.ts";

/** Opens it. Throws where it turns out to check bounds all the same. */
export function openWithoutBoundsChecks(): Cuda {
  const options = { devices: 1, peers: false, boundsChecks: false };
  const cuda = new Cuda(new Session(new SoftwareDriver(options)));
  try {
    if (!writesPastTheEnd(cuda)) throw new Error("Cannot measure the bounds checks: they cannot be left out");
    return cuda;
  } catch (error) {
    try {
      cuda[Symbol.dispose]();
    } catch {
      // A device that met an illegal address refuses to give its memory back.
    }
    throw error;
  }
}

/** Whether a kernel may write a word past its buffer, into the page that the buffer has to itself. */
function writesPastTheEnd(cuda: Cuda): boolean {
  const device = cuda.device(0);
  using pool = device.createPool();
  using buffer = pool.allocate(512);
  using module = device.loadModule(fill);
  try {
    module.kernel("fill").launch({ grid: 1, block: 1 }, buffer, buffer.byteLength + 4, 0);
    device.synchronize();
    return true;
  } catch (error) {
    if (error instanceof CudaError) return false;
    throw error;
  }
}
