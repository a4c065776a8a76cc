import type { Driver } from "../../src/driver.ts";

/**
 * Loads the modules of one of the drivers in `driversUnderTest`, and of no other driver. Returns a function that opens
 * the driver.
 *
 * @param options.peers Whether the software devices are peers of each other.
 */
export async function loadDriver(name: string, { peers = true }: { peers?: boolean } = {}): Promise<() => Driver> {
  switch (name) {
    case "software": {
      const { SoftwareDriver } = await import("../../src/software/software_driver.ts");
      return () => new SoftwareDriver({ devices: 2, peers });
    }
    case "cuda": {
      const { CudaDriver } = await import("../../ffi/cuda_driver.ts");
      return () => new CudaDriver();
    }
    case "cuda without libcudart": {
      const { CudaDriver } = await import("../../ffi/cuda_driver.ts");
      return () => new CudaDriver({ cudart: null });
    }
    default:
      throw new RangeError(`Cannot load the driver "${name}": there is no driver of that name`);
  }
}
