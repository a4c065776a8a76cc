/**
 * Records what a device makes of asynchronous copies that the manual does not define. After a fault, which ends the use of a
 * GPU, another process goes on. With `--compare`, prints what a GPU and the software device differ in. A case is given by
 * a part of its name:
 *
 *     deno run -A tests/objects/record_copies.ts [--driver cuda] [CASE...]
 *     deno run -A tests/objects/record_copies.ts --compare [CASE...]
 *
 * @module
 */
import process from "node:process";
import { execFile } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type CudaDevice, open, type TensorMapOptions, type TensorMapType } from "../../mod.ts";
import { answerHelp } from "../support/program_help.ts";
import { sharedBytes, tensorKernels } from "./tensor_maps.ts";

answerHelp(import.meta.url, ["driver", "here", "compare"]);

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

/** The bytes of shared memory that a case with interleaved channels shows. */
const interleavedBytes = 2048;

/**
 * Loads a box with a tensor map of interleaved channels from memory whose 16-bit elements are numbered, and returns the
 * numbers in shared memory that the copy has written, in runs of 4. The kernel does not know how many bytes come, so it
 * waits for a time.
 */
function interleaved(
  gpu: CudaDevice,
  options: TensorMapOptions,
  { at, offsets }: { at: readonly number[]; offsets?: readonly number[] },
): string {
  const pool = gpu.createPool();
  const memory = pool.allocate(1 << 17);
  memory.copyFrom(Uint16Array.from({ length: 1 << 16 }, (_, index) => index));
  const out = pool.allocate(interleavedBytes);
  const mode = offsets === undefined ? "" : ".im2col";
  const given = offsets === undefined ? "" : `, {${offsets.map((_, index) => `%h${index}`).join(", ")}}`;
  const module = gpu.loadModule(`.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .align 64 .b8 map[128], .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[8192]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r1, sm; mov.u32 %r2, 0;
FILL:
  add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], 0xcccccccc; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, 8192;
  @%p1 bra FILL;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 65536;
  ${at.map((coordinate, index) => `mov.u32 %r${5 + index}, ${coordinate};`).join(" ")}
  ${(offsets ?? []).map((offset, index) => `mov.u16 %h${index}, ${offset};`).join(" ")}
  cp.async.bulk.tensor.${at.length}d.shared::cluster.global${mode}.mbarrier::complete_tx::bytes
    [sm], [%rd2, {${at.map((_, index) => `%r${5 + index}`).join(", ")}}], [bar]${given};
  mov.u32 %r2, 0;
WAIT:
  nanosleep.u32 1000; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 200;
  @%p1 bra WAIT;
  mov.u32 %r2, 0;
STORE:
  add.u32 %r3, %r1, %r2; ld.volatile.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd3, %r2; add.u64 %rd3, %rd1, %rd3;
  st.global.u32 [%rd3], %r4; add.u32 %r2, %r2, 4; setp.lt.u32 %p1, %r2, ${interleavedBytes};
  @%p1 bra STORE;
  ret;
}`);
  module.kernel("test").launch({ grid: 1, block: 1 }, gpu.createTensorMap(memory, options), out);
  const words = out.readSync(Uint16Array);
  const runs = Array.from({ length: words.length / 4 }, (_, run) => {
    const [first, ...others] = words.slice(4 * run, 4 * run + 4);
    if ([first, ...others].every((word) => word === 0xcccc)) return ".";
    if ([first, ...others].every((word) => word === 0)) return "0";
    return others.every((word, index) => word === first! + index + 1) ? `${first}+` : [first, ...others].join("/");
  });
  return runs.join(" ").replace(/( \.)+$/, "");
}

/** Tensors with interleaved channels, and boxes of them. All in the order of CUDA. */
const interleavedCases: readonly {
  readonly interleave: "16B" | "32B";
  readonly shape?: readonly number[];
  readonly strides?: readonly number[];
  readonly box?: readonly number[];
  readonly at: readonly number[];
  readonly elementStrides?: readonly number[];
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
}[] = [
  ...(["16B", "32B"] as const).flatMap((interleave) => [
    { interleave, at: [0, 0, 0] },
    { interleave, at: [1, 0, 0] },
    { interleave, at: [8, 0, 0] },
    { interleave, at: [2, 1, 1] },
    { interleave, at: [-1, -1, 2] },
    { interleave, at: [30, 5, 3] },
    { interleave, at: [3, 5, 3], shape: [4, 6, 4] },
    { interleave, at: [0, 0, 0], box: [1, 2, 2] },
    { interleave, at: [0, 0, 0], box: [2, 2, 2] },
    { interleave, at: [0, 0, 0], box: [16, 2, 2] },
    { interleave, at: [0, 0, 0], box: [5, 3, 2] },
    { interleave, at: [0, 0, 0], elementStrides: [2, 1, 1] },
    { interleave, at: [0, 0, 0], elementStrides: [1, 2, 1] },
    { interleave, at: [0, 0, 0], strides: [32, 8192] },
    { interleave, at: [0, 0, 0], strides: [512, 512] },
    { interleave, at: [0, 0, 0], swizzle: "32B" as const },
    { interleave, at: [0, 0, 0], swizzle: "64B" as const },
    { interleave, at: [0, 0, 0], swizzle: "128B" as const },
    { interleave, at: [0, 0, 0], swizzle: "32B" as const, box: [16, 4, 3] },
    { interleave, at: [31, -1, 3], dtype: "float16" as const, fill: "nan" as const },
    { interleave, at: [0, 0, 0], dtype: "uint8" as const, box: [16, 2, 2] },
    { interleave, at: [0, 0, 0], dtype: "uint32" as const, box: [4, 2, 2] },
    { interleave, at: [1, 2, 1, 1], shape: [32, 6, 4, 3], strides: [512, 4096, 16384], box: [8, 3, 2, 2] },
    {
      interleave,
      at: [1, 2, 1, 1, 1],
      shape: [32, 6, 4, 3, 2],
      strides: [512, 2048, 8192, 32768],
      box: [8, 2, 2, 2, 2],
    },
    {
      interleave,
      at: [0, 0, 0],
      shape: [32, 6, 4],
      pixels: { lower: [0], upper: [0], channels: 8, count: 8, offsets: [0] },
    },
    {
      interleave,
      at: [1, 2, 1],
      shape: [32, 6, 4],
      pixels: { lower: [-1], upper: [-1], channels: 16, count: 8, offsets: [1] },
    },
    {
      interleave,
      at: [1, 2, 1, 1],
      shape: [32, 6, 4, 3],
      strides: [512, 4096, 16384],
      pixels: { lower: [-1, -1], upper: [-1, -1], channels: 16, count: 16, offsets: [1, 2] },
    },
  ]),
];

/** Loads the box of a case with interleaved channels. */
function loadInterleaved(gpu: CudaDevice, given: typeof interleavedCases[number]): string {
  const { at, shape = [32, 6, 4], strides = [1024, 8192], box = [8, 2, 2], elementStrides, pixels, ...others } = given;
  return interleaved(gpu, {
    dtype: "uint16",
    ...others,
    shape: shape.toReversed(),
    strides: strides.toReversed(),
    ...elementStrides === undefined ? {} : { elementStrides: elementStrides.toReversed() },
    ...pixels === undefined ? { box: box.toReversed() } : {
      im2col: {
        lowerCorner: pixels.lower.toReversed(),
        upperCorner: pixels.upper.toReversed(),
        channels: pixels.channels,
        pixels: pixels.count,
      },
    },
  }, { at, ...pixels === undefined ? {} : { offsets: pixels.offsets } });
}

/** Special numbers, as the bits of 32-bit floats. */
const floats = Uint32Array.of(
  ...[0, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x3f80_0fff, 0x3f80_1000, 0x3f80_1001],
  ...[
    0x3f80_2fff,
    0x3f80_3000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0x7f80_0001,
    0xffff_ffff,
    0x4049_0fdb,
  ],
  ...[0x1234_5678, 0xbf7f_ffff, 0x0000_1000, 0x7f7f_efff, 0x7f7f_f000],
);

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

/** Runs a body in which \`%r1\` is the address of 1024 bytes of shared memory and \`%rd1\` of 1024 bytes of global memory. */
function run(
  gpu: CudaDevice,
  body: string,
  { grid = 1, block = 1, cluster }: { grid?: number; block?: number; cluster?: number } = {},
): string {
  const pool = gpu.createPool();
  const memory = pool.allocate(1024);
  memory.fill(0);
  const module = gpu.loadModule(`.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out, .param .align 64 .b8 map[128]) {
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[1024]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, sm; mov.u32 %r2, bar; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, 24; mov.u32 %r5, 0;
  ${body}
  ret;
}`);
  const map = gpu.createTensorMap(memory, { shape: [16, 16], box: [4, 4], dtype: "uint32" });
  module.kernel("test").launch({ grid, block, ...(cluster === undefined ? {} : { cluster }) }, memory, map);
  return memory.readSync(Uint8Array).slice(0, 128).toHex();
}

const toShared = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
const toGlobal = "cp.async.bulk.global.shared::cta.bulk_group";
const commit = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";
const boxToShared = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
const waitFor = `mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; mov.u32 %r9, 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @%p1 bra DONE;
  add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 100000; @%p1 bra WAIT; st.global.u32 [%rd1], 0xdead; DONE:`;

/**
 * Lets 256 threads of two blocks update 8 bytes of shared memory, of the first block's or, for each thread, of the other
 * block's, and returns what is there.
 */
function updated(gpu: CudaDevice, operation: string, where: number): string {
  const type = operation.split(".").at(-1)!;
  const wide = type.endsWith("64");
  const [register, size] = ({ f32: ["%f", 32], f64: ["%fd", 64] } as const)[type as "f32"] ??
    (wide ? ["%rd", 64] : ["%r", 32]);
  const initial = operation.startsWith("min") || operation.startsWith("and") ? "-1" : "0";
  // The factors make bits of both halves change.
  const value = `${register}5`;
  const given = ({
    f32: "cvt.rn.f32.u32 %f5, %r5;",
    f64: "cvt.rn.f64.u32 %fd5, %r5;",
    f16x2: "mov.u32 %r5, 0x3c003c00;",
  } as const)[type as "f32"] ?? (wide ? "mul.lo.u64 %rd5, %rd5, 0x100000001;" : "");
  const bits = operation.startsWith("and") || operation.startsWith("or")
    ? wide
      ? "and.b32 %r6, %r5, 63; mov.u64 %rd5, 1; shl.b64 %rd5, %rd5, %r6;" +
        (operation.startsWith("and") ? " not.b64 %rd5, %rd5;" : "")
      : ""
    : given;
  const minimum = operation.startsWith("min") ? "sub.u64 %rd5, 100000, %rd5;" : "";
  const extra = operation.startsWith("cas") ? `, ${value}` : "";
  const old = operation.startsWith("cas") ? `${register}6` : value;
  const repeated = operation.startsWith("cas")
    ? `AGAIN: add.u${size} ${value}, ${register}6, 1; mov.b${size} ${register}7, ${register}6;
       atom.relaxed.cluster.shared::cluster.${operation} ${register}6, [%r10], ${register}7${extra};
       setp.ne.b${size} %p1, ${register}6, ${register}7; @%p1 bra AGAIN;`
    : `atom.relaxed.cluster.shared::cluster.${operation} ${register}7, [%r10], ${old};`;
  return run(
    gpu,
    `.shared .align 8 .b64 large; .reg .f32 %f<9>; .reg .f64 %fd<9>;
     mov.u64 %rd3, ${initial}; st.shared.u64 [large], %rd3;
     mov.u32 %r5, %tid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r5, %r3, %r6, %r5; add.u32 %r5, %r5, 1; cvt.u64.u32 %rd5, %r5;
     ${bits} ${minimum} mov.b64 %rd6, 0; mov.b32 %r6, 0;
     mov.u32 %r10, large; ${
      where === 0 ? "mov.u32 %r11, 0;" : "xor.b32 %r11, %r3, 1;"
    } mapa.shared::cluster.u32 %r10, %r10, %r11;
     barrier.cluster.arrive; barrier.cluster.wait;
     ${repeated}
     barrier.cluster.arrive; barrier.cluster.wait;
     mov.u32 %r11, %tid.x; setp.ne.u32 %p2, %r11, 0; mul.wide.u32 %rd8, %r3, 8; add.u64 %rd8, %rd1, %rd8;
     @%p2 bra END; ld.shared.u64 %rd9, [large]; st.global.u64 [%rd8], %rd9;
     END: barrier.cluster.arrive; barrier.cluster.wait;`,
    { grid: 2, block: 128, cluster: 2 },
  ).slice(0, 32);
}

const cases: Readonly<Record<string, (gpu: CudaDevice) => string>> = {
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
    [
      ...[
        "uint8 add",
        "uint16 add",
        "uint32 add",
        "int32 add",
        "uint64 add",
        "int64 add",
        "float16 add",
        "bfloat16 add",
      ],
      ...[
        "float32 add",
        "float64 add",
        "float32_ftz add",
        "tfloat32 add",
        "float16 min",
        "bfloat16 max",
        "float32 min",
      ],
      ...["int64 min", "uint64 max", "int32 inc", "uint32 dec", "int32 and", "uint64 xor", "float32 or", "uint16 or"],
    ].map((name) => {
      const [dtype, operation] = name.split(" ");
      return [`reduction ${name}`, (gpu: CudaDevice) => reduced(gpu, dtype as TensorMapType, operation!)];
    }),
  ),
  "fault: misaligned in shared memory": (gpu) => run(gpu, `${toShared} [%r1+8], [%rd1], 64, [bar]; ${waitFor}`),
  "fault: misaligned in global memory": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+8], 64, [bar]; ${waitFor}`),
  "fault: a size of 24": (gpu) => run(gpu, `${toShared} [%r1], [%rd1], %r4, [bar]; ${waitFor}`),
  "fault: a size of 0": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+4], %r5, [bar]; st.global.u32 [%rd1], 1;`),
  "fault: outside of shared memory": (gpu) => run(gpu, `${toShared} [%r1+0x80000], [%rd1], 64, [bar]; ${waitFor}`),
  "fault: outside of global memory": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+0x4000000000], 64, [bar]; ${waitFor}`),
  "fault: another block than the cluster has": (gpu) =>
    run(gpu, `mapa.shared::cluster.u32 %r6, %r1, 5; ${toShared} [%r6], [%rd1], 64, [%r2]; ${waitFor}`),
  "fault: a store outside of global memory": (gpu) => run(gpu, `${toGlobal} [%rd1+0x4000000000], [%r1], 64; ${commit}`),
  ...Object.fromEntries(
    [undefined, 1, 2].flatMap((cluster) =>
      Object.entries({
        "a copy": `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r1+64], 64, [%r2];`,
        "a reduction":
          `cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r1], [%r1+64], 64, [%r2];`,
        "st.async": `st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r4, [%r2];`,
        "a copy to global memory with a hint": `mov.u32 %r4, 77; st.shared.u32 [%r1+64], %r4; fence.proxy.async;
          createpolicy.fractional.L2::evict_first.b64 %rd4;
          cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1+16], [%r1+64], 16, %rd4;
          cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;`,
      }).map(([name, body]) => [
        `fault: ${name} of the block itself, cluster ${cluster}`,
        (gpu: CudaDevice) =>
          run(gpu, `mov.u32 %r8, 5; st.shared.u32 [%r1+64], %r8; fence.proxy.async; ${body} ${waitFor}`, {
            grid: cluster ?? 1,
            cluster,
          }),
      ])
    ),
  ),
  "fault: no tensor map": (gpu) => run(gpu, `${boxToShared} [%r1], [%rd1, {%r5, %r5}], [bar]; ${waitFor}`),
  "fault: a tensor map of other dimensions": (gpu) =>
    run(gpu, `${boxToShared.replace("2d", "3d")} [%r1], [%rd2, {%r5, %r5, %r5}], [bar]; ${waitFor}`),
  "fault: a box misaligned in shared memory": (gpu) =>
    run(gpu, `${boxToShared} [%r1+16], [%rd2, {%r5, %r5}], [bar]; ${waitFor}`),
  "fault: a box in the mode im2col of a tiled map": (gpu) =>
    run(
      gpu,
      `mov.u16 %h1, 0; ${boxToShared.replace("2d", "3d").replace("global", "global.im2col")} [%r1], ` +
        `[%rd2, {%r5, %r5, %r5}], [bar], {%h1}; ${waitFor}`,
    ),
  "addresses of a cluster": (gpu) =>
    run(
      gpu,
      `mul.wide.u32 %rd3, %r3, 32; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r1;
       mapa.shared::cluster.u32 %r6, %r1, %r3; st.global.u32 [%rd3+4], %r6;
       mapa.shared::cluster.u32 %r6, %r1, 0; st.global.u32 [%rd3+8], %r6;
       mapa.shared::cluster.u32 %r6, %r1, 1; st.global.u32 [%rd3+12], %r6;
       getctarank.shared::cluster.u32 %r6, %r1; st.global.u32 [%rd3+16], %r6;
       mov.u32 %r7, %is_explicit_cluster_; st.global.u32 [%rd3+20], %r7;`.replace(
        /mov.u32 %r7, %is_explicit_cluster_;/,
        "mov.u32 %r7, 0;",
      ),
      { grid: 2, cluster: 2 },
    ),
  "an address of another block that was stored": (gpu) =>
    run(
      gpu,
      `st.shared.u32 [sm+64], %r3; st.shared.u32 [sm], %r1; barrier.cluster.arrive; barrier.cluster.wait;
       xor.b32 %r6, %r3, 1; mapa.shared::cluster.u32 %r6, %r1, %r6; ld.shared::cluster.u32 %r7, [%r6];
       ld.shared::cluster.u32 %r8, [%r7+64]; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r8;
       barrier.cluster.arrive; barrier.cluster.wait;`,
      { grid: 2, cluster: 2 },
    ),
  ...Object.fromEntries(
    interleavedCases.map((
      given,
    ) => [`interleaved channels ${JSON.stringify(given)}`, (gpu) => loadInterleaved(gpu, given)]),
  ),
  // All threads of two blocks update 8 bytes of the first block's shared memory.
  ...Object.fromEntries(
    [0, 1].flatMap((where) =>
      [
        ...[
          "add.u32",
          "max.u32",
          "add.u64",
          "min.u64",
          "min.s64",
          "max.u64",
          "max.s64",
          "and.b64",
          "or.b64",
          "xor.b64",
        ],
        ...["exch.b64", "cas.b64", "add.f32", "add.f64", "add.noftz.f16x2", "exch.b32", "cas.b32", "inc.u32"],
      ].map((operation) => [
        `atomic ${operation} in ${where === 0 ? "the first block" : "another block"}`,
        (gpu: CudaDevice) => updated(gpu, operation, where),
      ])
    ),
  ),
  ...Object.fromEntries(
    Object.entries({
      "more arrivals than are pending": "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 5;",
      "more arrivals than are pending, one by one":
        "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 3; mbarrier.arrive.shared.b64 _, [bar], 2;",
      "a whole phase after an asynchronous arrival": `mbarrier.init.shared.b64 [bar], 4;
        ${
        "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 3; mbarrier.arrive.shared.b64 _, [bar], 4;"
          .repeat(20)
      }`,
      "a whole phase after an asynchronous arrival that counts itself": `mbarrier.init.shared.b64 [bar], 4;
        ${"cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 4;".repeat(20)}`,
      "noComplete that completes":
        "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %rd3, [bar], 1;",
      "bytes that nobody expects":
        "mbarrier.complete_tx.shared.b64 [bar], 64; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;",
      "a drop of all":
        "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive_drop.shared.b64 _, [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "arrival after inval": "mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "the count 1048575": "mbarrier.init.shared.b64 [bar], 1048575; mbarrier.arrive.shared.b64 _, [bar], 1048575;",
      "expected bytes of the next phase":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;",
    }).map(([name, body]) => [
      `barrier: ${name}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${body} mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;
           mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1+4], %r9;`,
        ),
    ]),
  ),
  "a replaced tensor map": (gpu) =>
    run(
      gpu,
      `mov.u32 %r6, 0;
COPY: cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd2, %rd3; ld.u32 %r7, [%rd3]; add.u32 %r8, %r1, %r6; st.shared.u32 [%r8], %r7;
       add.u32 %r6, %r6, 4; setp.lt.u32 %p1, %r6, 128; @%p1 bra COPY;
       mov.u32 %r6, 0;
DATA: cvt.u64.u32 %rd3, %r6; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3+256], %r6; add.u32 %r6, %r6, 4;
       setp.lt.u32 %p1, %r6, 512; @%p1 bra DATA;
       add.u64 %rd4, %rd1, 256; mov.u64 %rd5, 32;
       tensormap.replace.tile.global_address.shared::cta.b1024.b64 [sm], %rd4;
       tensormap.replace.tile.rank.shared::cta.b1024.b32 [sm], 1;
       tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [sm], 0, 8;
       tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [sm], 1, 16;
       tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [sm], 0, %rd5;
       tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [sm], 0, 4;
       tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [sm], 1, 4;
       tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [sm], 2;
       tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [sm], 0;
       tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [sm], 0;
       bar.warp.sync 1;
       add.u64 %rd6, %rd1, 128;
       fence.proxy.async;
       tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd6], [sm], 128;
       fence.proxy.tensormap::generic.acquire.gpu [%rd6], 128;
       mov.u32 %r6, 4; mov.u32 %r7, 2;
       ${boxToShared} [%r1+128], [%rd6, {%r6, %r7}], [bar];
       ${waitFor}
       ${toGlobal} [%rd1], [%r1+128], 64; ${commit}`.replace("bar.warp.sync 1;", ""),
    ),
};

/** What a case comes to: its result, or the code of its error and a part of the message. */
interface Outcome {
  readonly name: string;
  readonly outcome: string;
  readonly message?: string;
}

/** Prints the outcomes of cases as lines of JSON, in this process, until one ends the use of the device. */
function record(names: readonly string[], driver: "cuda" | "software"): void {
  const gpu = open({ driver }).device(0);
  for (const name of names) {
    let outcome: Outcome;
    let isLost = false;
    try {
      outcome = { name, outcome: cases[name]!(gpu) };
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      isLost = message.includes("context is lost");
      outcome = { name, outcome: String(code), message: message.slice(0, 400) };
    }
    console.log(JSON.stringify(outcome));
    if (isLost) return;
  }
}

/** Runs cases in processes, each of which goes on until a case ends the use of the device, and returns the outcomes. */
async function outcomesOf(names: readonly string[], driver: "cuda" | "software"): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  while (outcomes.length < names.length) {
    const script = [fileURLToPath(import.meta.url), "--driver", driver, "--here", ...names.slice(outcomes.length)];
    const run = promisify(execFile)(process.execPath, ["run", "-A", "--no-check", ...script], { timeout: 30_000 });
    const { stdout, code } = await run.catch((error: { stdout: string; code: unknown }) => error) as {
      stdout: string;
      code?: unknown;
    };
    const lines = stdout.trim().split("\n").filter((line) => line.startsWith("{"));
    outcomes.push(...lines.map((line) => JSON.parse(line) as Outcome));
    if (code === undefined && lines.length > 0) continue;
    const name = names[outcomes.length];
    if (name !== undefined) outcomes.push({ name, outcome: `ended with ${code}` });
  }
  return outcomes;
}

/** Runs all cases, some at a time, and returns the outcomes in the order of the cases. */
async function allOutcomes(names: readonly string[], driver: "cuda" | "software"): Promise<Outcome[]> {
  const groups = Array.from(
    { length: Math.ceil(names.length / 8) },
    (_, group) => names.slice(8 * group, 8 * group + 8),
  );
  const results: Outcome[][] = [];
  const next = groups.entries();
  const runGroups = async () => {
    for (const [index, group] of next) results[index] = await outcomesOf(group, driver);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runGroups));
  return results.flat();
}

const args = process.argv.slice(2);
const isComparison = args[0] === "--compare" && args.shift() !== undefined;
const driver = args[0] === "--driver" ? args.splice(0, 2)[1] as "cuda" : "software";
if (args[0] === "--here") {
  record(args.slice(1), driver);
  process.exit(0);
}
const names = args.length > 0
  ? Object.keys(cases).filter((name) => args.some((part) => name.includes(part)))
  : Object.keys(cases);
if (isComparison) {
  const [onGpu, onSoftware] = [await allOutcomes(names, "cuda"), await allOutcomes(names, "software")];
  const different = onGpu.flatMap((cuda, index) =>
    cuda.outcome === onSoftware[index]!.outcome ? [] : [{ name: cuda.name, cuda, software: onSoftware[index]! }]
  );
  console.log(JSON.stringify({ same: names.length - different.length, different, onGpu }, undefined, 1));
} else {
  for (const outcome of await allOutcomes(names, driver)) console.log(JSON.stringify(outcome));
}
