/**
 * What a device makes of tensor maps and of copies of boxes.
 *
 * @module
 */
import type { CudaDevice, TensorMapOptions, TensorMapType } from "../../../mod.ts";
import { type Cases, floats } from "./kernel_body.ts";
import { probedBoxes } from "./boxes.ts";
import { probe } from "./probed_boxes.ts";
import { randomCopies } from "./random_boxes.ts";
import { reductions, sharedBytes, tensorKernels } from "../tensor_maps.ts";

const pattern = (byteLength: number) => Uint8Array.from({ length: byteLength }, (_, index) => index * 7 % 251 + 1);

/** Loads a box of a tensor of two dimensions, and returns the first bytes of shared memory. */
function loaded(
  gpu: CudaDevice,
  options: TensorMapOptions,
  { bytes, at, copied, shown }: {
    bytes: Uint8Array<ArrayBuffer>;
    at: readonly number[];
    copied: number;
    shown: number;
  },
): string {
  const pool = gpu.createPool();
  const memory = pool.allocate(bytes.length);
  memory.copyFrom(bytes);
  const out = pool.allocate(sharedBytes);
  const map = gpu.createTensorMap(memory, options);
  gpu.loadModule(tensorKernels).kernel(`load${options.shape!.length}`).launch(
    { grid: 1, block: 1 },
    map,
    out,
    copied,
    ...at,
  );
  return out.readSync(Uint8Array).slice(0, shown).toHex();
}

const reducedTypes = [
  ...["uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64"] as const,
  ...["float32_ftz", "tfloat32", "tfloat32_ftz"] as const,
];

/** Reduces a row of elements into another one, and returns the result. */
function reduced(gpu: CudaDevice, dtype: TensorMapType, operation: string): string {
  const pool = gpu.createPool();
  const source = pool.allocate(sharedBytes);
  const elements = new Uint8Array(sharedBytes);
  const words = new Uint32Array(elements.buffer);
  for (let index = 0; index < 64; index++) words[index] = floats[index * 5 % floats.length]!;
  source.copyFrom(elements);
  const memory = pool.allocate(256);
  memory.copyFrom(Uint32Array.from({ length: 64 }, (_, index) => floats[index % floats.length]!));
  const size = { float16: 2, bfloat16: 2, uint16: 2, uint8: 1, float64: 8, uint64: 8, int64: 8 }[dtype as "uint8"] ?? 4;
  const map = gpu.createTensorMap(memory, { shape: [2, 128 / size], box: [2, 128 / size], dtype });
  gpu.loadModule(tensorKernels).kernel(`reduce_${operation}`).launch({ grid: 1, block: 1 }, map, source, 0, 0);
  return memory.readSync(Uint8Array).toHex();
}

/** Loads, stores and reductions of boxes, with all kinds of tensor maps. */
export const boxCases: Cases = {
  ...Object.fromEntries(
    (["32B", "64B", "128B"] as const).flatMap((swizzle) =>
      [16, 32, 64].filter((bytes) => bytes < Number.parseInt(swizzle)).map((bytes) => [
        `rows of ${bytes} bytes with swizzle ${swizzle}`,
        (gpu: CudaDevice) =>
          loaded(gpu, { shape: [16, 128], box: [12, bytes], dtype: "uint8", swizzle }, {
            bytes: pattern(2048),
            at: [0, 0],
            copied: 12 * bytes,
            shown: 2048,
          }),
      ])
    ),
  ),
  ...Object.fromEntries(
    ([
      [[100], [32], [8], 128],
      [[100], [32], [-8], 128],
      [[100], [32], [-8], 96],
      [[100], [32], [80], 128],
      [[100], [32], [80], 80],
      [[100], [32], [200], 128],
      [[100], [32], [200], 0],
      [[100], [32], [7], 128],
      [[104], [32], [80], 128],
      [[4, 32], [2, 16], [3, 1], 128],
      [[4, 32], [2, 16], [4, 3], 128],
      [[4, 32], [2, 16], [4, 3], 64],
      [[4, 32], [2, 16], [20, 1], 128],
      [[4, 32], [2, 16], [20, 1], 96],
    ] as const).map(([shape, box, at, copied]) => [
      `a box of ${box} at ${at} of ${shape}, ${copied} bytes awaited`,
      (gpu: CudaDevice) =>
        loaded(gpu, { shape: [...shape], box: [...box], dtype: "uint32" }, {
          bytes: pattern(512),
          at,
          copied,
          shown: 160,
        }),
    ]),
  ),
  ...Object.fromEntries(
    (["float16", "bfloat16", "float32", "float64", "float32_ftz", "tfloat32", "tfloat32_ftz"] as const).map((dtype) => [
      `fill of ${dtype}`,
      (gpu: CudaDevice) =>
        loaded(gpu, { shape: [2, 16], box: [1, 16], dtype, fill: "nan" }, {
          bytes: pattern(256),
          at: [12, 1],
          copied: 16 * ({ float16: 2, bfloat16: 2, float64: 8 }[dtype as "float16"] ?? 4),
          shown: 128,
        }),
    ]),
  ),
  ...Object.fromEntries(
    (["float32", "float32_ftz", "tfloat32", "tfloat32_ftz"] as const).map((dtype) => [
      `loads of ${dtype}`,
      (gpu: CudaDevice) =>
        loaded(gpu, { shape: [1, 24], box: [1, 24], dtype }, {
          bytes: new Uint8Array(floats.buffer),
          at: [0, 0],
          copied: 96,
          shown: 96,
        }),
    ]),
  ),
  ...Object.fromEntries(
    reducedTypes.flatMap((dtype) =>
      reductions.map((operation) => [
        `reduction ${dtype} ${operation}`,
        (gpu: CudaDevice) => reduced(gpu, dtype, operation),
      ])
    ),
  ),
  ...Object.fromEntries(
    Object.entries(probedBoxes).flatMap(([name, boxes]) =>
      boxes.map((box) => [`${name} ${JSON.stringify(box)}`, (gpu: CudaDevice) => probe(gpu, box)])
    ),
  ),
  ...Object.fromEntries(
    randomCopies(256).map((box, index) => [`random copy ${index}`, (gpu: CudaDevice) => probe(gpu, box)]),
  ),
};
