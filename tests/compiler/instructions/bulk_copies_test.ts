import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../../src/software/abi/addresses.ts";
import { Fault, refusalOf, runBody, testModule } from "../compiler_device.ts";
import { runThreads, upTo } from "../threads.ts";

const input = new DataView(new ArrayBuffer(256));
for (let index = 0; index < 256; index++) input.setUint8(index, index + 1);
const inputBytes = Array.from({ length: 256 }, (_, index) => input.getUint8(index));

/** Declares a barrier for one arrival and an array of bytes 0xee, to which `%r1` points. */
const begin = `
  .shared .align 8 .b64 bar;
  .shared .align 128 .b8 sm[256];
  mov.u32 %r1, sm; mov.u32 %r2, bar; mov.u32 %r3, 0; mov.u32 %r4, 0xeeeeeeee;
FILL:
  add.u32 %r5, %r1, %r3; st.shared.u32 [%r5], %r4; add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, 256;
  @%p1 bra FILL;
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async;
`;
/** Waits for the first phase of the barrier. */
const wait = `
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;
`;
/** Stores the array to the output. */
const finish = `
  mov.u32 %r3, 0;
STORE:
  add.u32 %r5, %r1, %r3; ld.shared.u32 %r4, [%r5]; cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd0, %rd5;
  st.global.u32 [%rd5], %r4; add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, 256;
  @%p1 bra STORE;
`;

/** Returns the contents of the array after a copy, which completes as many bytes as the barrier expects. */
function copied(copy: string, expected: number): number[] {
  const body = `${begin} mbarrier.arrive.expect_tx.shared.b64 _, [bar], ${expected}; ${copy} ${wait} ${finish}`;
  const out = runBody(body, input, 256);
  return Array.from({ length: 256 }, (_, index) => out.getUint8(index));
}

/** The bytes of an array of which some are replaced. */
function withBytes(at: number, bytes: readonly number[]): number[] {
  const array = new Array<number>(256).fill(0xee);
  array.splice(at, bytes.length, ...bytes);
  return array;
}

const toShared = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";

test("cp.async.bulk copies from global to shared memory, and completes its bytes at the barrier", () => {
  assertEquals(copied(`${toShared} [sm], [%rd1], 256, [bar];`, 256), inputBytes);
  assertEquals(
    copied(`mov.u32 %r6, 48; ${toShared} [%r1+32], [%rd1+16], %r6, [%r2];`, 48),
    withBytes(32, inputBytes.slice(16, 64)),
  );
  assertEquals(
    copied(
      `cvt.u64.u32 %rd3, %r1; createpolicy.fractional.L2::evict_first.b64 %rd4;
       ${toShared.replace("::cluster", "::cta")}.L2::cache_hint [%rd3], [%rd1], 16, [bar], %rd4;`,
      16,
    ),
    withBytes(0, inputBytes.slice(0, 16)),
  );
  assertEquals(copied(`${toShared} [sm], [%rd1], 0, [bar];`, 0), withBytes(0, []));
});

test("a barrier waits for the bytes of every bulk copy", () => {
  const body = `${begin}
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [bar], 96;
  ${toShared} [sm], [%rd1], 32, [bar];
  mbarrier.test_wait.shared.b64 %p3, [bar], %rd3; selp.u32 %r7, 1, 0, %p3;
  ${toShared} [sm+64], [%rd1+64], 64, [bar];
  ${wait}
  st.shared.u32 [sm+252], %r7;
  ${finish}`;
  const expected = withBytes(0, inputBytes.slice(0, 32));
  expected.splice(64, 64, ...inputBytes.slice(64, 128));
  expected.splice(252, 4, 0, 0, 0, 0);
  const out = runBody(body, input, 256);
  assertEquals(Array.from({ length: 256 }, (_, index) => out.getUint8(index)), expected);
});

test("cp.async.bulk copies from shared to global memory, and within shared memory", () => {
  const store = (instructions: string): number[] => {
    const out = runBody(
      `${begin} mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; ${toShared} [sm], [%rd1], 256, [bar]; ${wait}
       ${instructions}`,
      input,
      256,
    );
    return Array.from({ length: 256 }, (_, index) => out.getUint8(index));
  };
  const bytes = new Array<number>(256).fill(0);
  bytes.splice(16, 32, ...inputBytes.slice(128, 160));
  assertEquals(
    store(`
      cp.async.bulk.global.shared::cta.bulk_group [%rd0+16], [sm+128], 32;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 1;`),
    bytes,
  );
  bytes.splice(16, 32, ...inputBytes.slice(224, 240), ...inputBytes.slice(224, 240));
  assertEquals(
    store(`
      mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
      cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1+240], [%r1+224], 16, [%r2];
    AGAIN:
      mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
      @!%p2 bra AGAIN;
      fence.proxy.async.shared::cta; createpolicy.fractional.L2::evict_first.b64 %rd4; cvt.u64.u32 %rd5, %r1;
      cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd0+16], [%rd5+240], 16, %rd4;
      cp.async.bulk.global.shared::cta.bulk_group [%rd0+32], [%rd5+224], 16;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`),
    bytes,
  );
});

/** Words that reductions of 32 and 64 bits and of 16-bit floats treat in different ways. */
const words = [
  ...[
    0,
    1,
    2,
    7,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0x0040_0000,
  ],
  ...[0x3c00_7c00, 0xfc00_0001, 0x7e00_8000, 0x0001_0001, 0x4248_c000, 0x7bff_7bff, 0x8001_8001, 0x7f7f_ffff],
];
const old = Uint32Array.from({ length: 64 }, (_, index) => words[index % words.length]!);
const added = Uint32Array.from({ length: 64 }, (_, index) => words[index * 7 % words.length]!);

/** Returns the words of the output, which are `old` before, after a body that reduces `added` into them. */
function reduced(reduce: string): number[] {
  const data = new DataView(new ArrayBuffer(512));
  old.forEach((word, index) => data.setUint32(4 * index, word, true));
  added.forEach((word, index) => data.setUint32(256 + 4 * index, word, true));
  const out = runBody(
    `${begin}
    .shared .align 16 .b8 other[256];
    mov.u32 %r6, other;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
    ${toShared} [sm], [%rd1+256], 256, [bar]; ${toShared} [other], [%rd1], 256, [bar];
    ${wait}
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [other], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    ${reduce}`,
    data,
    256,
  );
  return Array.from({ length: 64 }, (_, index) => out.getUint32(4 * index, true));
}

/** Reduces by an instruction for each element. */
function byElements(instruction: string, bits: number): string {
  const load = bits === 16
    ? "ld.shared.b16 %h1, [%r5]"
    : bits === 32
    ? "ld.shared.b32 %r7, [%r5]"
    : "ld.shared.b64 %rd6, [%r5]";
  const source = bits === 16 ? "%h1" : bits === 32 ? "%r7" : "%rd6";
  // Unlike bulk reductions, `red` makes zeros of subnormal numbers in global memory.
  const typed = instruction.endsWith("f32")
    ? "mov.b32 %f1, %r7; ld.global.f32 %f2, [%rd5]; add.f32 %f2, %f2, %f1; st.global.f32 [%rd5], %f2;"
    : instruction.endsWith("f64")
    ? `mov.b64 %fd1, %rd6; ${instruction} [%rd5], %fd1;`
    : `${instruction} [%rd5], ${source};`;
  return `
    mov.u32 %r3, 0;
  EACH:
    add.u32 %r5, %r1, %r3; ${load}; cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd0, %rd5;
    ${typed} add.u32 %r3, %r3, ${bits / 8}; setp.lt.u32 %p1, %r3, 256;
    @%p1 bra EACH;`;
}

test("cp.reduce.async.bulk reduces into global memory as red does", () => {
  for (
    const [operation, bits] of [
      ...["add.u32", "add.s32", "add.f32", "min.u32", "min.s32", "max.u32", "max.s32", "inc.u32", "dec.u32", "and.b32"]
        .map((operation) => [operation, 32] as const),
      ...["add.u64", "add.f64", "min.u64", "min.s64", "max.u64", "max.s64", "and.b64", "or.b64", "xor.b64"]
        .map((operation) => [operation, 64] as const),
    ]
  ) {
    assertEquals(
      reduced(`
        cp.reduce.async.bulk.global.shared::cta.bulk_group.${operation} [%rd0], [%r1], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`),
      reduced(byElements(`red.global.${operation}`, bits)),
      operation,
    );
  }
  // Minima and maxima of 16-bit floats have no `red` of one element.
  for (const type of ["f16", "bf16"]) {
    assertEquals(
      reduced(`
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.${type} [%rd0], [%r1], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`),
      reduced(byElements(`red.global.add.noftz.${type}`, 16)),
      type,
    );
  }
});

test("cp.reduce.async.bulk reduces into shared memory, and completes its bytes at the barrier", () => {
  for (const operation of ["add.u32", "add.s32", "add.u64", "min.s32", "max.u32", "inc.u32", "dec.u32", "xor.b32"]) {
    const bits = operation.endsWith("64") ? 64 : 32;
    assertEquals(
      reduced(`
        mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
        cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.${operation}
          [%r6], [%r1], 256, [bar];
      AGAIN:
        mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
        @!%p2 bra AGAIN;
        fence.proxy.async.shared::cta;
        cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r6], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`),
      reduced(byElements(`red.global.${operation}`, bits)),
      operation,
    );
  }
});

test("st.async and red.async complete the bytes of their elements at the barrier", () => {
  const complete = "mbarrier::complete_tx::bytes";
  assertEquals(
    copied(
      `mov.u32 %r6, 0x04030201; mov.u64 %rd3, 0x0c0b0a0908070605; mov.b32 %f1, 0x3f800000;
       st.async.weak.shared::cluster.${complete}.b32 [%r1], %r6, [%r2];
       st.async.shared::cluster.${complete}.v2.s64 [%r1+16], {%rd3, %rd3}, [bar];
       cvt.u64.u32 %rd6, %r1; cvta.shared.u64 %rd6, %rd6; cvt.u64.u32 %rd7, %r2; cvta.shared.u64 %rd7, %rd7;
       st.async.${complete}.v4.f32 [%rd6+32], {%f1, %f1, %f1, %f1}, [%rd7];`,
      36,
    ),
    withBytes(0, [
      ...[1, 2, 3, 4],
      ...new Array<number>(12).fill(0xee),
      ...[5, 6, 7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 10, 11, 12],
      ...[0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 128, 63],
    ]),
  );
  assertEquals(
    copied(
      `mov.u32 %r6, 0x11111111; mov.u64 %rd3, 1; mov.u32 %r7, 0;
       red.async.relaxed.cluster.shared::cluster.${complete}.add.u32 [%r1], %r6, [%r2];
       red.async.relaxed.cluster.shared::cluster.${complete}.add.u64 [%r1+8], %rd3, [%r2];
       red.async.relaxed.cluster.shared::cluster.${complete}.and.b32 [sm+16], %r7, [bar];
       red.async.relaxed.cluster.shared::cluster.${complete}.max.s32 [sm+20], %r6, [bar];
       red.async.relaxed.cluster.shared::cluster.${complete}.inc.u32 [sm+24], %r6, [bar];`,
      24,
    ),
    withBytes(0, [
      ...[255, 255, 255, 255, 0xee, 0xee, 0xee, 0xee, 0xef],
      ...new Array<number>(7).fill(0xee),
      ...[0, 0, 0, 0, 0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0],
    ]),
  );
});

test("each lane copies 4 bytes of a tensor map by tensormap.cp_fenceproxy", () => {
  const copy = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned";
  const stored = (lanes: number, source: string) =>
    runThreads(
      `.shared .align 128 .b32 sm[64]; mov.u32 %r1, sm; shl.b32 %r2, %r0, 2; add.u32 %r2, %r1, %r2;
       add.u32 %r3, %r0, 1; st.shared.u32 [%r2], %r3; add.u32 %r3, %r3, 32; st.shared.u32 [%r2+128], %r3;
       ${copy} [%rd0], ${source}, 128;`,
      { block: [lanes, 1, 1], words: 2 },
    );
  for (const lanes of [32, 5, 1]) {
    const numbers = upTo(lanes, (index) => index + 1);
    const rest = new Array<number>(lanes).fill(0);
    assertEquals(stored(lanes, "[sm]"), [...numbers, ...rest]);
    assertEquals(stored(lanes, "[%r1+128]"), [...numbers.map((number) => number + 32), ...rest]);
  }
});

test("a fault of a bulk copy says which 16 bytes are not accessible", () => {
  for (
    const [copy, kind, address] of [
      ["[sm], [%rd1+224], 64, [bar]", faultKind.illegalAddress, 256n],
      ["[sm], [%rd1+256], 64, [bar]", faultKind.illegalAddress, 256n],
      ["[sm], [%rd1+8], 64, [bar]", faultKind.misalignedAddress, 8n],
    ] as const
  ) {
    const error = assertThrows(() => copied(`${toShared} ${copy};`, 64), Fault);
    assertEquals([error.kind, error.address & 0x1ffn], [kind, address & 0x1ffn], copy);
  }
  for (
    const [copy, kind, address] of [
      ["[sm+192], [%rd1], 96, [bar]", faultKind.illegalAddress, 256n + 128n],
      ["[sm+4], [%rd1], 16, [bar]", faultKind.misalignedAddress, 132n],
      ["[sm], [%rd1], %r6, [bar]", faultKind.bulkSize, 24n],
      ["[sm+0x1000000], [%rd1], 16, [bar]", faultKind.outsideSharedSpan, 0x100_0080n],
      ["[sm], [%rd1], 16, [bar+4]", faultKind.misalignedAddress, 4n],
    ] as const
  ) {
    const error = assertThrows(() => copied(`mov.u32 %r6, 24; ${toShared} ${copy};`, 16), Fault);
    assertEquals([error.kind, error.address], [kind, address], copy);
  }
});

test("what is wrong with a bulk copy is said", () => {
  for (
    const [operands, reason] of [
      ["[%r1], [%rd1], 8, [%r2]", "its size must be a multiple of 16 from 0 to 1048560"],
      ["[%r1], [%rd1], 1048576, [%r2]", "its size must be a multiple of 16 from 0 to 1048560"],
      ["[out], [%rd1], 16, [%r2]", '"out" is in ".param"'],
      ["[%r1], [%rd1], 16", "operands"],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(`${toShared} ${operands};`)).error.message, reason);
});
