/**
 * What a device makes of products with elements outside of a tensor.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import type { Cases } from "./kernel_body.ts";

/** Special 16-bit floats, with several NaNs. */
const halves = [
  ...[0x7ff7, 0xfff7, 0x7ff6, 0x7ff8, 0x7fff, 0xffff, 0x7e00, 0x7c01, 0x7c00, 0xfc00, 0x7f80, 0xff80, 0x7f81, 0x7fc0],
  ...[0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00, 0x4000, 0x3f80, 0xbf80, 0x7bff, 0x7f7f, 0x1234],
];

/** Returns the results of an instruction with triples of special floats. */
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

/** `fma.oob` of special floats. */
export const productCases: Cases = {
  ...Object.fromEntries(
    ["f16", "bf16"].flatMap((type) =>
      ["", ".relu"].map((modifier) => [
        `fma.rn.oob${modifier}.${type}`,
        (gpu: CudaDevice) => outsideProducts(gpu, { type, modifier }),
      ])
    ),
  ),
};
