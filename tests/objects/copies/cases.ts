/**
 * What a device makes of asynchronous copies, tensor maps, clusters and barriers, also where the manual does not say.
 *
 * @module
 */
import type { CudaDevice, TensorMapOptions, TensorMapType } from "../../../mod.ts";
import { numberedBoxes, probe, probedBoxes } from "./probed_boxes.ts";
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

/** Runs a body in which \`%r1\` is the address of 1024 bytes of shared memory and \`%rd1\` of 1024 bytes of global memory. */
function run(
  gpu: CudaDevice,
  body: string,
  { grid = 1, block = 1, cluster, sharedMemoryBytes = 0 }: {
    grid?: number;
    block?: number;
    cluster?: number | undefined;
    sharedMemoryBytes?: number;
  } = {},
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
  module.kernel("test").launch(
    { grid, block, sharedMemoryBytes, ...(cluster === undefined ? {} : { cluster }) },
    memory,
    map,
  );
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

/** Special 16-bit floats, with several NaNs. */
const halves = [
  ...[0x7ff7, 0xfff7, 0x7ff6, 0x7ff8, 0x7fff, 0xffff, 0x7e00, 0x7c01, 0x7c00, 0xfc00, 0x7f80, 0xff80, 0x7f81, 0x7fc0],
  ...[0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00, 0x4000, 0x3f80, 0xbf80, 0x7bff, 0x7f7f, 0x1234],
];

/** Returns the results of an instruction with all triples of special floats, as far as they differ from their neighbours. */
function outsideProducts(gpu: CudaDevice, { type, modifier }: { type: string; modifier: string }): string {
  const pool = gpu.createPool();
  const factors = pool.allocate(64);
  factors.copyFrom(Uint16Array.from({ length: 32 }, (_, index) => halves[index] ?? 0));
  const out = pool.allocate(32 * 32 * 32 * 4);
  gpu.loadModule(`.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 factors) {
  .reg .b16 %h<6>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [factors];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
  mul.wide.u32 %rd3, %r1, 2; add.u64 %rd3, %rd2, %rd3; ld.global.b16 %h1, [%rd3];
  mul.wide.u32 %rd3, %r2, 2; add.u64 %rd3, %rd2, %rd3; ld.global.b16 %h2, [%rd3];
  mul.wide.u32 %rd3, %r3, 2; add.u64 %rd3, %rd2, %rd3; ld.global.b16 %h3, [%rd3];
  mad.lo.u32 %r4, %r3, 32, %r2; mad.lo.u32 %r4, %r4, 32, %r1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3;
  fma.rn.oob${modifier}.${type} %h4, %h1, %h2, %h3; mov.b32 %r5, {%h1, %h2}; mov.b32 %r6, {%h2, %h1};
  mov.b32 %r7, {%h3, %h3}; fma.rn.oob${modifier}.${type}x2 %r8, %r5, %r6, %r7; shr.u32 %r8, %r8, 16; cvt.u16.u32 %h5, %r8;
  mov.b32 %r9, {%h4, %h5}; st.global.b32 [%rd3], %r9;
  ret;
}`).kernel("test").launch({ grid: [32, 32], block: 32 }, out, factors);
  const results = out.readSync(Uint32Array);
  const rows: string[] = [];
  // The rule is in the pairs of factors, so four addends of each are shown.
  for (const addend of [4, 14, 18, 8]) {
    for (let second = 0; second < halves.length; second++) {
      rows.push(
        [...results.subarray((addend * 32 + second) * 32, (addend * 32 + second) * 32 + halves.length)].map((word) =>
          word.toString(16)
        ).join(" "),
      );
    }
  }
  return rows.join("; ");
}

/** The cases by their names. Each returns what the device has written, or throws. */
export const cases: Readonly<Record<string, (gpu: CudaDevice) => string>> = {
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
        "a copy to global memory with a hint":
          `mov.u32 %r4, 77; st.shared.v4.u32 [%r1+64], {%r4, %r5, %r5, %r5}; fence.proxy.async;
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
    Object.entries(probedBoxes).flatMap(([name, boxes]) =>
      boxes.map((box) => [`${name} ${JSON.stringify(box)}`, (gpu: CudaDevice) => probe(gpu, box)])
    ),
  ),
  ...Object.fromEntries(
    numberedBoxes.map((box, index) => [`random copy ${index}`, (gpu: CudaDevice) => probe(gpu, box)]),
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
        ...["cas.b64", "add.f32", "add.f64", "add.noftz.f16x2", "cas.b32"],
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
      "bytes up to the limit":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048574; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1;",
      "bytes beyond the limit":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1;",
      "complete bytes up to the limit": "mbarrier.complete_tx.shared.b64 [bar], 1048575;",
      "complete bytes beyond the limit":
        "mbarrier.complete_tx.shared.b64 [bar], 1048575; mbarrier.complete_tx.shared.b64 [bar], 1;",
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
  ...Object.fromEntries(
    [undefined, 2].flatMap((cluster) =>
      [
        ...["%aggr_smem_size", "%total_smem_size", "%dynamic_smem_size", "%cluster_ctarank", "%cluster_nctarank"],
        ...["%cluster_ctaid.w", "%cluster_nctaid.w", "%clusterid.w", "%nclusterid.w", "%clusterid.x", "%nclusterid.x"],
        ...["%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap"],
        ...["%reserved_smem_offset_0", "%reserved_smem_offset_1", "%tid.w", "%ntid.w", "%ctaid.w", "%nctaid.w"],
        ...["%pm0", "%envreg0", "%envreg31", "%nwarpid", "%nsmid"],
      ].map((register) => [
        `register ${register}, cluster ${cluster}`,
        (gpu: CudaDevice) =>
          run(gpu, `mov.u32 %r9, ${register}; st.global.u32 [%rd1], %r9;`, {
            grid: cluster ?? 1,
            cluster,
            sharedMemoryBytes: 256,
          }),
      ]).concat([
        [
          `register %is_explicit_cluster, cluster ${cluster}`,
          (gpu: CudaDevice) =>
            run(gpu, "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;", {
              grid: cluster ?? 1,
              cluster,
            }),
        ],
        [
          `register %current_graph_exec, cluster ${cluster}`,
          (gpu: CudaDevice) =>
            run(gpu, "mov.u64 %rd9, %current_graph_exec; st.global.u64 [%rd1], %rd9;", { grid: cluster ?? 1, cluster }),
        ],
      ])
    ),
  ),
  ...Object.fromEntries(
    [0, 1, 100, 128, 200, 1000].flatMap((sharedMemoryBytes) =>
      ["%aggr_smem_size", "%total_smem_size", "%dynamic_smem_size"].map((register) => [
        `register ${register}, ${sharedMemoryBytes} dynamic bytes`,
        (gpu: CudaDevice) => run(gpu, `mov.u32 %r9, ${register}; st.global.u32 [%rd1], %r9;`, { sharedMemoryBytes }),
      ])
    ),
  ),
  ...Object.fromEntries(
    ([[4, 8], [8, 16], [16, 32]] as const).flatMap(([bytes, most]) =>
      Array.from({ length: most / bytes * 4 + 2 }, (_, index) => bytes === 16 ? index * 3 : index).map((size) => [
        `copy of ${size} of ${bytes} bytes by cp.async`,
        (gpu: CudaDevice) =>
          run(
            gpu,
            `mov.b64 %rd9, 0x0807060504030201; st.global.u64 [%rd1+64], %rd9; st.global.u64 [%rd1+72], %rd9;
             st.global.u64 [%rd1+80], %rd9; mov.b64 %rd9, -1; st.shared.u64 [sm], %rd9; st.shared.u64 [sm+8], %rd9;
             mov.u32 %r9, ${size}; cp.async.ca.shared.global [%r1], [%rd1+64], ${bytes}, %r9; cp.async.wait_all;
             ld.shared.u64 %rd9, [sm]; st.global.u64 [%rd1], %rd9; ld.shared.u64 %rd9, [sm+8]; st.global.u64 [%rd1+8], %rd9;`,
          ).slice(0, 32),
      ])
    ),
  ),
  ...Object.fromEntries(
    Object.entries({
      "a load of a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; ld.shared::cluster.u32 %r7, [%r6]; st.global.u32 [%rd1], %r7;",
      "a store to a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; st.shared::cluster.u32 [%r6], %r4; st.global.u32 [%rd1], 1;",
      "an atomic operation on a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; atom.shared::cluster.add.u32 %r7, [%r6], 1; st.global.u32 [%rd1], %r7;",
      "an arrival at a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r2, 5; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; st.global.u32 [%rd1], 1;",
      "a generic load of a block that the cluster does not have":
        "mov.u64 %rd3, sm; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, 5; ld.u32 %r7, [%rd3]; st.global.u32 [%rd1], %r7;",
      "a misaligned load of another block":
        "mapa.shared::cluster.u32 %r6, %r1, 1; ld.shared::cluster.u32 %r7, [%r6+2]; st.global.u32 [%rd1], %r7;",
      "a load beyond the memory of another block":
        "mapa.shared::cluster.u32 %r6, %r1, 1; ld.shared::cluster.u32 %r7, [%r6+0x80000]; st.global.u32 [%rd1], %r7;",
      "a misaligned barrier": "mbarrier.arrive.shared.b64 _, [%r2+4]; st.global.u32 [%rd1], 1;",
      "a barrier that nobody has initialized":
        "st.shared.u64 [sm], 0; mbarrier.arrive.shared.b64 _, [sm]; st.global.u32 [%rd1], 1;",
      "a bulk reduction that is misaligned":
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%rd1+8], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
      "a tensor map at a multiple of 32":
        `add.u64 %rd3, %rd2, 32; ${boxToShared} [%r1], [%rd3, {%r5, %r5}], [bar]; ${waitFor}`,
    }).map(([name, body]) => [
      `fault: ${name}`,
      (gpu: CudaDevice) =>
        run(gpu, `${body} barrier.cluster.arrive; barrier.cluster.wait;`, { grid: 2, cluster: 2 }).slice(0, 16),
    ]),
  ),
  ...Object.fromEntries(
    ([
      ...["u32", "s32", "u64"].map((type) => ["add", type]),
      ...["u32", "s32", "u64", "s64", "f16", "bf16"].flatMap((type) => [["min", type], ["max", type]]),
      ...["b32", "b64"].flatMap((type) => [["and", type], ["or", type], ["xor", type]]),
      ...[["inc", "u32"], ["dec", "u32"], ["add.noftz", "f16"], ["add.noftz", "bf16"], ["add", "f32"], ["add", "f64"]],
    ] as const).map(([operation, type]) => [
      `bulk reduction ${operation}.${type}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${
            [...floats.subarray(0, 16)].map((bits, index) =>
              `mov.b32 %r9, ${bits}; st.shared.u32 [sm+${4 * index}], %r9; mov.b32 %r9, ${
                floats[(index * 5 + 3) % floats.length]
              };
               st.global.u32 [%rd1+${4 * index}], %r9;`
            ).join("\n")
          }
           fence.proxy.async;
           cp.reduce.async.bulk.global.shared::cta.bulk_group.${operation}.${type} [%rd1], [sm], 64;
           cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`,
        ).slice(0, 128),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({
      "a state of the phase before the last":
        "mbarrier.arrive.shared.b64 %rd3, [bar], 1; mbarrier.arrive.shared.b64 %rd4, [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "a state of the current phase":
        "mov.b64 %rd4, 0; mbarrier.arrive.shared.b64 _, [bar], 1; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %rd3, [bar], 1;",
    }).map(([name, body]) => [
      `phase: ${name}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${body} mbarrier.test_wait.shared.b64 %p1, [bar], %rd3; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;
           mbarrier.try_wait.shared.b64 %p1, [bar], %rd3, 100; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1+4], %r9;`,
        ).slice(0, 16),
    ]),
  ),
  ...Object.fromEntries(
    ["brkpt", "trap", "exit", "setp.ne.u32 %p1, %r5, 0; @%p1 brkpt"].map((instruction) => [
      `ending: ${instruction}`,
      (gpu: CudaDevice) => run(gpu, `st.global.u32 [%rd1], 7; ${instruction}; st.global.u32 [%rd1+4], 8;`),
    ]),
  ),
  ...Object.fromEntries(
    ["f16", "bf16"].flatMap((type) =>
      ["", ".relu", ".sat"].filter((modifier) => modifier !== ".sat").map((modifier) => [
        `fma.rn.oob${modifier}.${type}`,
        (gpu: CudaDevice) => outsideProducts(gpu, { type, modifier }),
      ])
    ),
  ),
};

/** What a case comes to: what it returns, or the code or the name of its error. */
export interface Outcome {
  readonly name: string;
  readonly outcome: string;
  /** The beginning of the error's message. */
  readonly message?: string;
  /** Whether the case has ended the use of the device. */
  readonly isLost?: true;
}

/** Runs a case. */
export function outcomeOf(gpu: CudaDevice, name: string): Outcome {
  try {
    return { name, outcome: cases[name]!(gpu) };
  } catch (error) {
    const { code, name: kind, message } = error as Error & { code?: string };
    const isLost = message.includes("context is lost");
    return { name, outcome: code ?? kind, message: message.slice(0, 400), ...isLost ? { isLost } : {} };
  }
}
