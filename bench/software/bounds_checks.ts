/**
 * A software device without bounds checks, for measuring the cost of the checks. Use it for nothing else: its kernels
 * can write anywhere in the device's memory.
 *
 * @module
 */
import { ptx as fill } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";

/** Opens the device. Throws if the device checks bounds nevertheless. */
export function openWithoutBoundsChecks(): Cuda {
  const options = { devices: 1, peers: false, threads: 1, boundsChecks: false };
  const cuda = new Cuda(new Session(new SoftwareDriver(options)));
  try {
    if (!canWritePastEnd(cuda)) throw new Error("Cannot measure the bounds checks: they cannot be disabled");
    return cuda;
  } catch (error) {
    try {
      cuda[Symbol.dispose]();
    } catch {
      // After an illegal address, the device refuses to free its memory.
    }
    throw error;
  }
}

/**
 * Whether a kernel can write one word past the end of its buffer. The word lies in a page that only the buffer uses.
 */
function canWritePastEnd(cuda: Cuda): boolean {
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
