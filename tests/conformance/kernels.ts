/**
 * Kernels for what `fill` cannot do.
 *
 * @module
 */
import { defaultStream, type Driver } from "../../src/driver.ts";

/** The PTX of the kernels. */
export const kernelsPtx: string = `.version 7.0
.target sm_60
.address_size 64

.visible .entry nothing()
{
  ret;
}

.visible .entry ignore(.param .u64 first, .param .u64 second)
{
  ret;
}

.visible .entry store(.param .u64 to, .param .u32 value)
{
  .reg .b64 %to;
  .reg .b32 %value;
  ld.param.u64 %to, [to];
  ld.param.u32 %value, [value];
  st.global.u32 [%to], %value;
  ret;
}

.visible .entry copy(.param .u64 to, .param .u64 from)
{
  .reg .b64 %to, %from;
  .reg .b32 %value;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.global.u32 %value, [%from];
  st.global.u32 [%to], %value;
  ret;
}

.visible .entry stop()
{
  trap;
  ret;
}

.visible .entry narrow()
.maxntid 32, 1, 1
{
  ret;
}

.visible .entry share(.param .u64 to, .param .u32 offset)
{
  .shared .align 16 .b8 array[16];
  .reg .b64 %to;
  .reg .b32 %address, %offset, %value;
  ld.param.u64 %to, [to];
  ld.param.u32 %offset, [offset];
  mov.u32 %address, array;
  add.u32 %address, %address, %offset;
  st.shared.u32 [%address], 7;
  ld.shared.u32 %value, [%address];
  st.global.u32 [%to], %value;
  ret;
}
`;

/** The shape of a launch, its stream and its parameters. */
export interface Launch {
  /** Default: 1, 1, 1. */
  readonly grid?: readonly [x: number, y: number, z: number];
  /** Default: 1, 1, 1. */
  readonly block?: readonly [x: number, y: number, z: number];
  readonly sharedMemoryBytes?: number;
  /** Default: the default stream. */
  readonly stream?: bigint;
  /** The parameters in memory order, without padding: 64 bits for a bigint, 32 bits for a number. */
  readonly parameters?: readonly (bigint | number)[];
}

/** A kernel that is loaded for a device. */
export interface LoadedKernel {
  readonly device: number;
  readonly handle: bigint;
}

/** Loads one of the kernels for a device. */
export function loadKernel(driver: Driver, device: number, name: string): LoadedKernel {
  return { device, handle: driver.moduleGetFunction(driver.moduleLoadData(device, kernelsPtx), name) };
}

/** Launches a kernel without waiting for it. */
export function launch(
  driver: Driver,
  { device, handle }: LoadedKernel,
  {
    grid: [gridX, gridY, gridZ] = [1, 1, 1],
    block: [blockX, blockY, blockZ] = [1, 1, 1],
    sharedMemoryBytes = 0,
    stream = defaultStream,
    parameters = [],
  }: Launch = {},
): void {
  const sizes = parameters.map((parameter) => typeof parameter === "bigint" ? 8 : 4);
  const kernelLaunch = driver.createKernelLaunch(device, handle, sizes.reduce((sum, size) => sum + size, 0));
  let offset = 0;
  for (const [index, parameter] of parameters.entries()) {
    if (typeof parameter === "bigint") kernelLaunch.parameters.setBigUint64(offset, parameter, true);
    else kernelLaunch.parameters.setUint32(offset, parameter, true);
    offset += sizes[index]!;
  }
  Object.assign(kernelLaunch, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes, stream });
  driver.launchKernel(kernelLaunch);
}
