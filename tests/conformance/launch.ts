/**
 * Kernels that rows launch, below the public objects.
 *
 * @module
 */
import { ptx } from "../../kernels/fill.ts";
import { defaultStream, type Driver, type KernelParameters } from "../../src/driver.ts";

const fillParameterBytes = 20;

/** What `fill` is given. */
export interface Fill {
  readonly address: bigint;
  readonly byteLength: number;
  /** 32 bits, 0x01010101 unless given. */
  readonly pattern?: number;
  /** The default stream unless given. */
  readonly stream?: bigint;
  /** Blocks; 1 unless given. */
  readonly grid?: number;
  /** Threads of a block; 32 unless given. */
  readonly block?: number;
}

/** Loads `fill` for a device. */
export function loadFill(driver: Driver, device: number): bigint {
  return driver.moduleGetFunction(driver.moduleLoadData(device, ptx), "fill");
}

/** The parameters of `fill`, packed. */
export function fillParameters(driver: Driver, { address, byteLength, pattern = 0x01010101 }: Fill): KernelParameters {
  const parameters = driver.createKernelParameters(fillParameterBytes);
  parameters.view.setBigUint64(0, address, true);
  parameters.view.setBigUint64(8, BigInt(byteLength), true);
  parameters.view.setUint32(16, pattern, true);
  return parameters;
}

/** Launches a kernel that fills memory, and does not wait for it. */
export function launchFill(driver: Driver, device: number, fill: Fill): void {
  const { stream = defaultStream, grid = 1, block = 32 } = fill;
  const kernel = loadFill(driver, device);
  driver.launchKernel(device, kernel, grid, 1, 1, block, 1, 1, 0, stream, fillParameters(driver, fill));
}

/** The first bytes of memory, once the work of the device's default stream is done. */
export function readBytes(driver: Driver, device: number, address: bigint, byteLength: number): number[] {
  const bytes = new Uint8Array(byteLength);
  driver.memcpyDtoHAsync(device, bytes, address, defaultStream);
  driver.streamSynchronize(device, defaultStream);
  return [...bytes];
}
