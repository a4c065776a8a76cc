/**
 * A product of large matrices in the style of CUTLASS on Hopper: a thread of one warpgroup copies tiles by tensor maps
 * into the stages of a pipeline, and another warpgroup multiplies them.
 *
 * @module
 */
import type { CudaDevice } from "../../../src/objects/cuda_device.ts";
import type { ProductType } from "./kernels.ts";

/** The number of stages of the pipeline. */
const stages = 3;
/** The number of bytes of a stage: 64 rows of 128 bytes of A, and as many of B. */
const stageBytes = 2 * 64 * 128;
/** The size of the kernel's dynamic shared memory. */
const sharedBytes: number = stages * stageBytes + 1024 + 16 * stages;

/** The instructions that multiply 32 bytes of each row. */
export const warpgroupTypes: Readonly<Record<ProductType, string>> = {
  f16: "m64n64k16.f32.f16.f16",
  bf16: "m64n64k16.f32.bf16.bf16",
  tf32: "m64n64k8.f32.tf32.tf32",
  e4m3: "m64n64k32.f32.e4m3.e4m3",
  s8: "m64n64k32.s32.s8.s8",
};

/** Matrices of rows that have whole tiles of 128 bytes. */
export interface LargeMatrices {
  readonly a: Uint8Array | Uint16Array | Uint32Array;
  readonly b: Uint8Array | Uint16Array | Uint32Array;
  /** The numbers of rows of A and of B, multiples of 64. */
  readonly m: number;
  readonly n: number;
}

/** Multiplies A by the transpose of B, and returns the elements of C as bits. */
export async function warpgroupMultiply(
  gpu: CudaDevice,
  type: ProductType,
  { a, b, m, n }: LargeMatrices,
): Promise<Uint32Array> {
  const rowBytes = a.byteLength / m;
  using pool = gpu.createPool();
  using module = gpu.loadModule(warpgroupMultiplyKernel(type));
  using left = pool.allocateArray(Uint8Array, { shape: [m, rowBytes] });
  using right = pool.allocateArray(Uint8Array, { shape: [n, rowBytes] });
  using out = pool.allocate(4 * m * n);
  for (const [array, { buffer, byteOffset, byteLength }] of [[left, a], [right, b]] as const) {
    array.copyFrom(new Uint8Array(buffer, byteOffset, byteLength));
  }
  const maps = [left, right].map((array) => gpu.createTensorMap(array, { box: [64, 128], swizzle: "128B" }));
  const grid = [n / 64, m / 64] as const;
  module.kernel("multiply").launch(
    { grid, block: 256, sharedMemoryBytes: sharedBytes },
    ...maps,
    out,
    n,
    rowBytes / 128,
  );
  return await out.read(Uint32Array);
}

/**
 * The PTX of the kernel `multiply(a, b, c, n, tiles)`: C = A * B'. The tensor maps of A and B have boxes of 64 rows of
 * 128 bytes, with a swizzle of 128 bytes; a row has `tiles` times 128 bytes. A block of 256 threads computes 64 x 64
 * elements of C, whose rows have `n` elements; the grid has a block for each of them, x along N.
 */
function warpgroupMultiplyKernel(type: ProductType): string {
  const result = type === "s8" ? "b32" : "f32";
  const accumulator = `{${Array.from({ length: 32 }, (_, index) => `%acc${index}`).join(", ")}}`;
  const signs = type === "s8" ? "" : ", 1, 1";
  const layouts = type === "f16" || type === "bf16" ? ", 0, 0" : "";
  const products = [0, 1, 2, 3].map((step) => `
  add.u64 %rd4, %rd2, ${2 * step};
  add.u64 %rd5, %rd3, ${2 * step};
  wgmma.mma_async.sync.aligned.${warpgroupTypes[type]} ${accumulator}, %rd4, %rd5, %p3${signs}${layouts};
  setp.eq.u32 %p3, 0, 0;`);
  const stores = Array.from({ length: 32 }, (_, index) => {
    const pair = index >> 1;
    const row = pair % 2 === 0 ? "%rd6" : "%rd7";
    return `st.global.${result} [${row}+${4 * (8 * (pair >> 1) + index % 2)}], %acc${index};`;
  });
  const copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
  return `.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry multiply(
  .param .align 128 .b8 a[128], .param .align 128 .b8 b[128], .param .u64 c, .param .u32 n, .param .u32 tiles
) .maxntid 256, 1, 1 {
  .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<6>; .reg .${result} %acc<32>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [tiles];
  mov.u32 %r2, memory;
  add.u32 %r2, %r2, 1023;
  and.b32 %r2, %r2, -1024;
  // The barriers of full stages, and of empty ones.
  add.u32 %r3, %r2, ${stages * stageBytes};
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra INITIALIZED;
${
    Array.from({ length: stages }, (_, stage) => `
  mbarrier.init.shared::cta.b64 [%r3+${8 * stage}], 1;
  mbarrier.init.shared::cta.b64 [%r3+${8 * (stages + stage)}], 1;`).join("")
  }
  fence.mbarrier_init.release.cluster;
INITIALIZED:
  bar.sync 0;
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
  mov.u32 %r20, %ctaid.x;
  mov.u32 %r21, %ctaid.y;
  shl.b32 %r20, %r20, 6;
  shl.b32 %r21, %r21, 6;
  setp.lt.u32 %p1, %r0, 128;
  @%p1 bra CONSUMER;
  setp.ne.u32 %p0, %r0, 128;
  @%p0 bra DONE;
  mov.b64 %rd8, a;
  mov.b64 %rd9, b;
  cvta.param.u64 %rd8, %rd8;
  cvta.param.u64 %rd9, %rd9;
  // %r4 is the tile, %r5 its stage, and %r6 the parity of the stage's phase.
PRODUCE:
  mad.lo.u32 %r7, %r5, 8, %r3;
  xor.b32 %r8, %r6, 1;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r7+${8 * stages}], %r8;
  @!%p0 bra EMPTY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], ${stageBytes};
  mad.lo.u32 %r9, %r5, ${stageBytes}, %r2;
  add.u32 %r10, %r9, ${stageBytes / 2};
  shl.b32 %r11, %r4, 7;
  ${copy} [%r9], [%rd8, {%r11, %r21}], [%r7];
  ${copy} [%r10], [%rd9, {%r11, %r20}], [%r7];
  add.u32 %r4, %r4, 1;
  add.u32 %r5, %r5, 1;
  setp.eq.u32 %p0, %r5, ${stages};
  @%p0 mov.u32 %r5, 0;
  @%p0 xor.b32 %r6, %r6, 1;
  setp.lt.u32 %p0, %r4, %r1;
  @%p0 bra PRODUCE;
  bra.uni DONE;
CONSUMER:
  setp.eq.u32 %p4, %r0, 0;
  // The first product does not add D.
  setp.ne.u32 %p3, 0, 0;
  // The barrier of the stage before, which is released when the next products have been issued.
  mov.u32 %r12, 0;
CONSUME:
  mad.lo.u32 %r7, %r5, 8, %r3;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r7], %r6;
  @!%p0 bra FULL;
  mad.lo.u32 %r9, %r5, ${stageBytes}, %r2;
  shr.u32 %r9, %r9, 4;
  cvt.u64.u32 %rd2, %r9;
  add.u64 %rd2, %rd2, 0x${(1n << 62n | 64n << 32n | 1n << 16n).toString(16)};
  add.u64 %rd3, %rd2, ${stageBytes / 2 / 16};
  wgmma.fence.sync.aligned;
${products.join("")}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;
  // One thread releases the stage for the warpgroup, as in CUTLASS.
  setp.ne.and.u32 %p2, %r12, 0, %p4;
  @%p2 mbarrier.arrive.shared::cta.b64 _, [%r12];
  add.u32 %r12, %r7, ${8 * stages};
  add.u32 %r4, %r4, 1;
  add.u32 %r5, %r5, 1;
  setp.eq.u32 %p0, %r5, ${stages};
  @%p0 mov.u32 %r5, 0;
  @%p0 xor.b32 %r6, %r6, 1;
  setp.lt.u32 %p0, %r4, %r1;
  @%p0 bra CONSUME;
  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %rd0, [c];
  ld.param.u32 %r13, [n];
  shr.u32 %r14, %r0, 5;
  shl.b32 %r14, %r14, 4;
  and.b32 %r15, %r0, 31;
  shr.u32 %r16, %r15, 2;
  and.b32 %r17, %r15, 3;
  add.u32 %r18, %r21, %r14;
  add.u32 %r18, %r18, %r16;
  mad.lo.u32 %r19, %r17, 2, %r20;
  mad.lo.u32 %r22, %r18, %r13, %r19;
  mul.wide.u32 %rd6, %r22, 4;
  add.u64 %rd6, %rd0, %rd6;
  mul.wide.u32 %rd7, %r13, 32;
  add.u64 %rd7, %rd6, %rd7;
  ${stores.join("\n  ")}
DONE:
  ret;
}
`;
}
