/**
 * Calls of a software driver that several tests make.
 *
 * @module
 */
import { assertThrows } from "@std/assert";
import { CudaError } from "../../src/support/errors.ts";
import type { SoftwareDriver } from "../../src/software/software_driver.ts";
import { launchFill as launchFillOf } from "../conformance/launch.ts";

/** The code of the error that a call gives. */
export function codeOf(call: () => unknown): string {
  return assertThrows(call, CudaError).code;
}

/** The bytes at an address, once what was given to the default stream of device 0 is done. */
export function readBytes(driver: SoftwareDriver, address: bigint, byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  driver.memcpyDtoHAsync(0, bytes, address, 0n);
  return bytes;
}

/** Launches a kernel on a device's default stream that writes 5 to every byte. */
export function launchFill(
  driver: SoftwareDriver,
  device: number,
  { address, byteLength }: { address: bigint; byteLength: number },
): void {
  launchFillOf(driver, device, { address, byteLength, pattern: 0x05050505 });
}
