/**
 * Copies of regions: a window of an image and a column of a matrix, and many small copies at once.
 *
 *     deno run --allow-ffi examples/copies.ts [--parts 256]
 *
 * Fills a window of an image whose rows have a pitch, and copies it to an array without gaps. Fills and reads a column
 * of a matrix. Then one call copies the pieces of a large array to buffers of their own. The program checks all results.
 *
 * @module
 */
import { open } from "../mod.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "copies [--parts 256]";
const about = `
Copies regions of an image and of a matrix, and many ranges in one batch, and checks the results.

--parts <n>  how many ranges of 4096 bytes to copy in the batch
`;

const partByteLength = 4096;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["parts"]);
  refuseSurplus(positional);
  const count = parseCount(named.parts ?? "256", { what: "the number of parts", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();

  using image = pool.allocatePitched(Uint8Array, [1920, 1080], stream);
  image.copyFrom(new Uint8Array(1920 * 1080).fill(128));
  const window = image.region([100, 50], [64, 64]);
  window.fill(255);
  using tile = pool.allocateArray(Uint8Array, 64 * 64, stream);
  window.copyTo(tile.pitched(Uint8Array, [64, 64]));
  const white = (await image.read({ signal })).reduce((sum, pixel) => sum + (pixel === 255 ? 1 : 0), 0);
  const copied = await tile.toTypedArray({ signal });
  console.log(`rows of 1920 bytes with a pitch of ${image.pitch}: ${white} white pixels`);
  if (white !== 64 * 64 || copied.some((pixel) => pixel !== 255)) throw new Error("The window is wrong");

  using matrix = pool.allocateArray(Float32Array, 512 * 512, stream);
  matrix.fill(0);
  const column = matrix.pitched(Float32Array, [1, 512], { pitch: 4 * 512, byteOffset: 4 * 7 });
  column.fill(1);
  const elements = await column.read({ signal });
  const sum = (await matrix.toTypedArray({ signal })).reduce((sum, element) => sum + element);
  console.log(`a column of ${elements.length} elements, whose sum is ${sum}`);
  if (sum !== 512 || elements.some((element) => element !== 1)) throw new Error("The column is wrong");

  using all = pool.allocate(partByteLength * count, stream);
  for (let index = 0; index < count; index++) {
    all.subarray(partByteLength * index, partByteLength * (index + 1)).fill(index % 256);
  }
  const parts = Array.from({ length: count }, () => pool.allocate(partByteLength, stream));
  stream.copyBatch(
    parts.map((target, index) => {
      return { source: all.subarray(partByteLength * index, partByteLength * (index + 1)), target };
    }),
    { preferOverlapWithCompute: true },
  );
  for (const [index, part] of parts.entries()) {
    const bytes = await part.read(Uint8Array, { signal });
    if (bytes.some((byte) => byte !== index % 256)) throw new Error(`Part ${index} is wrong`);
    part.free();
  }
  console.log(`${count} parts of ${partByteLength} bytes copied by one call`);
}

await runProgram("copies", main, { usage, about });
