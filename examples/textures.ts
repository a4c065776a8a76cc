/**
 * Textures: a matrix moved by a texture that wraps, and five filters of one 8-bit image.
 *
 *     deno run --allow-ffi examples/textures.ts [--size 64]
 *
 * Like NVIDIA's samples simplePitchLinearTexture and bicubicTexture. The matrix is read from rows of a buffer and from
 * an array, with coordinates from 0 to 1. The image is read as numbers from 0 to 1: single texels, sums of four, and
 * sums of sixteen in several ways. One of them makes its sum of sixteen texels by four reads with a linear filter.
 *
 * @module
 */
import { type CudaTexture, open } from "../mod.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { ptx } from "./kernels/textures.ts";

const usage = "textures [--size 64]";
const about = `
Moves a matrix by a texture that wraps, enlarges an image by five filters, and checks the results.

--size <n>  the width and height of the matrix and of the image, a multiple of 16
`;

const [shiftX, shiftY] = [1, 2] as const;
const block = [16, 16] as const;

async function main(): Promise<void> {
  const { positional, named } = readArguments(["size"]);
  refuseSurplus(positional);
  const size = parseCount(named.size ?? "64", { what: "the size", least: 16 });
  if (size % 16 !== 0) throw new Error(`Cannot use ${size} as the size: it must be a multiple of 16`);
  const grid = [size / 16, size / 16] as const;
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);

  const numbers = Float32Array.from({ length: size * size }, (_, index) => index);
  using rows = pool.allocatePitched(Float32Array, [size, size], stream);
  using moved = pool.allocatePitched(Float32Array, [size, size], stream);
  using array = gpu.createArray("f32", [size, size]);
  rows.copyFrom(numbers, stream);
  array.copyFrom(numbers, stream);
  for (const [name, source] of [["rows of a buffer", rows], ["an array", array]] as const) {
    using texture = gpu.createTexture(source, { addressMode: "wrap", normalizedCoordinates: true });
    const shift = module.kernel("shift");
    shift.launch({ grid, block, stream }, moved, moved.pitch / 4, size, size, shiftX, shiftY, texture);
    const found = await moved.read(stream);
    const wrong = found.findIndex((number, index) => {
      const [x, y] = [index % size, Math.floor(index / size)];
      return number !== numbers[(y + shiftY) % size * size + (x + shiftX) % size];
    });
    if (wrong >= 0) throw new Error(`Element ${wrong} of ${name} is ${found[wrong]}`);
    console.log(`All elements of ${name} were moved by (${shiftX}, ${shiftY})`);
  }

  // A disc, whose edge the filters draw in different ways.
  const pixels = Uint8Array.from({ length: size * size }, (_, index) => {
    const [x, y] = [index % size - size / 2, Math.floor(index / size) - size / 2];
    return x * x + y * y < size * size / 9 ? 230 : 20;
  });
  using image = gpu.createArray("u8", [size, size]);
  image.copyFrom(pixels, stream);
  const asNumbers = { readMode: "normalized-float" } as const;
  using point = gpu.createTexture(image, { ...asNumbers, filterMode: "point" });
  using linear = gpu.createTexture(image, { ...asNumbers, filterMode: "linear" });
  using enlarged = pool.allocateArray(Uint8Array, size * size, { stream });
  const filters: readonly (readonly [name: string, texture: CudaTexture, filter: number])[] = [
    ["point", point, 0],
    ["linear", linear, 0],
    ["bicubic", point, 1],
    ["fast bicubic", linear, 2],
    ["Catmull-Rom", point, 3],
  ];
  const results = new Map<string, Uint8Array>();
  for (const [name, texture, filter] of filters) {
    // A sixteenth of the image, around a part of the disc's edge.
    const launch = { grid, block, stream };
    module.kernel("enlarge").launch(launch, enlarged, size, size, size / 2, size / 12, 0.25, filter, texture);
    results.set(name, await enlarged.toTypedArray({ stream }));
    const colors = new Set(results.get(name)).size;
    console.log(`${name}: ${colors} shades`);
  }
  const [slow, fast] = [results.get("bicubic")!, results.get("fast bicubic")!];
  const furthest = slow.reduce((most, value, index) => Math.max(most, Math.abs(value - fast[index]!)), 0);
  if (furthest > 2) throw new Error(`Both ways to a bicubic filter differ by ${furthest}`);
  console.log("Both ways to a bicubic filter have the same result");
}

await runProgram("textures", main, { usage, about });
