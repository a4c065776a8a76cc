/**
 * Launches `fill` through a driver, without the public objects.
 *
 * @module
 */
import { ptx } from "../../kernels/fill.ts";
import { defaultStream, type Driver, type KernelLaunch } from "../../src/driver.ts";

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

/** Returns a launch of `fill`, a kernel from `loadFill`. */
export function fillLaunch(
  driver: Driver,
  { device, kernel }: { readonly device: number; readonly kernel: bigint },
  { address, byteLength, pattern = 0x01010101, stream = defaultStream, grid = 1, block = 32 }: Fill,
): KernelLaunch {
  const launch = driver.createKernelLaunch(device, kernel, fillParameterBytes);
  launch.parameters.setBigUint64(0, address, true);
  launch.parameters.setBigUint64(8, BigInt(byteLength), true);
  launch.parameters.setUint32(16, pattern, true);
  return Object.assign(launch, { stream, gridX: grid, blockX: block });
}

/** Launches `fill` without waiting for it. */
export function launchFill(driver: Driver, device: number, fill: Fill): void {
  driver.launchKernel(fillLaunch(driver, { device, kernel: loadFill(driver, device) }, fill));
}

/** Returns the first bytes of memory, after synchronizing the default stream of the device. */
export function readBytes(driver: Driver, device: number, address: bigint, byteLength: number): number[] {
  const bytes = new Uint8Array(byteLength);
  driver.memcpyDtoHAsync(device, bytes, address, defaultStream);
  driver.streamSynchronize(device, defaultStream);
  return [...bytes];
}
