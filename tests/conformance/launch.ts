/**
 * Launches `fill` through a driver, without the public objects.
 *
 * @module
 */
import { ptx } from "../../kernels/fill.ts";
import { defaultStream, type Driver, type KernelParameters } from "../../src/driver.ts";

const fillParameterBytes = 20;

/** The arguments of a launch of `fill`. */
export interface Fill {
  readonly address: bigint;
  readonly byteLength: number;
  /** The 32-bit pattern. Default: 0x01010101. */
  readonly pattern?: number;
  /** Default: the default stream. */
  readonly stream?: bigint;
  /** The number of blocks. Default: 1. */
  readonly grid?: number;
  /** The number of threads of a block. Default: 32. */
  readonly block?: number;
}

/** Loads `fill` for a device. */
export function loadFill(driver: Driver, device: number): bigint {
  return driver.moduleGetFunction(driver.moduleLoadData(device, ptx), "fill");
}

/** Returns the packed parameters of `fill`. */
export function fillParameters(driver: Driver, { address, byteLength, pattern = 0x01010101 }: Fill): KernelParameters {
  const parameters = driver.createKernelParameters(fillParameterBytes);
  parameters.view.setBigUint64(0, address, true);
  parameters.view.setBigUint64(8, BigInt(byteLength), true);
  parameters.view.setUint32(16, pattern, true);
  return parameters;
}

/** Launches `fill` without waiting for it. */
export function launchFill(driver: Driver, device: number, fill: Fill): void {
  const { stream = defaultStream, grid = 1, block = 32 } = fill;
  const kernel = loadFill(driver, device);
  driver.launchKernel(device, kernel, grid, 1, 1, block, 1, 1, 0, stream, fillParameters(driver, fill));
}

/** Returns the first bytes of memory, after synchronizing the default stream of the device. */
export function readBytes(driver: Driver, device: number, address: bigint, byteLength: number): number[] {
  const bytes = new Uint8Array(byteLength);
  driver.memcpyDtoHAsync(device, bytes, address, defaultStream);
  driver.streamSynchronize(device, defaultStream);
  return [...bytes];
}
