import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { addressBase, faultKind } from "../../src/software/abi/addresses.ts";
import { allocate, Fault, firstBodyLine, loadKernel, runBody, testModule } from "./compiler_device.ts";

test("fill writes exactly the bytes of its range", () => {
  const fill = loadKernel(fillPtx, "fill");
  for (const length of [0, 1, 2, 3, 4, 5, 511, 512, 513, 4095, 100_003]) {
    for (const [grid, block] of [[1, 1], [3, 32], [40, 256]] as const) {
      const out = allocate(length + 8);
      out.bytes.fill(0xee);
      fill({
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: length }, {
          type: "u32",
          value: 0x44332211,
        }],
      });
      const expected = new Uint8Array(length + 8).fill(0xee);
      for (let index = 0; index < length; index++) expected[index] = 0x11 * (index % 4 + 1);
      assert(
        out.bytes.every((byte, index) => byte === expected[index]),
        `${length} bytes by ${grid} blocks of ${block}`,
      );
    }
  }
});

test("saxpy rounds twice", () => {
  const saxpy = loadKernel(saxpyPtx, "saxpy");
  for (const length of [0, 1, 127, 1000, 4099]) {
    const [x, y] = [allocate(length * 4), allocate(length * 4)];
    const expected: number[] = [];
    for (let index = 0; index < length; index++) {
      const [xi, yi] = [Math.fround(Math.sin(index)), Math.fround(Math.cos(index) * 1000)];
      x.view.setFloat32(index * 4, xi, true);
      y.view.setFloat32(index * 4, yi, true);
      expected.push(Math.fround(Math.fround(Math.fround(2.7) * xi) + yi));
    }
    saxpy({
      grid: [3, 1, 1],
      block: [64, 1, 1],
      parameters: [
        { type: "u32", value: length },
        { type: "f32", value: 2.7 },
        { type: "u64", value: x.address },
        { type: "u64", value: y.address },
      ],
    });
    assertEquals(Array.from({ length }, (_, index) => y.view.getFloat32(index * 4, true)), expected);
  }
});

/** Performs an access at an address, and returns its fault. */
function faultOf(instruction: string, address: bigint): Fault | undefined {
  const kernel = loadKernel(testModule(instruction), "test");
  try {
    kernel({ parameters: [{ type: "u64", value: address }] });
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

const accesses: readonly [instruction: string, bytes: number][] = ["global.", ""].flatMap((space) => [
  [`ld.${space}u8 %h1, [%rd0];`, 1],
  [`st.${space}b16 [%rd0], 7;`, 2],
  [`ld.${space}f32 %f1, [%rd0];`, 4],
  [`st.${space}f64 [%rd0], 0d3FF0000000000000;`, 8],
  [`ld.${space}v2.u64 {%rd5, %rd6}, [%rd0];`, 16],
  [`st.${space}v4.b32 [%rd0], {1, 2, 3, 4};`, 16],
  [`atom.${space}add.u32 %r1, [%rd0], 1;`, 4],
]);

test("an access is legal up to the last byte of an allocation", () => {
  for (const byteLength of [16, 24, 512, 1040]) {
    const { address } = allocate(byteLength);
    for (const [instruction, bytes] of accesses) {
      const last = BigInt(byteLength - byteLength % bytes - bytes);
      assertEquals(faultOf(instruction, address + last), undefined, instruction);
      for (const beyond of [last + BigInt(bytes), last + 4096n]) {
        const fault = faultOf(instruction, address + beyond);
        assertEquals(fault?.kind, faultKind.illegalAddress, `${instruction} at ${beyond} of ${byteLength}`);
        assertEquals(fault?.address, address + beyond);
        assertEquals(fault?.line, firstBodyLine);
      }
    }
  }
});

test("an address with a wrong high half is illegal, whatever its low half", () => {
  const { address } = allocate(64);
  for (const [instruction] of accesses) {
    for (const bit of [32n, 33n, 40n, 47n, 62n, 63n]) {
      // The adjacent addresses are generic addresses of shared memory, but not valid ones.
      const isShared = bit === 32n && !instruction.includes("global");
      const kind = isShared ? faultKind.outsideSharedSpan : faultKind.illegalAddress;
      assertEquals(faultOf(instruction, address ^ 1n << bit)?.kind, kind, `${instruction} ${bit}`);
    }
    for (const other of [0n, address - addressBase, addressBase + 0xffff_fff0n]) {
      assertEquals(faultOf(instruction, other)?.kind, faultKind.illegalAddress, `${instruction} ${other}`);
    }
  }
});

test("a misaligned access faults as misaligned, whether memory is there or not", () => {
  const { address } = allocate(64);
  for (const [instruction, bytes] of accesses) {
    for (let offset = 1; offset < bytes; offset *= 2) {
      // In an allocation, at its end, where none is, near 0 as offsets from a null pointer are, and where no memory is.
      for (const base of [0n, 64n - BigInt(bytes), 64n, 4096n, -address, 2n ** 50n]) {
        const fault = faultOf(instruction, address + base + BigInt(offset));
        assertEquals(fault?.kind, faultKind.misalignedAddress, `${instruction} ${base}`);
      }
    }
  }
});

test("nothing is written after a fault", () => {
  const out = allocate(24);
  out.bytes.fill(0xaa);
  assertEquals(faultOf("st.global.v4.u32 [%rd0], {1, 2, 3, 4};", out.address + 16n)?.kind, faultKind.illegalAddress);
  assert(out.bytes.every((byte) => byte === 0xaa));
});

test("trap and brkpt fault with their line, where they are reached", () => {
  for (const [instruction, kind] of [["trap", faultKind.trap], ["brkpt", faultKind.breakpoint]] as const) {
    const error = assertThrows(() => runBody(`\n  ${instruction};`, undefined, 4), Fault) as Fault;
    assertEquals([error.kind, error.line], [kind, firstBodyLine + 1]);
    const beside = `setp.ne.u32 %p1, 0, 0; @%p1 ${instruction}; st.global.u32 [%rd0], 7;`;
    assertEquals(runBody(beside, undefined, 4).getUint32(0, true), 7);
  }
});

test("loads extend by their type, stores truncate", () => {
  const input = new DataView(new ArrayBuffer(8));
  input.setBigUint64(0, 0x8182_8384_8586_8788n, true);
  const out = runBody(
    `
  ld.global.s8 %h1, [%rd1];
  st.global.u16 [%rd0], %h1;
  ld.global.u8 %r1, [%rd1];
  st.global.u32 [%rd0+4], %r1;
  ld.global.s16 %r2, [%rd1];
  st.global.u32 [%rd0+8], %r2;
  ld.global.s32 %rd5, [%rd1+4];
  st.global.u64 [%rd0+16], %rd5;
  ld.global.u16 %rd6, [%rd1+2];
  st.global.u64 [%rd0+24], %rd6;
  ld.global.b64 %rd7, [%rd1];
  st.global.b8 [%rd0+32], %rd7;
  st.global.v2.u16 [%rd0+36], {%rd7, %h1};`,
    input,
    40,
  );
  assertEquals(out.getUint16(0, true), 0xff88);
  assertEquals(out.getUint32(4, true), 0x88);
  assertEquals(out.getUint32(8, true), 0xffff_8788);
  assertEquals(out.getBigUint64(16, true), 0xffff_ffff_8182_8384n);
  assertEquals(out.getBigUint64(24, true), 0x8586n);
  assertEquals([out.getUint8(32), out.getUint8(33)], [0x88, 0]);
  assertEquals([out.getUint16(36, true), out.getUint16(38, true)], [0x8788, 0xff88]);
});

test("mov unpacks and packs numbers", () => {
  const input = new DataView(new ArrayBuffer(8));
  input.setBigUint64(0, 0x8182_8384_8586_8788n, true);
  const out = runBody(
    `
  ld.global.u64 %rd5, [%rd1];
  mov.b64 {%r1, %r2}, %rd5;
  mov.b64 %rd6, {%r2, %r1};
  st.global.u64 [%rd0], %rd6;
  mov.b64 {%h1, %h2, _, %h4}, %rd5;
  mov.b32 %r3, {%h4, %h1};
  st.global.u32 [%rd0+8], %r3;
  mov.b32 %f1, %r1;
  mov.b32 %r4, %f1;
  st.global.u32 [%rd0+12], %r4;
  mov.b64 %fd1, %rd5;
  st.global.f64 [%rd0+16], %fd1;`,
    input,
    24,
  );
  assertEquals(out.getBigUint64(0, true), 0x8586_8788_8182_8384n);
  assertEquals(out.getUint32(8, true), 0x8788_8182);
  assertEquals(out.getUint32(12, true), 0x8586_8788);
  assertEquals(out.getBigUint64(16, true), 0x8182_8384_8586_8788n);
});

test("the bits of a NaN survive loads, moves and stores", () => {
  const input = new DataView(new ArrayBuffer(16));
  input.setUint32(0, 0x7f80_0001, true);
  input.setBigUint64(8, 0xfff0_0000_0000_0001n, true);
  const out = runBody(
    `
  ld.global.f32 %f1, [%rd1];
  mov.f32 %f2, %f1;
  selp.f32 %f3, %f2, %f1, %p0;
  st.global.f32 [%rd0], %f3;
  ld.global.f64 %fd1, [%rd1+8];
  mov.f64 %fd2, %fd1;
  st.global.f64 [%rd0+8], %fd2;`,
    input,
    16,
  );
  assertEquals(out.getUint32(0, true), 0x7f80_0001);
  assertEquals(out.getBigUint64(8, true), 0xfff0_0000_0000_0001n);
});

const spaces = `
  .shared .align 8 .b8 tile[32];
  .local .align 8 .b8 depot[24];
  .reg .b64 %s<4>;
  mov.u64 %s0, depot;
  cvta.local.u64 %s1, %s0;
  cvta.shared.u64 %s2, tile;`;

test("local and shared memory have addresses of their own and generic ones", () => {
  const out = runBody(
    `${spaces}
  st.local.u32 [depot+20], 5;
  ld.u32 %r1, [%s1+20];
  st.global.u32 [%rd0], %r1;
  st.u16 [%s2+6], 77;
  ld.shared.u16 %r2, [tile+6];
  st.global.u32 [%rd0+4], %r2;
  mov.u32 %r4, tile;
  ld.shared.u16 %r5, [%r4+6];
  st.global.u32 [%rd0+8], %r5;
  cvta.to.local.u64 %s3, %s1;
  ld.local.u32 %r3, [%s3+20];
  st.global.u32 [%rd0+12], %r3;
  isspacep.local %p1, %s1;
  isspacep.shared %p2, %s1;
  isspacep.global %p3, %rd0;
  selp.u32 %r6, 1, 0, %p1;
  selp.u32 %r7, 2, 0, %p2;
  selp.u32 %r8, 4, 0, %p3;
  or.b32 %r6, %r6, %r7;
  or.b32 %r6, %r6, %r8;
  st.global.u32 [%rd0+16], %r6;`,
    undefined,
    20,
  );
  assertEquals([0, 4, 8, 12, 16].map((offset) => out.getUint32(offset, true)), [5, 77, 77, 5, 5]);
});

test("local and shared memory end where their variables do", () => {
  const illegal = ["st.local.u32 [depot+24], 1;", "st.local.u8 [%s0+24], 1;", "ld.u8 %r1, [%s1+24];"];
  illegal.push(
    "st.shared.u64 [tile+32], 1;",
    "ld.u32 %r1, [%s2+32];",
    "ld.shared.u8 %r1, [tile+-1];",
    "ld.u8 %r1, [%s2+-1];",
  );
  const misaligned = ["st.local.u32 [depot+2], 1;", "ld.u32 %r1, [%s1+2];", "st.shared.u64 [tile+4], 1;"];
  for (const instruction of illegal) {
    assertEquals(faultOf(`${spaces}\n${instruction}`, 0n)?.kind, faultKind.illegalAddress, instruction);
  }
  for (const instruction of misaligned) {
    assertEquals(faultOf(`${spaces}\n${instruction}`, 0n)?.kind, faultKind.misalignedAddress, instruction);
  }
});

test("addresses beyond any shared memory have their own error", () => {
  const span = 2n ** 24n;
  for (const space of ["tile", "%s2"]) {
    const access = (offset: bigint) =>
      faultOf(`${spaces}\n${space === "tile" ? "st.shared.u32" : "st.u32"} [${space}+${offset}], 1;`, 0n)?.kind;
    assertEquals(access(4096n), faultKind.illegalAddress);
    assertEquals(access(4098n), faultKind.misalignedAddress);
    assertEquals(access(span - 2048n), faultKind.illegalAddress);
    for (const offset of [span - 4n, span, span + 2n, 2n ** 30n]) {
      assertEquals(access(offset), faultKind.outsideSharedSpan, `${space} ${offset}`);
    }
  }
});

test("parameters are read whole, in parts, and through their address", () => {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.entry test(.param .u64 out, .param .align 8 .b8 s[16]) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;
  ld.param.u64 %rd0, [out];
  ld.param.v2.u32 {%r0, %r1}, [s];
  ld.param.u8 %r2, [s+1];
  st.global.v2.u32 [%rd0], {%r1, %r0};
  st.global.u32 [%rd0+8], %r2;
  mov.b64 %rd1, s;
  ld.param.u32 %r3, [%rd1+4];
  st.global.u32 [%rd0+12], %r3;
  ret;
}`;
  const out = allocate(16);
  const kernel = loadKernel(ptx, "test");
  kernel({ parameters: [{ type: "u64", value: out.address }, { type: "u64", value: 0x1111_2222_3333_4455n }] });
  assertEquals(
    [0, 4, 8, 12].map((offset) => out.view.getUint32(offset, true)),
    [0x1111_2222, 0x3333_4455, 0x44, 0x1111_2222],
  );
});

const atomics: readonly [operation: string, initial: number, b: number, result: number][] = [
  ["add.u32", 7, 0xffff_ffff, 6],
  ["and.b32", 0b1100, 0b1010, 0b1000],
  ["or.b32", 0b1100, 0b1010, 0b1110],
  ["xor.b32", 0b1100, 0b1010, 0b0110],
  ["exch.b32", 1, 2, 2],
  ["min.s32", 1, 0xffff_ffff, 0xffff_ffff],
  ["min.u32", 1, 0xffff_ffff, 1],
  ["max.s32", 1, 0xffff_ffff, 1],
  ["max.u32", 1, 0xffff_ffff, 0xffff_ffff],
  ["inc.u32", 5, 6, 6],
  ["inc.u32", 6, 6, 0],
  ["dec.u32", 5, 6, 4],
  ["dec.u32", 0, 6, 6],
  ["dec.u32", 9, 6, 6],
];

test("atom updates memory and returns the old value", () => {
  for (const [operation, initial, b, result] of atomics) {
    const out = runBody(
      `
  st.global.u32 [%rd0], ${initial};
  atom.global.${operation} %r1, [%rd0], ${b};
  st.global.u32 [%rd0+4], %r1;`,
      undefined,
      8,
    );
    assertEquals([out.getUint32(0, true), out.getUint32(4, true)], [result, initial], `${operation} of ${initial}`);
  }
  const out = runBody(
    `
  st.global.u64 [%rd0], 5;
  atom.cas.b64 %rd5, [%rd0], 6, 7;
  atom.cas.b64 %rd6, [%rd0], 5, 8;
  red.relaxed.gpu.global.add.u64 [%rd0], -1;
  st.global.u64 [%rd0+8], %rd5;
  st.global.u64 [%rd0+16], %rd6;`,
    undefined,
    24,
  );
  assertEquals([0, 8, 16].map((offset) => out.getBigUint64(offset, true)), [7n, 5n, 5n]);
});

test("a vector of one element is the element, where ptxas takes it", () => {
  const out = runBody(
    `
  mov.b32 { %r1 }, 7;
  setp.eq.u32 %p1, %r1, 7;
  @%p1 st.global.b32 [ %rd0 + 0 ], { %r1 };
  @!%p1 st.global.b32 [%rd0], {9};
  ld.volatile.global.u32 {%r2}, [%rd0];
  mov.b32 %r3, {%r2};
  ldu.global.b16 {%h1}, [%rd0];
  st.global.v2.b32 [%rd0+8], {%r2, %r3};
  st.global.b16 [%rd0+4], {%h1};`,
    undefined,
    16,
  );
  assertEquals([0, 4, 8, 12].map((offset) => out.getUint32(offset, true)), [7, 7, 7, 7]);
  for (const wrong of ["add.u32 {%r1}, %r2, %r3;", "ld.global.v2.b32 {%r1}, [%rd0];", "st.global.b32 [%rd0], {};"]) {
    assertThrows(() => runBody(wrong, undefined, 8), Error);
  }
});
