import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { test, type TestOptions } from "./test.ts";

/** When a test runs, and its devices. */
export interface SoftwareTestOptions extends TestOptions {
  readonly devices?: number;
  readonly peers?: boolean;
}

/** Declares a test that needs the software device, or looks below the public objects. */
export function testSoftware(
  name: string,
  body: (cuda: Cuda, driver: SoftwareDriver) => void | Promise<void>,
  { devices = 2, peers = true, ...options }: SoftwareTestOptions = {},
): void {
  test(name, options, async () => {
    const driver = new SoftwareDriver({ devices, peers });
    using cuda = new Cuda(new Session(driver));
    await body(cuda, driver);
  });
}
