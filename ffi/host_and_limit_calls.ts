/**
 * The calls of `CudaDriver` that page-lock existing memory, and those about the limits of a device. They go to libcuda.
 *
 * @module
 */
import type { Driver } from "../src/driver.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf } from "./native/host.ts";

/** The calls of a driver that page-lock existing memory, and those about the limits of a device. */
export type HostAndLimitCalls = Pick<Driver, "hostRegister" | "hostUnregister" | "deviceGetLimit" | "deviceSetLimit">;

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  makeAnyCurrent(): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
}

const sizeOut = new BigUint64Array(1);
const out = new Uint8Array(sizeOut.buffer);

/** Returns the calls of a driver that page-lock existing memory, and those about the limits of a device. */
export function hostAndLimitCalls(
  cuda: DriverFunctions,
  { makeCurrent, makeAnyCurrent, check }: DriverServices,
): HostAndLimitCalls {
  return {
    hostRegister(memory, flags) {
      makeAnyCurrent();
      const address = addressOf(memory);
      check(cuda.cuMemHostRegister_v2(address, BigInt(memory.byteLength), flags), "cudaHostRegister");
      return address;
    },
    hostUnregister(address) {
      makeAnyCurrent();
      check(cuda.cuMemHostUnregister(address), "cudaHostUnregister");
    },
    deviceGetLimit(device, limit) {
      makeCurrent(device);
      check(cuda.cuCtxGetLimit(out, limit), "cudaDeviceGetLimit");
      return Number(sizeOut[0]);
    },
    deviceSetLimit(device, limit, value) {
      makeCurrent(device);
      check(cuda.cuCtxSetLimit(limit, BigInt(value)), "cudaDeviceSetLimit");
    },
  };
}
