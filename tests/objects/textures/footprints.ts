/**
 * Footprints of reads with gradients: the weight of each texel. A texture in which one texel is 1, and all others are 0,
 * is read at places around it.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { readPtx } from "./texture_kernels.ts";

/** The extent of the textures, which are repeated. */
const extent = 256;

/** A read, and where it is made. */
export interface FootprintRead {
  /** The place within a texel of level 0, from 0 to 1. */
  readonly place: readonly [x: number, y: number];
  /** The gradients in x and in y, in texels of level 0. */
  readonly gradients: readonly [number, number, number, number];
  /** The texels of which the weight is wanted, relative to the one with the place. */
  readonly texels: readonly (readonly [x: number, y: number])[];
}

/** The texture that is read. */
export interface FootprintTexture {
  readonly geometry?: "1d" | "2d";
  readonly maxAnisotropy: number;
  /** The level of the texel that is 1 in a mipmapped texture. */
  readonly level?: number;
  /** Whether the texture unit may sharpen filters between levels. */
  readonly isOptimized?: boolean;
}

/** Returns the weights of the texels of reads, one read after another. */
export async function readFootprints(
  gpu: CudaDevice,
  { geometry = "2d", maxAnisotropy, level, isOptimized = false }: FootprintTexture,
  reads: readonly FootprintRead[],
): Promise<Float32Array> {
  const middle = extent / 2, shown = level ?? 0;
  const size = (geometry === "1d" ? [extent] : [extent, extent]) as [number, number?];
  using pool = gpu.createPool();
  using module = gpu.loadModule(readPtx([{ name: "read", geometry, modifier: ".grad" }]));
  using stack = new DisposableStack();
  const array = level === undefined ? stack.use(gpu.createArray("f32", size)) : undefined;
  const mipmaps = level === undefined ? undefined : stack.use(gpu.createMipmappedArray("f32", size));
  for (let index = 0; index < (mipmaps?.levels ?? 1); index++) {
    const each = mipmaps?.level(index) ?? array!;
    const texels = new Float32Array(each.width * Math.max(1, each.height));
    if (index === shown) texels[(geometry === "1d" ? 0 : (middle >> index) * each.width) + (middle >> index)] = 1;
    each.copyFrom(texels);
  }
  using texture = gpu.createTexture((array ?? mipmaps)!, {
    normalizedCoordinates: true,
    addressMode: "wrap",
    filterMode: "linear",
    maxAnisotropy,
    ...mipmaps && { mipmapFilterMode: "linear", disableTrilinearOptimization: !isOptimized },
  });
  const operands = reads.flatMap(({ place: [x, y], gradients, texels }) =>
    texels.flatMap(([right, down]) => {
      const coordinates = [middle + x - right * 2 ** shown, middle + y - down * 2 ** shown].map((each) =>
        each / extent
      );
      const [dx0, dx1, dy0, dy1] = gradients.map((each) => Math.fround(each / extent));
      return [...coordinates, 0, 0, 0, dx0!, dx1!, 0, dy0!, dy1!, 0, 0];
    })
  );
  const count = operands.length / 12;
  using data = pool.allocateArray(Float32Array.from(operands));
  using results = pool.allocateArray(Float32Array, 4 * count);
  module.kernel("read").launch({ grid: Math.ceil(count / 64), block: 64 }, results, texture, data, count);
  return (await results.toTypedArray()).filter((_, index) => index % 4 === 0);
}
