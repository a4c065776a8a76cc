// Allocates from a pool in a fabric until the folder's file system is full, and prints each outcome: fill_fabric.ts FOLDER.
import process from "node:process";
import { memHandleType, memLocationType } from "../../../src/driver.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { CudaError } from "../../../src/support/errors.ts";

const unit = 32 * 2 ** 20;
const location = { type: memLocationType.device, id: 0 };
const handleTypes = memHandleType.fabric;
const driver = new SoftwareDriver({ devices: 1, peers: true, fabric: process.argv[2] });
const pool = driver.memPoolCreate({ handleTypes, location, maxSize: 0n });

function attempt(action: () => void): void {
  try {
    action();
    console.log("done");
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
    console.log(error.code);
  }
}

function fill(): bigint {
  const address = driver.mallocFromPoolAsync(0, unit, pool, 0n);
  driver.memsetAsync(0, address, 1, unit, 0n);
  driver.deviceSynchronize(0);
  return address;
}

let first = 0n;
attempt(() => first = fill());
attempt(() => void fill());
attempt(() => void driver.memCreate({ handleTypes, location }, unit));
driver.freeAsync(0, first, 0n);
driver.deviceSynchronize(0);
attempt(() => driver.memRelease(driver.memCreate({ handleTypes, location }, unit)));
attempt(() => void fill());
driver.close();
