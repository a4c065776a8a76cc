import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../../src/software/abi/addresses.ts";
import { allocate, Fault, load, refusalOf, runBody, testModule } from "../compiler_device.ts";
import { runThreads, threadsModule, upTo } from "../threads.ts";
import { randomNumbers } from "./references.ts";

const next = randomNumbers(0x128_128n);

/** Runs a body on 128-bit numbers at `in`, and returns those at `out`. */
function runWide(body: string, input: readonly bigint[], count: number): bigint[] {
  const view = new DataView(new ArrayBuffer(16 * input.length));
  input.forEach((value, index) => {
    view.setBigUint64(16 * index, BigInt.asUintN(64, value), true);
    view.setBigUint64(16 * index + 8, value >> 64n, true);
  });
  const out = runBody(`.reg .b128 %q<9>;\n${body}`, view, 16 * count);
  return upTo(count, (index) => out.getBigUint64(16 * index, true) | out.getBigUint64(16 * index + 8, true) << 64n);
}

const wide = (): bigint => next() << 64n | next();

test("128 bits go through every state space and every move unchanged", () => {
  const [a, b] = [wide(), wide()] as const;
  const [low, high] = [BigInt.asUintN(64, a), a >> 64n];
  const words = upTo(4, (index) => BigInt.asUintN(32, a >> BigInt(32 * index)));
  const body = `
  .shared .b128 sm[2]; .local .b128 lo;
  ld.global.b128 %q1, [%rd1]; ld.global.nc.L1::no_allocate.b128 %q2, [%rd1+16];
  st.global.b128 [%rd0], %q1; st.relaxed.gpu.global.b128 [%rd0+16], %q2;
  st.shared.b128 [sm+16], %q1; ld.volatile.shared.b128 %q3, [sm+16]; st.b128 [%rd0+32], %q3;
  st.local.b128 [lo], %q2; ld.local.b128 %q4, [lo]; st.global.b128 [%rd0+48], %q4;
  mov.b128 %q5, %q1; mov.b128 {%rd3, %rd4}, %q5; mov.b128 %q5, {%rd4, %rd3}; st.global.b128 [%rd0+64], %q5;
  mov.b128 {%r1, %r2, %r3, %r4}, %q1; mov.b128 %q5, {%r4, %r3, %r2, %r1}; st.global.b128 [%rd0+80], %q5;
  mov.b128 {%fd1, _}, %q1; mov.b128 %q5, {%fd1, 5}; st.global.b128 [%rd0+96], %q5;
  mov.b128 %q6, -2; st.global.b128 [%rd0+112], %q6; st.global.b128 [%rd0+128], 7;
  setp.eq.u64 %p1, %rd3, %rd4; @%p1 mov.b128 %q1, %q2; @!%p1 ld.acquire.sys.b128 %q3, [%rd1+16];
  st.global.b128 [%rd0+144], %q1; st.global.b128 [%rd0+160], %q3;`;
  assertEquals(
    runWide(body, [a, b], 11),
    [
      ...[a, b, a, b, low << 64n | high, words.reduce((all, word) => all << 32n | word), 5n << 64n | low],
      ...[(1n << 128n) - 2n, 7n, a, b],
    ],
  );
});

test("atom.b128 exchanges, and compares all 128 bits", () => {
  const [a, b, c] = [wide(), wide(), wide()];
  const differsHigh = a ^ 1n << 127n, differsLow = a ^ 1n;
  for (const space of ["global", "shared"]) {
    const place = space === "shared" ? "[sm]" : "[%rd1+80]";
    const body = `
  .shared .b128 sm;
  ld.global.b128 %q1, [%rd1]; ld.global.b128 %q2, [%rd1+16]; ld.global.b128 %q3, [%rd1+32];
  ld.global.b128 %q4, [%rd1+48]; ld.global.b128 %q5, [%rd1+64];
  st.${space}.b128 ${place}, %q1;
  atom.${space}.cas.b128 %q6, ${place}, %q4, %q2; st.global.b128 [%rd0], %q6;
  atom.acq_rel.gpu.${space}.cas.b128 %q6, ${place}, %q5, %q2; st.global.b128 [%rd0+16], %q6;
  atom.${space}.cas.b128 %q1, ${place}, %q1, %q2; st.global.b128 [%rd0+32], %q1;
  atom.${space}.exch.b128 %q3, ${place}, %q3; st.global.b128 [%rd0+48], %q3;
  atom.${space}.exch.b128 _, ${place}, %q5;
  ld.${space}.b128 %q6, ${place}; st.global.b128 [%rd0+64], %q6;`;
    assertEquals(runWide(body, [a, b, c, differsHigh, differsLow, 0n], 5), [a, a, a, b, differsLow]);
  }
});

test("registers of 128 bits outlast a barrier, and run in gangs", () => {
  const body = `
  .reg .b128 %q;
  cvt.u64.u32 %rd3, %r0; not.b64 %rd4, %rd3; mov.b128 %q, {%rd3, %rd4};
  bar.sync 0;
  st.global.b128 [%rd2], %q;`;
  const expected = upTo(64, (index) => [index, 0, ~index >>> 0, 0xffff_ffff]).flat();
  assertEquals(runThreads(body, { block: [64, 1, 1], words: 4 }), expected);
  const out = allocate(64 * 16);
  load(threadsModule(body, { words: 4 }), { gangWidth: 16 }).run("test", {
    block: [64, 1, 1],
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: 0n }],
  });
  assertEquals(upTo(256, (index) => out.view.getUint32(4 * index, true)), expected);
});

test("accesses to 128 bits are checked as a whole", () => {
  for (
    const [body, kind] of [
      ["ld.global.b128 %q, [%rd1+8];", faultKind.misalignedAddress],
      ["st.global.b128 [%rd1+32], %q;", faultKind.illegalAddress],
      ["atom.exch.b128 %q, [%rd1+8], %q;", faultKind.misalignedAddress],
      ["atom.cas.b128 %q, [%rd1+16], %q, %q;", faultKind.illegalAddress],
    ] as const
  ) {
    const error = assertThrows(() => runBody(`.reg .b128 %q;\n${body}`, new DataView(new ArrayBuffer(24)), 16), Fault);
    assertEquals(error.kind, kind, body);
  }
});

test("other instructions take no 128 bits", () => {
  for (
    const [body, reason] of [
      ["add.u64 %rd1, %q, %rd2;", "it takes no register of 128 bits"],
      ["ld.global.v2.u64 %q, [%rd1];", "it takes no register of 128 bits"],
      ["mov.b64 %rd1, %q;", "it takes no register of 128 bits"],
      ["ld.global.b128 %rd1, [%rd2];", "it needs a register of 128 bits"],
      ["ld.global.b128 {%rd1, %rd2}, [%rd2];", "it needs a register of 128 bits"],
      ["mov.b128 %q, {%rd1, %rd2, %rd3};", "must have two or four elements"],
      ["mov.b128 %q, {%r1, %r2};", '%r1 is ".b32"'],
      ["atom.add.b128 %q, [%rd1], %q;", "not supported here"],
      ["ld.global.b128 %rd1, [%q];", 'cannot use "%q" as an address'],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(`.reg .b128 %q;\n${body}`)).error.message, reason, body);
});
