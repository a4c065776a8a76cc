/**
 * Boxes whose copies show how a device takes tensors, boxes and fields of tensor maps.
 *
 * @module
 */
import type { ProbedBox } from "./probed_boxes.ts";
import { randomBoxes } from "./random_boxes.ts";

/** Tensors with interleaved channels. */
const interleaved: readonly ProbedBox[] = (["16B", "32B"] as const).flatMap((interleave): ProbedBox[] => {
  const usual = { interleave, shape: [32, 6, 4], strides: [1024, 8192], box: [8, 2, 2] };
  return [
    ...[[0, 0, 0], [1, 0, 0], [8, 0, 0], [2, 1, 1], [-1, -1, 2], [30, 5, 3]].map((at) => ({ ...usual, at })),
    { ...usual, at: [3, 5, 3], shape: [4, 6, 4] },
    ...[[1, 2, 2], [2, 2, 2], [16, 2, 2], [5, 3, 2]].map((box) => ({ ...usual, box, at: [0, 0, 0] })),
    ...[[2, 1, 1], [1, 2, 1]].map((elementStrides) => ({ ...usual, elementStrides, at: [0, 0, 0] })),
    ...[[32, 8192], [512, 512]].map((strides) => ({ ...usual, strides, at: [0, 0, 0] })),
    ...(["32B", "64B", "128B"] as const).map((swizzle) => ({ ...usual, swizzle, at: [0, 0, 0] })),
    { ...usual, at: [0, 0, 0], swizzle: "32B", box: [16, 4, 3] },
    { ...usual, at: [31, -1, 3], dtype: "float16", fill: "nan" },
    { ...usual, at: [0, 0, 0], dtype: "uint8", box: [16, 2, 2] },
    { ...usual, at: [0, 0, 0], dtype: "uint32", box: [4, 2, 2] },
    { ...usual, at: [1, 1, 1], isStore: true },
    { ...usual, at: [1, 2, 1, 1], shape: [32, 6, 4, 3], strides: [512, 4096, 16384], box: [8, 3, 2, 2] },
    {
      ...usual,
      at: [1, 2, 1, 1, 1],
      shape: [32, 6, 4, 3, 2],
      strides: [512, 2048, 8192, 32768],
      box: [8, 2, 2, 2, 2],
    },
    {
      interleave,
      at: [0, 0, 0],
      shape: [32, 6, 4],
      strides: [1024, 8192],
      pixels: { lower: [0], upper: [0], channels: 8, count: 8, offsets: [0] },
    },
    {
      interleave,
      at: [1, 2, 1],
      shape: [32, 6, 4],
      strides: [1024, 8192],
      pixels: { lower: [-1], upper: [-1], channels: 16, count: 8, offsets: [1] },
    },
    {
      interleave,
      at: [1, 2, 1, 1],
      shape: [32, 6, 4, 3],
      strides: [512, 4096, 16384],
      pixels: { lower: [-1, -1], upper: [-1, -1], channels: 16, count: 16, offsets: [1, 2] },
    },
  ];
});

/** Images of interleaved channels: columns, rows, slices and images, or with layers before the slices. */
const slices: readonly ProbedBox[] = (["16B", "32B"] as const).flatMap((interleave): ProbedBox[] => {
  const unit = interleave === "16B" ? 16 : 32;
  const packed = (shape: readonly number[]) => {
    const strides: number[] = [];
    for (let index = 0, stride = unit; index < shape.length - 1; index++) strides.push(stride *= shape[index]!);
    return { interleave, shape, strides };
  };
  const images = packed([5, 4, 2, 3]), volumes = packed([5, 3, 3, 2, 2]), lines = packed([6, 3, 4]);
  const pixels = { lower: [-1, -1], upper: [-1, -1], channels: 8, count: 40, offsets: [1, 2] };
  const small = { ...packed([8, 8, 2, 2]), dtype: "uint32" as const };
  return [
    { ...images, at: [2, 1, 1, 0], pixels },
    { ...images, at: [0, 0, 0, 0], pixels: { ...pixels, lower: [0, 0], upper: [-2, -3], offsets: [0, 0] } },
    { ...images, at: [1, 1, 1, 1], elementStrides: [2, 1, 1, 1], pixels },
    { ...images, at: [1, 1, 1, 0], elementStrides: [1, 2, 3, 2], pixels },
    { ...images, at: [1, 1, 2, 0], pixels },
    { ...images, at: [1, 1, -1, 0], pixels },
    { ...images, at: [1, 1, 1, 2], pixels },
    { ...images, at: [1, 1, 1, 0], pixels: { ...pixels, channels: 16 }, swizzle: "64B" },
    { ...images, at: [1, 1, 1, 0], pixels: { ...pixels, channels: 64 }, swizzle: "32B" },
    { ...images, at: [1, 1, 1, 0], pixels: { ...pixels, channels: 4 } },
    { ...images, at: [1, 1, 1, 0], pixels: { ...pixels, channels: 256 } },
    { ...lines, at: [1, 1, 0], pixels: { lower: [-1], upper: [0], channels: 8, count: 20, offsets: [1] } },
    {
      ...volumes,
      at: [1, 1, 1, 1, 0],
      pixels: { lower: [-1, 0, -1], upper: [-1, 0, 0], channels: 8, count: 60, offsets: [1, 0, 1] },
    },
    ...(["32B", "64B", "128B"] as const).flatMap((swizzle) => [
      { ...small, swizzle, box: [4, 3, 1, 2], at: [1, 1, 1, 0] },
      { ...small, swizzle, box: [4, 3, 1, 2], at: [1, 1, 1, 0], isStore: true as const },
      ...[1, 2, 3, 5].map((size) => (
        { ...small, swizzle, box: [4, 3, 1, 2], at: [1, 1, 1, 0], replaced: [`box_dim 0 ${size}`] }
      )),
    ]),
    ...[1, 3, 5].map((size) => ({ ...small, box: [4, 3, 1, 2], at: [1, 1, 1, 0], replaced: [`box_dim 0 ${size}`] })),
    { ...small, dtype: "float32", fill: "nan", box: [4, 3, 1, 2], at: [-2, 6, 1, 0] },
    { ...small, dtype: "tfloat32", fill: "nan", box: [4, 3, 1, 2], at: [6, 6, 1, 1] },
    { ...small, box: [4, 3, 2, 2], elementStrides: [3, 2, 2, 1], at: [1, 1, 0, 0] },
    { ...small, box: [4, 3, 1, 2], at: [-1, 1, 1, 0], isStore: true },
    { ...small, box: [4, 3, 1, 2], at: [6, 6, 1, 1], isStore: true },
    { ...small, strides: [144, 1152, 2304], box: [4, 3, 1, 2], at: [1, 1, 1, 0] },
    { ...small, shape: [8, 8], strides: [128], box: [4, 3], at: [1, 1] },
  ];
});

/** Boxes that are stored, of which a part may be outside of the tensor. */
const stored: readonly ProbedBox[] = [
  ...[8, 0, -8, 80, 200].map((x) => ({ shape: [100], box: [32], at: [x], dtype: "uint32" as const })),
  ...[16, 96, -8].map((x) => ({ shape: [128], box: [32], at: [x], dtype: "uint32" as const })),
  ...[16, 48, -16].map((x) => ({ shape: [96], box: [64], at: [x], dtype: "uint8" as const })),
  ...[[4, 3], [12, 16], [-4, 3], [4, -3], [20, 3], [200, 3]].map((at) => (
    { shape: [24, 20], box: [16, 8], at, dtype: "uint32" as const }
  )),
  { shape: [40, 30], box: [16, 10], at: [0, 3], elementStrides: [1, 3] },
  { shape: [40, 30], box: [16, 10], at: [8, 27], elementStrides: [1, 3] },
  { shape: [16, 40], box: [16, 24], at: [0, -2], dtype: "uint64", swizzle: "128B" },
  { shape: [8, 5, 4, 3, 2], box: [8, 2, 2, 2, 2], at: [0, 4, 3, -1, 1] },
].map((box): ProbedBox => ({ ...box as ProbedBox, isStore: true }));

const whole: ProbedBox = { shape: [64, 32, 8], strides: [128, 4096], box: [16, 4, 2], at: [8, 1, 1] };
/** Tensor maps of which a kernel has set a field. */
const replaced: readonly ProbedBox[] = [
  ...[
    ["box_dim 0 16"],
    ["global_address 1024"],
    ["rank 2"],
    ["box_dim 0 8"],
    ["box_dim 1 2"],
    ["box_dim 2 1"],
    ["global_dim 0 20"],
    ["global_dim 1 3"],
    ["global_dim 2 1"],
    ["global_stride 0, 256".replace(",", "")],
    ["global_stride 1 8192"],
    ["element_stride 0 2"],
    ["element_stride 1 2"],
    ["element_stride 2 2"],
    ...["swizzle_mode 0", "swizzle_mode 1", "swizzle_mode 2", "swizzle_mode 3", "interleave_layout 0"].map((
      field,
    ) => [field]),
    ...["interleave_layout 1", "interleave_layout 2", "fill_mode 0"].map((field) => [field]),
    ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((type) => [`elemtype ${type}`, "box_dim 0 16", "box_dim 1 1"]),
  ].map((replaced) => ({ ...whole, replaced })),
  ...["elemtype 6", "elemtype 7", "elemtype 8", "elemtype 9", "elemtype 10", "elemtype 11", "elemtype 12"].map((
    field,
  ) => ({
    ...whole,
    at: [0, -1, 7],
    replaced: [field, "fill_mode 1", "box_dim 0 16", "box_dim 1 2", "global_dim 0 16"],
  })),
  { ...whole, at: [8, 1], replaced: ["rank 1"] },
  { ...whole, at: [0, 3, 2], replaced: ["global_stride 0 0", "global_dim 1 9"] },
  {
    shape: [64, 32],
    strides: [128],
    box: [16, 4],
    at: [8, 1, 1],
    replaced: ["rank 2", "global_stride 1 4096", "global_dim 2 4", "box_dim 2 2", "element_stride 2 1"],
  },
];

/** The same, with fields that are set in global memory. */
const replacedInGlobal: readonly ProbedBox[] = [
  ["global_address 1024"],
  ["box_dim 0 8", "global_dim 0 20"],
  ["global_stride 0 256", "element_stride 1 2"],
  ["elemtype 2", "swizzle_mode 2", "box_dim 0 16", "box_dim 1 2"],
  ["rank 2", "interleave_layout 1", "fill_mode 0"],
].map((replaced) => ({ ...whole, replaced, isInGlobal: true }));

/** Dimensions whose elements are at one place. */
const withoutStride: readonly ProbedBox[] = [
  { shape: [24, 20], strides: [0], box: [16, 4], at: [8, 3] },
  { shape: [24, 20], strides: [0], box: [16, 4], at: [8, 18] },
  { shape: [24, 20, 3], strides: [48, 0], box: [16, 4, 2], at: [8, 3, 1] },
  { shape: [24, 4, 20], strides: [0, 96], box: [16, 2, 4], at: [8, 1, 3] },
  { shape: [24, 1, 20], strides: [0, 96], box: [16, 2, 4], at: [8, 0, 3] },
  { shape: [24, 20, 3], strides: [0, 0], box: [16, 4, 2], at: [8, 3, 1], isStore: true },
];

/** Pixels that are stored, in the mode im2col. */
const storedPixels: readonly ProbedBox[] = (() => {
  const image = { shape: [16, 6, 5, 3], isStore: true as const };
  const pixels = { lower: [0, 0], upper: [0, 0], channels: 16, count: 8, offsets: [0, 0] };
  return [
    { ...image, at: [0, 0, 0, 0], pixels },
    { ...image, at: [0, 1, 2, 1], pixels: { ...pixels, count: 20 } },
    { ...image, at: [8, 1, 2, 1], pixels: { ...pixels, channels: 8 } },
    { ...image, at: [0, 0, 0, 0], pixels: { ...pixels, upper: [-1, -1] } },
    { ...image, at: [0, 0, 0, 0], pixels: { ...pixels, lower: [-1, -1], upper: [-1, -1] } },
    { ...image, at: [0, 1, 1, 0], pixels: { ...pixels, lower: [1, 1] } },
    { ...image, at: [0, 0, 0, 0], pixels: { ...pixels, upper: [1, 1] } },
    { ...image, at: [0, 0, 0, 2], pixels: { ...pixels, count: 40 } },
    { ...image, at: [0, 0, 0, 0], pixels, elementStrides: [1, 2, 2, 1] },
    { ...image, at: [0, 0, 0, 0], pixels, swizzle: "32B" },
    { ...image, at: [0, 0, 0, 0], pixels: { ...pixels, channels: 8 }, dtype: "uint32", operation: "add" },
    { shape: [16, 6, 3], isStore: true, at: [0, 0, 0], pixels: { ...pixels, lower: [0], upper: [0], offsets: [0] } },
    {
      shape: [16, 4, 3, 2, 2],
      isStore: true,
      at: [0, 0, 0, 0, 0],
      pixels: { ...pixels, lower: [0, 0, 0], upper: [0, 0, 0], offsets: [0, 0, 0] },
    },
    {
      shape: [5, 4, 2, 3],
      strides: [80, 320, 640],
      interleave: "16B",
      isStore: true,
      at: [0, 0, 0, 0],
      pixels: { ...pixels, channels: 8 },
    },
  ];
})();

/** All boxes that are probed, by the name of what they show. */
export const probedBoxes: Readonly<Record<string, readonly ProbedBox[]>> = {
  "interleaved channels": interleaved,
  "slices": slices,
  "stored box": stored,
  "replaced field": replaced,
  "field in global memory": replacedInGlobal,
  "stored pixels": storedPixels,
  "stride of 0": withoutStride,
  "random box": randomBoxes(48),
};
