import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../../src/software/abi/addresses.ts";
import { Fault, refusalOf, runBody, testModule } from "../compiler_device.ts";

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
    ] as const
  ) assertStringIncludes(refusalOf(testModule(`${toShared} ${operands};`)).error.message, reason);
});
