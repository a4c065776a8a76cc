import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../../src/ptx/syntax.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { faultKind } from "../../../src/software/abi/addresses.ts";
import { Fault, runBody, testModule } from "../compiler_device.ts";

const input = new DataView(new ArrayBuffer(32));
for (let index = 0; index < 32; index++) input.setUint8(index, index + 1);

/** The contents of 16 bytes of shared memory after a copy. They are all ones before. */
function copied(copy: string, inputBytes = input.byteLength): number[] {
  const out = runBody(
    `
    .shared .align 16 .b8 sm[16];
    mov.u64 %rd2, -1; mov.u32 %r1, sm; mov.u32 %r2, 5; setp.eq.u32 %p1, %r2, 5;
    st.shared.v2.u64 [sm], {%rd2, %rd2};
    ${copy}
    cp.async.commit_group;
    cp.async.wait_group 0;
    cp.async.wait_all;
    ld.shared.v2.u64 {%rd3, %rd4}, [sm];
    st.global.v2.u64 [%rd0], {%rd3, %rd4};
    `,
    new DataView(input.buffer, 0, inputBytes),
    16,
  );
  return Array.from({ length: 16 }, (_, index) => out.getUint8(index));
}

/** Bytes of the input, then zeros, then the previous contents. */
const bytes = (first: number, count: number, zeros = 0) =>
  Array.from({ length: 16 }, (_, index) => index < count ? first + index : index < count + zeros ? 0 : 255);

test("cp.async copies 4, 8 or 16 bytes", () => {
  assertEquals(copied("cp.async.ca.shared.global [%r1], [%rd1], 4;"), bytes(1, 4));
  assertEquals(copied("cp.async.ca.shared::cta.global.L2::128B [%r1], [%rd1+8], 8;"), bytes(9, 8));
  assertEquals(copied("cp.async.ca.shared.global.L2::64B [sm], [%rd1+16], 16;"), bytes(17, 16));
  assertEquals(copied("cp.async.cg.shared.global.L2::256B [%r1], [%rd1], 16;"), bytes(1, 16));
});

test("cp.async fills the rest with zeros", () => {
  for (const size of [0, 1, 5, 8, 15, 16]) {
    assertEquals(copied(`cp.async.cg.shared.global [%r1], [%rd1], 16, ${size};`), bytes(1, size, 16 - size));
  }
  assertEquals(copied("mov.u32 %r2, 8; cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;"), bytes(1, 4));
  assertEquals(copied("cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;"), bytes(1, 5, 3));
  assertEquals(copied("cp.async.ca.shared.global [%r1], [%rd1], 8, %p1;"), bytes(1, 0, 8));
  assertEquals(copied("cp.async.ca.shared.global [%r1], [%rd1], 8, !%p1;"), bytes(1, 8));
  // If nothing is copied, the source address is not checked.
  assertEquals(copied("cp.async.ca.shared.global [%r1], [%rd1+160000], 4, 0;"), bytes(1, 0, 4));
});

test("cp.async only checks the part of its source that it copies", () => {
  const from = (offset: number, size: number) =>
    copied(`cp.async.cg.shared.global [%r1], [%rd1+${offset}], 16, ${size};`, 20);
  assertEquals(from(16, 4), bytes(17, 4, 12));
  assertEquals(from(0, 16), bytes(1, 16));
  for (
    const [offset, size, kind] of [
      [16, 5, faultKind.illegalAddress],
      [16, 16, faultKind.illegalAddress],
      [32, 1, faultKind.illegalAddress],
      [4, 3, faultKind.misalignedAddress],
      [100, 3, faultKind.misalignedAddress],
      [100, 16, faultKind.misalignedAddress],
    ] as const
  ) {
    assertEquals((assertThrows(() => from(offset, size), Fault) as Fault).kind, kind, `${size} bytes from ${offset}`);
  }
});

test("cp.async has no source of more bytes than it copies", () => {
  for (const [bytes, size] of [[4, 5], [4, 9], [8, 9], [16, 18], [16, 24]]) {
    const error = assertThrows(
      () => copied(`mov.u32 %r2, ${size}; cp.async.ca.shared.global [%r1], [%rd1], ${bytes}, %r2;`),
      Fault,
    ) as Fault;
    assertEquals([error.kind, error.address], [faultKind.copySize, BigInt(size!)]);
  }
});

test("cp.async accepts the sizes of PTX only", () => {
  for (
    const [copy, message] of [
      ["cp.async.ca.shared.global [%r1], [%rd1], 2;", "it must copy 4, 8 or 16 bytes"],
      ["cp.async.cg.shared.global [%r1], [%rd1], 8;", "it must copy 16 bytes"],
      ["cp.async.ca.shared.global [%r1], [%rd1], %r2;", "it must copy 4, 8 or 16 bytes"],
      ["cp.async.wait_group %r1;", "must be a literal"],
    ] as const
  ) {
    assertThrows(() => compilePtx(testModule(copy)), PtxError, message);
  }
});
