import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { runBody } from "../compiler_device.ts";

/** 32-bit NaNs: quiet and signalling, of both signs. */
const nans = [0x7fc0_0000, 0xffc0_0001, 0x7f80_0001, 0xff85_5555, 0x7fff_ffff];

function input(...words: number[]): DataView {
  const view = new DataView(new ArrayBuffer(words.length * 4));
  words.forEach((word, index) => view.setUint32(index * 4, word, true));
  return view;
}

function run(body: string, words: number[], count: number): string[] {
  const out = runBody(body, input(...words), count * 4);
  return Array.from({ length: count }, (_, index) => out.getUint32(index * 4, true).toString(16));
}

const canonical = "7fffffff";

test("a NaN from arithmetic is canonical wherever its bits are observed", () => {
  for (const nan of nans) {
    const seen = run(
      `
      .reg .f32 a, b, c, d;
      .reg .b32 bits;
      ld.global.f32 a, [%rd1];
      ld.global.f32 b, [%rd1+4];
      add.f32 c, a, b;
      st.global.f32 [%rd0], c;
      mov.b32 bits, c;
      st.global.b32 [%rd0+4], bits;
      mul.f32 d, c, c;
      mov.f32 d, c;
      neg.f32 d, d;
      st.global.b32 [%rd0+8], d;
      st.global.b32 [%rd0+12], bits;
      copysign.f32 d, b, c;
      st.global.f32 [%rd0+12], d;
      mov.b64 %rd2, {c, d};
      st.global.b64 [%rd0+16], %rd2;`,
      [nan, 0xbf80_0000],
      6,
    );
    assertEquals(seen, [canonical, canonical, canonical, "ffffffff", canonical, "ffffffff"]);
  }
});

test("a NaN that is loaded, moved and stored keeps its bits, even in a register that arithmetic uses", () => {
  for (const nan of nans) {
    const seen = run(
      `
      .reg .f32 a, b, c, d;
      .reg .pred taken;
      ld.global.f32 a, [%rd1];
      ld.global.f32 b, [%rd1+4];
      setp.eq.f32 taken, b, 0f3F800000;
      mov.f32 c, a;
      st.global.f32 [%rd0], c;
      add.f32 c, a, b;
      st.global.f32 [%rd0+4], c;
      selp.f32 d, a, c, taken;
      st.global.f32 [%rd0+8], d;
      selp.f32 d, c, a, taken;
      st.global.f32 [%rd0+12], d;
      mov.f32 d, 0f7FC12345;
      st.global.f32 [%rd0+16], d;
      add.f32 d, d, b;
      st.global.f32 [%rd0+20], d;`,
      [nan, 0x3f80_0000],
      6,
    );
    const bits = nan.toString(16);
    assertEquals(seen, [bits, canonical, bits, canonical, "7fc12345", canonical]);
  }
});

test("a NaN passes through loops and selections before it is canonicalized", () => {
  const seen = run(
    `
    .reg .f32 sum, other, x;
    .reg .b32 index;
    .reg .pred more, odd;
    ld.global.f32 x, [%rd1];
    mov.f32 sum, 0f00000000;
    mov.f32 other, 0f3F800000;
    mov.u32 index, 0;
  again:
    fma.rn.f32 sum, x, other, sum;
    setp.gt.f32 odd, sum, 0f00000000;
    selp.f32 other, sum, other, odd;
    add.u32 index, index, 1;
    setp.lt.u32 more, index, 5;
    @more bra again;
    max.f32 x, sum, other;
    st.global.f32 [%rd0], sum;
    st.global.f32 [%rd0+4], other;
    st.global.f32 [%rd0+8], x;
    set.nan.u32.f32 index, sum, other;
    st.global.u32 [%rd0+12], index;
    testp.notanumber.f32 odd, sum;
    selp.u32 index, 1, 0, odd;
    st.global.u32 [%rd0+16], index;`,
    [0xffc0_0001],
    5,
  );
  assertEquals(seen, [canonical, "3f800000", "3f800000", "ffffffff", "1"]);
});

test("a register declared as untyped bits follows the same rules for NaNs", () => {
  for (const nan of nans) {
    const seen = run(
      `
      .reg .b32 a, b, c, d, e;
      ld.global.b32 a, [%rd1];
      ld.global.b32 b, [%rd1+4];
      sub.f32 c, a, b;
      mul.f32 c, c, b;
      mov.b32 d, c;
      st.global.b32 [%rd0], c;
      st.global.b32 [%rd0+4], d;
      mov.b32 d, a;
      st.global.b32 [%rd0+8], d;
      add.u32 e, c, 0;
      st.global.b32 [%rd0+12], e;
      st.global.b32 [%rd0+16], a;`,
      [nan, 0x4000_0000],
      5,
    );
    assertEquals(seen, [canonical, canonical, nan.toString(16), canonical, nan.toString(16)]);
  }
});
