/**
 * Copies of boxes whose effects a GPU shows: how tensors, boxes and fields of tensor maps are taken, for
 * `cases.ts`. All arrays are in CUDA's order, in which dimension 0 varies fastest.
 *
 * @module
 */
import type { CudaDevice, TensorMapOptions, TensorMapType } from "../../../mod.ts";

/** A copy of a box between memory whose 16-bit elements are numbered and shared memory. */
export interface ProbedBox {
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
  readonly box?: readonly number[];
  readonly at: readonly number[];
  readonly elementStrides?: readonly number[];
  readonly interleave?: "16B" | "32B";
  readonly swizzle?: "32B" | "64B" | "128B";
  readonly fill?: "nan";
  readonly dtype?: TensorMapType;
  readonly pixels?: {
    readonly lower: readonly number[];
    readonly upper: readonly number[];
    readonly channels: number;
    readonly count: number;
    readonly offsets: readonly number[];
  };
  /** Fields that the kernel sets in the tensor map before the copy, and their values. */
  readonly replaced?: readonly string[];
  /** Whether the kernel stores a box. Default: it loads one. */
  readonly isStore?: true;
  /** The operation by which the kernel reduces a box that it would store. Default: none. */
  readonly operation?: string;
}

/** The bytes that a probe shows, and those of the tensor's memory. */
const shownBytes = 8192;
const memoryBytes = 1 << 17;
/** The bytes that no copy has written. */
const freshWord = 0xcccc;

/** Copies a box, and returns the 16-bit numbers that the copy has written, in runs of 4. */
export function probe(gpu: CudaDevice, box: ProbedBox): string {
  const { replaced = [], at, pixels, isStore = false, operation } = box;
  const pool = gpu.createPool();
  const memory = pool.allocate(memoryBytes);
  const numbers = Uint16Array.from({ length: memoryBytes / 2 }, (_, index) => isStore ? freshWord : index);
  memory.copyFrom(numbers);
  const out = pool.allocate(shownBytes);
  out.copyFrom(numbers.slice(0, shownBytes / 2));
  const module = gpu.loadModule(
    kernelOf({ dimensions: at.length, offsets: pixels?.offsets.length, replaced, isStore, operation }),
  );
  module.kernel("test").launch(
    { grid: 1, block: 32 },
    gpu.createTensorMap(memory, optionsOf(box)),
    pool.allocate(128),
    out,
    memory,
    ...at,
    ...pixels?.offsets ?? [],
  );
  const written = isStore ? memory.readSync(Uint16Array) : out.readSync(Uint16Array);
  return runsOf(written).join(" ");
}

/** Returns what an array contains, 4 elements each, with where what follows unwritten elements begins. */
function runsOf(words: Uint16Array): string[] {
  const runs: string[] = [];
  let isGap = true;
  for (let at = 0; at < words.length; at += 4) {
    const [first, ...others] = words.subarray(at, at + 4);
    if ([first, ...others].every((word) => word === freshWord)) {
      isGap = true;
      continue;
    }
    if (isGap) runs.push(`@${at}:`);
    isGap = false;
    const isRun = others.every((word, index) => word === first! + index + 1);
    runs.push(
      others.every((word) => word === first) ? `${first}=` : isRun ? `${first}+` : [first, ...others].join("/"),
    );
  }
  return runs;
}

function optionsOf(
  { shape, strides, box, elementStrides, pixels, dtype, interleave, swizzle, fill }: ProbedBox,
): TensorMapOptions {
  return {
    dtype: dtype ?? "uint16",
    ...interleave === undefined ? {} : { interleave },
    ...swizzle === undefined ? {} : { swizzle },
    ...fill === undefined ? {} : { fill },
    shape: shape.toReversed(),
    ...strides === undefined ? {} : { strides: strides.toReversed() },
    ...elementStrides === undefined ? {} : { elementStrides: elementStrides.toReversed() },
    ...pixels === undefined ? { box: box!.toReversed() } : {
      im2col: {
        lowerCorner: pixels.lower.toReversed(),
        upperCorner: pixels.upper.toReversed(),
        channels: pixels.channels,
        pixels: pixels.count,
      },
    },
  };
}

const list = (count: number, name: (index: number) => string) => Array.from({ length: count }, (_, i) => name(i));

/**
 * A kernel whose first lane copies a box. It does not know how many bytes come, so it waits for a time. With replaced
 * fields, the tensor map is made in shared memory, and copied to \`made\`.
 */
function kernelOf({ dimensions, offsets, replaced, isStore, operation }: {
  dimensions: number;
  offsets: number | undefined;
  replaced: readonly string[];
  isStore: boolean;
  operation: string | undefined;
}): string {
  const tensor = `[%rd2, {${list(dimensions, (index) => `%c${index}`).join(", ")}}]`;
  const mode = offsets === undefined ? "" : ".im2col";
  const given = offsets === undefined ? "" : `, {${list(offsets, (index) => `%h${index}`).join(", ")}}`;
  const stored = `${operation === undefined ? "" : `.${operation}`}${offsets === undefined ? "" : ".im2col_no_offs"}`;
  const copy = isStore
    ? `cp.${
      operation === undefined ? "" : "reduce."
    }async.bulk.tensor.${dimensions}d.global.shared::cta${stored}.bulk_group
    ${tensor}, [sm];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`
    : `mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 65536;
  cp.async.bulk.tensor.${dimensions}d.shared::cluster.global${mode}.mbarrier::complete_tx::bytes
    [sm], ${tensor}, [bar]${given};
  mov.u32 %r2, 0;
WAIT:
  nanosleep.u32 1000; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 200;
  @%p1 bra WAIT;
  mov.u32 %r2, 0;
STORE:
  add.u32 %r3, %r1, %r2; ld.volatile.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd4, %r2; add.u64 %rd4, %rd1, %rd4;
  st.global.u32 [%rd4], %r4; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, ${shownBytes};
  @%p1 bra STORE;`;
  const fields = replaced.map((field) => {
    const [name, ...values] = field.split(" ");
    const type = name === "global_address" || name === "global_stride" ? "b64" : "b32";
    const value = name === "global_address" ? "%rd5" : name === "global_stride" ? "%rd6" : values.at(-1)!;
    const set = name === "global_address"
      ? `ld.param.u64 %rd5, [memory]; add.u64 %rd5, %rd5, ${values[0]};`
      : name === "global_stride"
      ? `mov.u64 %rd6, ${values[1]};`
      : "";
    const index = values.length > 1 ? `${values[0]}, ` : "";
    return `${set} @!%p2 tensormap.replace.tile.${name}.shared::cta.b1024.${type} [built], ${index}${value};`;
  });
  const build = replaced.length === 0 ? "" : `
  shl.b32 %r3, %r0, 2; cvt.u64.u32 %rd4, %r3; add.u64 %rd4, %rd2, %rd4; ld.u32 %r4, [%rd4];
  mov.u32 %r5, built; add.u32 %r5, %r5, %r3; st.shared.u32 [%r5], %r4; bar.warp.sync -1;
  ${fields.join("\n  ")}
  bar.warp.sync -1;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [built], 128;
  mov.u64 %rd2, %rd3; fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;`;
  return `.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .align 64 .b8 map[128], .param .u64 made, .param .u64 out, .param .u64 memory${
    list(dimensions, (index) => `, .param .u32 c${index}`).join("")
  }${list(offsets ?? 0, (index) => `, .param .u16 o${index}`).join("")}) {
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b32 %c<6>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[8192]; .shared .align 128 .b8 built[128]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd3, [made]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  ${list(dimensions, (index) => `ld.param.u32 %c${index}, [c${index}];`).join(" ")}
  ${list(offsets ?? 0, (index) => `ld.param.u16 %h${index}, [o${index}];`).join(" ")}
  mov.u32 %r0, %tid.x; setp.ne.u32 %p2, %r0, 0; mov.u32 %r1, sm; mov.u32 %r2, 0;${build}
  @%p2 bra DONE;
FILL:
  add.u32 %r3, %r1, %r2; ${
    isStore
      ? "shr.u32 %r4, %r2, 1; add.u32 %r5, %r4, 1; shl.b32 %r5, %r5, 16; or.b32 %r4, %r4, %r5;"
      : "mov.u32 %r4, 0xcccccccc;"
  }
  st.shared.u32 [%r3], %r4; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, 8192;
  @%p1 bra FILL;
  fence.proxy.async;
  ${copy}
DONE:
  ret;
}`;
}

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

/** Dimensions whose elements are at one place. */
const withoutStride: readonly ProbedBox[] = [
  { shape: [24, 20], strides: [0], box: [16, 4], at: [8, 3] },
  { shape: [24, 20], strides: [0], box: [16, 4], at: [8, 18] },
  { shape: [24, 20, 3], strides: [48, 0], box: [16, 4, 2], at: [8, 3, 1] },
  { shape: [24, 4, 20], strides: [0, 96], box: [16, 2, 4], at: [8, 1, 3] },
  { shape: [24, 1, 20], strides: [0, 96], box: [16, 2, 4], at: [8, 0, 3] },
  { shape: [24, 20, 3], strides: [0, 0], box: [16, 4, 2], at: [8, 3, 1], isStore: true },
];

/** Whole numbers that look random, from 0 to below a limit. */
function randomNumbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state >>> 8) / 2 ** 24 * limit);
  };
}

/** Boxes of random tensors, in both modes. */
function randomBoxes(count: number): ProbedBox[] {
  const below = randomNumbers(2024);
  const pick = <Value>(values: readonly Value[]) => values[below(values.length)]!;
  return Array.from({ length: count }, (_, number): ProbedBox => {
    const isPixels = number % 2 === 0;
    const rank = (isPixels ? 3 : 2) + below(isPixels ? 3 : 4);
    const dtype = pick(["uint8", "uint16", "uint32", "uint64"] as const);
    const bytes = { uint8: 1, uint16: 2, uint32: 4, uint64: 8 }[dtype];
    const swizzle = pick([undefined, "32B", "64B", "128B"] as const);
    const widest = Math.min(4, Number.parseInt(swizzle ?? "128") / 16);
    const row = 16 / bytes * (1 + below(widest));
    const shape = [16 / bytes * (1 + below(4)), ...list(rank - 1, () => "").map(() => 2 + below(rank > 3 ? 5 : 8))];
    const strides: number[] = [];
    for (let index = 0, stride = shape[0]! * bytes + 16 * below(2); index < rank - 1; index++) {
      strides.push(stride);
      stride *= shape[index + 1]!;
    }
    const elementStrides = shape.map((_, index) => index === 0 ? 1 : pick([1, 1, 2, 3]));
    const at = shape.map((size, index) => index === 0 ? 16 / bytes * (below(4) - 1) : below(size + 3) - 2);
    const usual = { shape, strides, elementStrides, dtype, ...swizzle === undefined ? {} : { swizzle } };
    if (!isPixels) {
      const box = shape.map((_, index) => index === 0 ? row : 1 + below(rank > 3 ? 3 : 5));
      return { ...usual, box, at, ...number % 4 === 1 ? { isStore: true as const } : {} };
    }
    const corners = shape.slice(2).map((_, index) => {
      const lower = below(4) - 2;
      return [lower, Math.max(lower - shape[index + 1]! + 1 + below(3), below(4) - 2)] as const;
    });
    const pixels = {
      lower: corners.map(([lower]) => lower),
      upper: corners.map(([, upper]) => upper),
      channels: row,
      count: 1 + below(24),
      offsets: corners.map(() => below(3)),
    };
    const inside = at.map((coordinate, index) => {
      const corner = corners[index - 1];
      if (corner === undefined) return index === 0 ? coordinate : below(shape[index]!);
      return corner[0] + below(shape[index]! + corner[1] - corner[0]);
    });
    return { ...usual, pixels, at: inside };
  });
}

const elementSizes = {
  ...{ uint8: 1, uint16: 2, uint32: 4, int32: 4, uint64: 8, int64: 8 },
  ...{ float16: 2, bfloat16: 2, float32: 4, float64: 8, tfloat32: 4 },
} as const;
const reducedTypes: Readonly<Record<string, readonly (keyof typeof elementSizes)[]>> = {
  add: ["uint32", "int32", "uint64", "float16", "bfloat16", "float32", "float64"],
  max: ["uint32", "int32", "uint64", "int64", "float16", "bfloat16"],
  xor: ["uint32", "int32", "uint64"],
  inc: ["uint32"],
};

/** Random copies in all modes: loads, stores and reductions, with slices, swizzles and elements outside. */
function randomCopies(count: number): ProbedBox[] {
  const below = randomNumbers(90210);
  const pick = <Value>(values: readonly Value[]) => values[below(values.length)]!;
  return Array.from({ length: count }, (): ProbedBox => {
    const isPixels = below(2) === 0, isStore = below(3) === 0;
    const interleave = pick([undefined, undefined, "16B", "32B"] as const);
    const operation = isStore ? pick([undefined, ...Object.keys(reducedTypes)]) : undefined;
    const dtype = pick(operation === undefined ? Object.keys(elementSizes) as "uint8"[] : reducedTypes[operation]!);
    const bytes = elementSizes[dtype];
    const swizzle = pick([undefined, "32B", "64B", "128B"] as const);
    const unit = interleave === undefined ? bytes : interleave === "16B" ? 16 : 32;
    const least = isPixels || interleave !== undefined ? 3 : 1;
    const rank = least + below(6 - least);
    const step = interleave === undefined ? 16 / bytes : 1;
    const shape = list(rank, () => "").map((_, index) =>
      index === 0 ? step * (1 + below(5)) : 2 + below(rank > 3 ? 4 : 7)
    );
    const strides: number[] = [];
    for (let index = 0, stride = shape[0]! * unit + unit * step * below(2); index < rank - 1; index++) {
      strides.push(stride);
      stride *= shape[index + 1]!;
    }
    const elementStrides = shape.map(() => pick([1, 1, 1, 2, 3]));
    const from = isStore ? 0 : -2;
    const at = shape.map((size, index) =>
      index === 0 ? step * (below(4) + Math.sign(from)) : from + below(size + 2 - from)
    );
    const usual = {
      shape,
      strides,
      elementStrides,
      dtype,
      ...swizzle === undefined ? {} : { swizzle },
      ...interleave === undefined ? {} : { interleave },
      ...dtype.includes("float") && below(2) === 0 ? { fill: "nan" as const } : {},
      ...isStore ? { isStore: true as const } : {},
      ...operation === undefined ? {} : { operation },
    };
    const row = 16 / bytes * (1 + below(Math.min(4, Number.parseInt(swizzle ?? "128") / 16)));
    if (!isPixels) {
      const box = shape.map((_, index) => index === 0 ? row : 1 + below(rank > 3 ? 3 : 5));
      // The rows of a box are at most 8192 bytes with a swizzle.
      const rows = box.slice(1).reduce((product, size) => product * size, Math.max(box[0]! * unit, 128));
      if (rows > shownBytes) box.fill(1, 2);
      return { ...usual, box, at };
    }
    const first = interleave === undefined ? 1 : 0;
    const corners = shape.slice(first, first + rank - 2).map((size) => {
      const lower = below(4) - 2;
      return [lower, Math.max(lower - size + 1 + below(3), below(4) - 2)] as const;
    });
    const inside = at.map((coordinate, index) => {
      const corner = corners[index - first];
      if (corner === undefined || isStore) return coordinate;
      return corner[0] + below(shape[index]! + corner[1] - corner[0]);
    });
    const pixels = {
      lower: corners.map(([lower]) => lower),
      upper: corners.map(([, upper]) => upper),
      channels: row,
      count: 1 + below(40),
      offsets: corners.map(() => below(3)),
    };
    return { ...usual, pixels, at: inside };
  });
}

/** All boxes that are probed, by the name of what they show. */
export const probedBoxes: Readonly<Record<string, readonly ProbedBox[]>> = {
  "interleaved channels": interleaved,
  "slices": slices,
  "stored box": stored,
  "replaced field": replaced,
  "stride of 0": withoutStride,
  "random box": randomBoxes(48),
};

/** Boxes of random tensors, which have numbers for names. */
export const numberedBoxes: readonly ProbedBox[] = randomCopies(256);
