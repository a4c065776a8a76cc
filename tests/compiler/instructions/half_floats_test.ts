import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { kernelSignatures } from "../../../src/ptx/kernel_signature.ts";
import { allocate, loadKernel, runBody } from "../compiler_device.ts";

/** A kernel that takes a half in one of the ways to declare it, and writes it in 32 and in 16 bits. */
function kernelTaking(declaration: string): string {
  return `.version 7.0
.target sm_60
.address_size 64
.visible .entry test(.param .u64 out, ${declaration}, .param .u32 last) {
  .reg .b64 %rd<2>; .reg .b16 %h<4>; .reg .f32 %f<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [out];
  ld.param.b16 %h1, [half];
  ld.param.u32 %r1, [last];
  cvt.f32.f16 %f1, %h1;
  st.global.f32 [%rd0], %f1;
  add.rn.f32 %f2, %f1, 0f3F800000;
  cvt.rn.f16.f32 %h2, %f2;
  st.global.b16 [%rd0+4], %h2;
  st.global.u32 [%rd0+8], %r1;
  ret;
}`;
}

test("a half can be a kernel parameter, as a struct or as a number", () => {
  for (
    const [declaration, type] of [
      [".param .align 2 .b8 half[2]", { byteLength: 2, alignment: 2 }],
      [".param .b16 half", "b16"],
      [".param .u16 half", "u16"],
      [".param .f16 half", "f16"],
    ] as const
  ) {
    const ptx = kernelTaking(declaration);
    assertEquals(kernelSignatures(ptx)[0]!.parameters[1], { type, offset: 8, byteLength: 2, alignment: 2 });
    const out = allocate(12);
    loadKernel(ptx, "test")({
      parameters: [{ type: "u64", value: out.address }, { type: "u16", value: 0xc100 }, { type: "u32", value: 7 }],
    });
    assertEquals(
      [out.view.getFloat32(0, true), out.view.getUint16(4, true), out.view.getUint32(8, true)],
      [-2.5, 0xbe00, 7],
      declaration,
    );
  }
});

test("halves keep their bits when they are loaded, moved, packed and stored", () => {
  const input = new DataView(new ArrayBuffer(8));
  [0x3c00, 0x7d01, 0xc000, 0x03ff].forEach((bits, index) => input.setUint16(2 * index, bits, true));
  const out = runBody(
    `
  .reg .f16 low, high;
  .reg .f16x2 pair;
  ld.global.b16 low, [%rd1];
  ld.global.u16 %h1, [%rd1+2];
  mov.b16 high, %h1;
  mov.b32 pair, {low, high};
  st.global.b32 [%rd0], pair;
  ld.global.v2.b16 {%h2, %h3}, [%rd1+4];
  mov.b16 %h4, %h3;
  st.global.v2.b16 [%rd0+4], {%h4, %h2};
  ld.global.b32 %r1, [%rd1+4];
  mov.b32 {low, high}, %r1;
  cvt.f32.f16 %f1, low;
  st.global.f32 [%rd0+8], %f1;
  cvt.f64.f16 %fd1, high;
  st.global.f64 [%rd0+16], %fd1;`,
    input,
    24,
  );
  assertEquals([0, 2, 4, 6].map((offset) => out.getUint16(offset, true)), [0x3c00, 0x7d01, 0x03ff, 0xc000]);
  assertEquals(out.getFloat32(8, true), -2);
  assertEquals(out.getFloat64(16, true), 1023 * 2 ** -24);
});

test("a comparison of pairs with one result is that of the first elements, as ptxas compiles it", () => {
  // 1 and 4 are compared with 2 and 3: the first is less, the second is not.
  for (const [type, less, more] of [["f16x2", 0x4400_3c00, 0x4200_4000], ["bf16x2", 0x4080_3f80, 0x4040_4000]]) {
    const out = runBody(
      `
  mov.b32 %r1, ${less};
  mov.b32 %r2, ${more};
  setp.lt.${type} %p1, %r1, %r2;
  selp.u32 %r3, 1, 2, %p1;
  setp.gt.${type} %p1, %r1, %r2;
  selp.u32 %r4, 1, 2, %p1;
  setp.ne.u32 %p2, %r1, %r1;
  setp.lt.and.${type} %p1, %r1, %r2, %p2;
  selp.u32 %r5, 1, 2, %p1;
  st.global.u32 [%rd0], %r3;
  st.global.u32 [%rd0+4], %r4;
  st.global.u32 [%rd0+8], %r5;`,
      undefined,
      12,
    );
    assertEquals([0, 4, 8].map((offset) => out.getUint32(offset, true)), [1, 2, 2], String(type));
  }
});
