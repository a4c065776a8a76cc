import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { driversUnderTest, type DriverUnderTest, type TestNeeds, tooFewDevices } from "../../support/drivers.ts";
import { leakTest } from "../../support/resources.ts";

/**
 * A test with other processes, on each driver. What is left is counted as `testOnEachDriver` does, but only once the
 * runtime has finished with the processes of the first time.
 */
export function testWithProcesses(
  name: string,
  body: (cuda: Cuda, driver: DriverUnderTest) => Promise<void>,
  { devices = 1 }: TestNeeds = {},
): void {
  for (const driver of driversUnderTest) {
    const run = async () => {
      using cuda = new Cuda(new Session(driver.open()));
      await body(cuda, driver);
    };
    const skip = driver.skip || tooFewDevices(driver, devices);
    leakTest(`${name} [${driver.name}]`, run, { skip, warmUp: run });
  }
}
