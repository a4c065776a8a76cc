/**
 * Calls of a software driver that several tests share.
 *
 * @module
 */
import { assertThrows } from "@std/assert";
import { CudaError } from "../../src/support/errors.ts";
import type { SoftwareDriver } from "../../src/software/software_driver.ts";
import { launchFill as launchFillOf } from "../conformance/launch.ts";

/** Returns the code of the error that a call throws. */
export function codeOf(call: () => unknown): string {
  return assertThrows(call, CudaError).code;
}

/** Reads memory behind the work of device 0's default stream. */
export function readBytes(driver: SoftwareDriver, address: bigint, byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  driver.memcpyDtoHAsync(0, bytes, address, 0n);
  return bytes;
}

/** Launches a kernel on a device's default stream that fills memory with 5. */
export function launchFill(
  driver: SoftwareDriver,
  device: number,
  { address, byteLength }: { address: bigint; byteLength: number },
): void {
  launchFillOf(driver, device, { address, byteLength, pattern: 0x05050505 });
}
