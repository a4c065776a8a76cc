import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { type SkipReason, test } from "./test.ts";

/** The devices of a test. */
export interface Devices {
  devices?: number;
  peers?: boolean;
  /** Why the test cannot run here. */
  skip?: SkipReason;
}

/** Declares a test that needs the software device, or looks below the public objects. */
export function testSoftware(
  name: string,
  body: (cuda: Cuda, driver: SoftwareDriver) => void | Promise<void>,
  { devices = 2, peers = true, skip = false }: Devices = {},
): void {
  test(name, { skip }, async () => {
    const driver = new SoftwareDriver({ devices, peers });
    using cuda = new Cuda(new Session(driver));
    await body(cuda, driver);
  });
}
