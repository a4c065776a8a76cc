import { assert, assertEquals } from "@std/assert";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { test } from "../../support/test.ts";
import { upTo } from "../threads.ts";
import { lockstepDrivers } from "./lockstep_drivers.ts";

/** A kernel whose parameters are `%rd0` and `%rd1`. `%r0` is the thread's number along x. */
function kernelOf(body: string, before = ""): string {
  return `.version 7.0
.target sm_70
.address_size 64
${before}
.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred %p<20>;
  .reg .b32 %r<60>;
  .reg .b64 %rd<40>;
  .shared .align 16 .b8 s[8192];
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [in];
  mov.u32 %r0, %tid.x;
${body}
  ret;
}
`;
}

interface Run {
  readonly block: number | [number, number, number];
  readonly grid?: number;
  readonly input?: readonly number[];
  readonly words: number;
  readonly isInPlace?: boolean;
  readonly stepLimit?: number;
}

/** Runs a kernel on every driver. They must agree. Returns the words of the output. */
async function run(
  ptx: string,
  { block, grid = 1, input = [0], words, isInPlace = false, stepLimit }: Run,
): Promise<number[]> {
  const results: number[][] = [];
  for (const driver of lockstepDrivers(stepLimit)) {
    using cuda = new Cuda(new Session(driver));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using module = gpu.loadModule(ptx);
    using out = pool.allocate(words * 4, stream);
    using source = pool.allocate(Math.max(words, input.length) * 4, stream);
    out.fill(0);
    source.copyFrom(Uint32Array.from({ length: Math.max(words, input.length) }, (_, index) => input[index] ?? 0));
    if (isInPlace) out.copyFrom(Uint32Array.from({ length: words }, (_, index) => input[index] ?? 0));
    module.kernel("test").launch({ grid, block, stream }, out, isInPlace ? out : source);
    results.push([...await out.read(Uint32Array)]);
  }
  for (const result of results) assertEquals(result, results[0]);
  return results[0]!;
}

/** The address of the thread's word in `s` at `%r1`, with its number stored there. */
const ownWord = `
  shl.b32 %r2, %r0, 2;
  mov.u32 %r3, s;
  add.u32 %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd3, %rd0, %rd2;
  add.u64 %rd4, %rd1, %rd2;`;

test("a lane sees what a later lane has stored", async () => {
  const written = await run(
    kernelOf(`${ownWord}
  st.shared.u32 [%r1], %r0;
  ld.shared.u32 %r4, [s+124];
  st.global.u32 [%rd3], %r4;`),
    { block: 32, words: 32 },
  );
  assertEquals(written, upTo(32, () => 31));
});

test("a lane that has left its gang between two lockstep points waits at the second one", async () => {
  // The sum wraps around within the gang, whose members diverge before they extend it to 64 bits.
  const written = await run(
    kernelOf(`${ownWord}
  st.shared.u32 [%r1], %r0;
  ld.shared.u32 %r4, [s+124];
  add.u32 %r5, %r0, 4294967280;
  mul.wide.u32 %rd5, %r5, 2;
  cvt.u32.u64 %r6, %rd5;
  add.u32 %r6, %r6, %r4;
  st.shared.u32 [%r1], %r6;
  ld.shared.u32 %r7, [s+120];
  st.global.u32 [%rd3], %r7;`),
    { block: 32, words: 32 },
  );
  assertEquals(written, upTo(32, () => 28 + 31));
});

test("a warp reduces without barriers", async () => {
  const halves = [16, 8, 4, 2, 1];
  // Every lane adds, as the classic code does: lanes past the half read what they need not.
  const written = await run(
    kernelOf(`${ownWord}
  ld.global.u32 %r4, [%rd4];
  st.volatile.shared.u32 [%r1], %r4;
  st.volatile.shared.u32 [%r1+128], 0;
${
      halves.map((half, index) => `
  ld.volatile.shared.u32 %r${10 + index}, [%r1+${4 * half}];
  ld.volatile.shared.u32 %r${20 + index}, [%r1];
  add.u32 %r${30 + index}, %r${10 + index}, %r${20 + index};
  st.volatile.shared.u32 [%r1], %r${30 + index};`).join("")
    }
  ld.volatile.shared.u32 %r5, [%r1];
  st.global.u32 [%rd3], %r5;`),
    { block: 32, input: upTo(32, (index) => index * index + 1), words: 32 },
  );
  const values = [...upTo(32, (index) => index * index + 1), ...upTo(32, () => 0)];
  for (const half of halves) {
    const before = [...values];
    for (let lane = 0; lane < 32; lane++) values[lane] = before[lane]! + before[lane + half]!;
  }
  assertEquals(written, values.slice(0, 32));
});

test("lanes rotate words in place, through one pointer and through two", async () => {
  const rotate = (pointer: string) =>
    kernelOf(`${ownWord}
  add.u32 %r4, %r0, 1;
  and.b32 %r5, %r0, 31;
  and.b32 %r4, %r4, 31;
  sub.u32 %r6, %r4, %r5;
  mul.wide.s32 %rd5, %r6, 4;
  add.s64 %rd6, ${pointer}, %rd5;
  ld.global.u32 %r7, [%rd6];
  st.global.u32 [%rd3], %r7;`);
  const input = upTo(96, (index) => 7 * index + 3);
  const expected = upTo(96, (index) => input[Math.floor(index / 32) * 32 + (index + 1) % 32]!);
  for (const pointer of ["%rd3", "%rd4"]) {
    assertEquals(await run(rotate(pointer), { block: 96, input, words: 96, isInPlace: true }), expected);
  }
});

test("a warp sorts by odd and even transpositions", async () => {
  const input = upTo(32, (index) => index * 0x9e3779b1 >>> 8);
  const written = await run(
    kernelOf(`${ownWord}
  ld.global.u32 %r4, [%rd4];
  st.volatile.shared.u32 [%r1], %r4;
  mov.u32 %r5, 0;
AGAIN:
  xor.b32 %r6, %r0, %r5;
  and.b32 %r7, %r6, 1;
  setp.ne.u32 %p1, %r7, 0;
  setp.eq.u32 %p2, %r0, 31;
  or.pred %p3, %p1, %p2;
  @%p3 bra NEXT;
  ld.volatile.shared.u32 %r8, [%r1];
  ld.volatile.shared.u32 %r9, [%r1+4];
  min.u32 %r10, %r8, %r9;
  max.u32 %r11, %r8, %r9;
  st.volatile.shared.u32 [%r1], %r10;
  st.volatile.shared.u32 [%r1+4], %r11;
NEXT:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p4, %r5, 32;
  @%p4 bra AGAIN;
  ld.volatile.shared.u32 %r12, [%r1];
  st.global.u32 [%rd3], %r12;`),
    { block: 32, input, words: 32 },
  );
  assertEquals(written, input.toSorted((a, b) => a - b));
});

for (const block of [16, 20, 48, 64, 1000, [8, 4, 2]] as const) {
  test(`each warp of a block of ${block} threads scans its words`, async () => {
    const threads = typeof block === "number" ? block : 64;
    const input = upTo(threads, (index) => index % 7 + 1);
    const written = await run(
      kernelOf(`
  mov.u32 %r40, %tid.y;
  mov.u32 %r41, %tid.z;
  mov.u32 %r42, %ntid.x;
  mov.u32 %r43, %ntid.y;
  mad.lo.u32 %r44, %r41, %r43, %r40;
  mad.lo.u32 %r0, %r44, %r42, %r0;
${ownWord}
  and.b32 %r4, %r0, 31;
  ld.global.u32 %r5, [%rd4];
  st.volatile.shared.u32 [%r1], %r5;
${
        [1, 2, 4, 8, 16].map((by, index) => `
  setp.lt.u32 %p${index}, %r4, ${by};
  @%p${index} bra SKIP${by};
  ld.volatile.shared.u32 %r6, [%r1+-${4 * by}];
  ld.volatile.shared.u32 %r7, [%r1];
  add.u32 %r8, %r6, %r7;
  st.volatile.shared.u32 [%r1], %r8;
SKIP${by}:`).join("")
      }
  ld.volatile.shared.u32 %r9, [%r1];
  st.global.u32 [%rd3], %r9;`),
      { block: typeof block === "number" ? block : [...block], input, words: threads },
    );
    const expected = upTo(threads, (index) => {
      return input.slice(index - index % 32, index + 1).reduce((sum, value) => sum + value, 0);
    });
    assertEquals(written, expected);
  });
}

for (const isCalled of [false, true]) {
  const place = isCalled ? "in a function" : "inline";
  test(`the lanes of a warp take turns with a lock that they spin for, ${place}`, async () => {
    const swap = `.func (.param .b32 d) take(.param .b64 a) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<1>;
  ld.param.u64 %rd0, [a];
  atom.cas.b32 %r1, [%rd0], 0, 1;
  st.param.b32 [d], %r1;
  ret;
}`;
    const written = await run(
      kernelOf(
        `
  setp.ne.u32 %p1, %r0, 0;
  mov.u64 %rd2, s;
  cvta.shared.u64 %rd3, %rd2;
  @%p1 bra WAIT;
  st.shared.u32 [s], 0;
WAIT:
  bar.sync 0;
SPIN:
  ${
          isCalled
            ? `{ .param .b64 a; .param .b32 d; st.param.b64 [a], %rd3; call (d), take, (a); ld.param.b32 %r1, [d]; }`
            : `atom.shared.cas.b32 %r1, [s], 0, 1;`
        }
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra SPIN;
  membar.cta;
  ld.volatile.global.u32 %r2, [%rd0];
  add.u32 %r3, %r2, 1;
  st.volatile.global.u32 [%rd0], %r3;
  membar.cta;
  atom.shared.exch.b32 %r4, [s], 0;`,
        swap,
      ),
      // Lanes that spin must soon let the one go on that has the lock.
      { block: 96, words: 1, stepLimit: 2 ** 21 },
    );
    assertEquals(written, [96]);
  });
}

test("a shuffle of lanes outside of their own mask, and the barrier behind it, complete", async () => {
  const written = await run(
    kernelOf(`${ownWord}
  shfl.sync.idx.b32 %r4, %r0, 0, 31, 1;
  bar.sync 0;
  st.global.u32 [%rd3], 5;`),
    { block: 64, words: 64 },
  );
  assertEquals(written, upTo(64, () => 5));
});

/** Four lanes compute a block of ChaCha20: each has a column, and they exchange rows through shared memory. */
function chachaPtx(isCalled: boolean): string {
  const quarter = [[0, 1, 3, 16], [2, 3, 1, 12], [0, 1, 3, 8], [2, 3, 1, 7]].map(([a, b, d, by]) => `
  add.u32 %x${a}, %x${a}, %x${b};
  xor.b32 %x${d}, %x${d}, %x${a};
  shf.l.wrap.b32 %x${d}, %x${d}, %x${d}, ${by};`).join("");
  const exchange = (turns: readonly number[]) =>
    [1, 2, 3].map((row, index) => {
      const place = `
  add.u32 %r20, %r5, ${turns[index]};
  and.b32 %r21, %r20, 3;
  sub.u32 %r22, %r21, %r5;
  mad.lo.s32 %r23, %r22, 4, %r1;`;
      const move = isCalled
        ? `
  { .param .b32 a; .param .b32 b; .param .b32 v; .param .b32 d;
  st.param.b32 [a], %r1; st.param.b32 [b], %r23; st.param.b32 [v], %x${row};
  call.uni (d), move, (a, b, v);
  ld.param.b32 %x${row}, [d]; }`
        : `
  st.shared.u32 [%r1], %x${row};
  ld.shared.u32 %x${row}, [%r23];`;
      return place + move;
    }).join("");
  return kernelOf(
    `${ownWord}
  .reg .b32 %x<4>;
  and.b32 %r5, %r0, 3;
  mul.wide.u32 %rd5, %r5, 4;
  add.u64 %rd6, %rd1, %rd5;
${upTo(4, (row) => `  ld.global.u32 %x${row}, [%rd6+${16 * row}];`).join("\n")}
  mov.u32 %r6, 10;
ROUND:${quarter}${exchange([1, 2, 3])}${quarter}${exchange([3, 2, 1])}
  sub.u32 %r6, %r6, 1;
  setp.ne.u32 %p1, %r6, 0;
  @%p1 bra ROUND;
  shr.u32 %r7, %r0, 2;
  mul.wide.u32 %rd7, %r7, 64;
  add.u64 %rd8, %rd0, %rd7;
  add.u64 %rd9, %rd8, %rd5;
${
      upTo(4, (row) => `
  ld.global.u32 %r8, [%rd6+${16 * row}];
  add.u32 %r9, %r8, %x${row};
  st.global.u32 [%rd9+${16 * row}], %r9;`).join("")
    }`,
    isCalled
      ? `.func (.param .b32 d) move(.param .b32 a, .param .b32 b, .param .b32 v) {
  .reg .b32 %q<4>;
  ld.param.b32 %q0, [a];
  ld.param.b32 %q1, [b];
  ld.param.b32 %q2, [v];
  st.shared.u32 [%q0], %q2;
  ld.shared.u32 %q3, [%q1];
  st.param.b32 [d], %q3;
  ret;
}`
      : "",
  );
}

for (const isCalled of [false, true]) {
  test(`four lanes compute ChaCha20, as RFC 8439 has it, ${isCalled ? "in a function" : "inline"}`, async () => {
    // Section 2.3.2: the key 00 to 1f, the counter 1, the nonce 00:00:00:09:00:00:00:4a:00:00:00:00.
    const key = upTo(8, (word) => (4 * word + 3) * 2 ** 24 + (4 * word + 2 << 16 | 4 * word + 1 << 8 | 4 * word));
    const input = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...key, 1, 0x09000000, 0x4a000000, 0];
    const expected = [
      ...[0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033, 0x9aaa2204, 0x4e6cd4c3],
      ...[0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9, 0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2],
    ];
    for (const block of [4, 32, 20]) {
      const written = await run(chachaPtx(isCalled), { block, input, words: block * 4 });
      assertEquals(written, upTo(block / 4, () => expected).flat(), `${block} threads`);
    }
  });
}

test("kernels whose lanes access their own words have no lockstep points", () => {
  const pointsOf = (body: string) => compilePtx(kernelOf(ownWord + body)).kernels.get("test")!.lockstepPointCount;
  const stride = `
  mov.u32 %r10, %ntid.x;
  mov.u32 %r11, %nctaid.x;
  mul.lo.u32 %r12, %r10, %r11;
  mul.wide.u32 %rd10, %r12, 4;`;
  assertEquals(pointsOf("ld.global.u32 %r4, [%rd4]; st.global.u32 [%rd3], %r4;"), 0);
  assertEquals(pointsOf("ld.global.u32 %r4, [%rd3]; add.u32 %r5, %r4, 1; st.global.u32 [%rd3], %r5;"), 0);
  assertEquals(pointsOf("ld.global.u32 %r4, [%rd4+4]; st.global.u32 [%rd3], %r4;"), 0);
  assertEquals(pointsOf("ld.global.u32 %r4, [%rd3+4]; st.global.u32 [%rd3], %r4;"), 1);
  assertEquals(pointsOf("st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r4, [s]; st.global.u32 [%rd3], %r4;"), 0);
  assertEquals(pointsOf("st.shared.u32 [%r1], %r0; bar.warp.sync -1; ld.shared.u32 %r4, [s];"), 0);
  assertEquals(pointsOf("st.shared.u32 [%r1], %r0; bar.warp.sync 3; ld.shared.u32 %r4, [s];"), 1);
  // A loop over an array, as far apart as there are threads.
  const loop = `${stride}
  mov.u64 %rd11, %rd3;
LOOP:
  ld.global.u32 %r13, [%rd11];
  add.u32 %r14, %r13, 1;
  st.global.u32 [%rd11], %r14;
  add.s64 %rd11, %rd11, %rd10;
  setp.lt.u64 %p1, %rd11, %rd1;
  @%p1 bra LOOP;`;
  assertEquals(pointsOf(loop), 0);
  assert(pointsOf(loop.replace("%rd11, %rd11, %rd10", "%rd11, %rd11, 4")) > 0);
});

test("asynchronous copies of lanes do not wait for each other, but for other accesses", () => {
  const pointsOf = (body: string) => compilePtx(kernelOf(ownWord + body)).kernels.get("test")!.lockstepPointCount;
  const copy = (offset: number) => `cp.async.cg.shared.global [%r2+${offset}], [%rd1+${offset}], 16;`;
  const permuted = "xor.b32 %r2, %r0, 5; shl.b32 %r2, %r2, 4;";
  assertEquals(pointsOf(`${permuted} ${copy(0)} ${copy(2048)}`), 0);
  assertEquals(
    pointsOf(`${permuted} ${copy(0)} cp.async.wait_all; ld.shared.u32 %r4, [s]; st.global.u32 [%rd3], %r4;`),
    1,
  );
  assertEquals(pointsOf(`${permuted} st.shared.u32 [%r1], %r0; ${copy(0)}`), 1);
});

test("an address is followed through thousands of additions", { long: true }, () => {
  const count = 4000;
  const sums = Array.from({ length: count }, (_, index) => `add.s64 %rd${index + 101}, %rd${index + 100}, 4;`);
  const pointsOf = (offset: number) => {
    const body = `${ownWord}
  mov.u64 %rd100, %rd3;
  ${sums.join("\n")}
  st.global.u32 [%rd${count + 100}], %r0;
  ld.global.u32 %r4, [%rd3+${4 * count + offset}];
  st.global.u32 [%rd1], %r4;`;
    return compilePtx(kernelOf(body).replace("%rd<40>", `%rd<${count + 200}>`)).kernels.get("test")!.lockstepPointCount;
  };
  assertEquals([pointsOf(0), pointsOf(4)], [0, 1]);
});
