/**
 * The drivers on which lanes exchange values. All of them must give the same.
 *
 * @module
 */
import type { Driver } from "../../../src/driver.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { driverNamed } from "../../support/drivers.ts";

/** Opens the software device, which runs kernels thread by thread or in gangs, and a GPU where there is one. */
export function* lockstepDrivers(stepLimit: number = 2 ** 30): Generator<Driver> {
  for (const gangs of [false, "always"] as const) {
    yield new SoftwareDriver({ devices: 1, peers: true, gangs, stepLimit });
  }
  const onGpu = driverNamed("cuda");
  if (onGpu.skip === false) yield onGpu.open();
}
