/**
 * The levels of detail that a device takes for gradients.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { readPtx } from "./texture_kernels.ts";

/** Where the gradients of a read lie among its operands. */
const firstGradient = 5, secondGradient = 8, operandCount = 12;

/**
 * Returns the levels in 256ths for pairs of gradients: the parts of the first, and then those of the second. In a cubemap,
 * a direction precedes them. It reads levels that each have one number: what is read is the level of detail, which is
 * linear between levels.
 */
export async function readLevels(
  gpu: CudaDevice,
  geometry: "1d" | "2d" | "3d" | "cube",
  gradients: readonly (readonly number[])[],
  maxAnisotropy = 1,
): Promise<number[]> {
  const isCube = geometry === "cube";
  const dimensions = isCube ? 3 : Number(geometry[0]), size = dimensions === 3 ? 64 : 256;
  const extents = isCube ? [size, size, 6] : Array(dimensions).fill(size);
  using module = gpu.loadModule(readPtx([{ name: "read", geometry, modifier: ".grad" }]));
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using array = gpu.createMipmappedArray("f32", extents as [number, number?, number?], { cubemap: isCube });
  for (let index = 0; index < array.levels; index++) {
    const level = array.level(index);
    level.copyFrom(new Float32Array(level.width * level.height * (isCube ? 6 : level.depth)).fill(index), stream);
  }
  using texture = gpu.createTexture(array, {
    normalizedCoordinates: true,
    addressMode: isCube ? "clamp" : "wrap",
    filterMode: "linear",
    mipmapFilterMode: "linear",
    maxAnisotropy,
    disableTrilinearOptimization: true,
  });
  const operands = new Float32Array(operandCount * gradients.length);
  gradients.forEach((parts, index) => {
    const begin = operandCount * index, first = isCube ? dimensions : 0;
    operands.set(parts.slice(0, first), begin);
    operands.set(parts.slice(first, first + dimensions), begin + firstGradient);
    operands.set(parts.slice(first + dimensions), begin + secondGradient);
  });
  using data = pool.allocateArray(operands, { stream });
  using results = pool.allocateArray(Float32Array, 4 * gradients.length, stream);
  const launch = { grid: Math.ceil(gradients.length / 64), block: 64, stream };
  module.kernel("read").launch(launch, results, texture, data, gradients.length);
  const found = await results.toTypedArray({ stream });
  return gradients.map((_, index) => found[4 * index]! * 256);
}
