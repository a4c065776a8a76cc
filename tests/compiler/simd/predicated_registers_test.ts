/**
 * Registers that are set only under predicates, in single threads and in gangs.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { test } from "../../support/test.ts";
import { upTo } from "../threads.ts";

/**
 * Runs 64 threads, one by one and in gangs, which must agree. `%r0` is the thread's number, which is odd where `%p0`
 * holds. Returns what each has in `%r1`.
 */
async function run(body: string): Promise<number[]> {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd0, %rd0, %rd1;
  and.b32 %r2, %r0, 1;
  setp.eq.u32 %p0, %r2, 1;
${body}
  st.global.u32 [%rd0], %r1;
  ret;
}
`;
  const results: number[][] = [];
  for (const gangs of [false, "always"] as const) {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true, gangs })));
    using stream = cuda.device(0).createStream();
    using pool = cuda.device(0).createPool();
    using module = cuda.device(0).loadModule(ptx);
    using out = pool.allocate(4 * 64, stream);
    module.kernel("test").launch({ grid: 1, block: 64, stream }, out);
    results.push([...await out.read(Uint32Array)]);
  }
  assertEquals(results[0], results[1]);
  return results[0]!;
}

test("a register whose instruction did not execute holds nothing of another thread", async () => {
  const expected = upTo(64, (thread) => thread % 2 === 0 ? 0 : thread + 5);
  assertEquals(await run("@%p0 add.u32 %r1, %r0, 5;"), expected);
  assertEquals(
    await run("@%p0 cvt.rn.f32.u32 %f1, %r0;\ncvt.rzi.u32.f32 %r1, %f1;\n@%p0 add.u32 %r1, %r1, 5;"),
    expected,
  );
  assertEquals(await run("@%p0 cvt.u64.u32 %rd2, %r0;\ncvt.u32.u64 %r1, %rd2;\n@%p0 add.u32 %r1, %r1, 5;"), expected);
  assertEquals(
    await run("@%p0 cvt.rn.f64.u32 %fd1, %r0;\ncvt.rzi.u32.f64 %r1, %fd1;\n@%p0 add.u32 %r1, %r1, 5;"),
    expected,
  );
  assertEquals(await run("@%p0 setp.ge.u32 %p1, %r0, 0;\nadd.u32 %r2, %r0, 5;\nselp.b32 %r1, %r2, 0, %p1;"), expected);
  assertEquals(await run("setp.eq.u32 %p2, 0, 1;\n@%p2 mov.u32 %r1, 7;"), upTo(64, () => 0));
});

test("a register keeps what one instruction has set when the predicate of the next does not hold", async () => {
  const expected = upTo(64, (thread) => thread % 2 === 0 ? 9 : thread);
  assertEquals(await run("@%p0 mov.u32 %r1, %r0;\n@!%p0 mov.u32 %r1, 9;"), expected);
  // The first one is in another block, or reads the register itself.
  assertEquals(
    await run("@!%p0 mov.u32 %r1, 9;\n@!%p0 bra NEXT;\nadd.u32 %r3, %r0, 1;\nNEXT:\n@%p0 mov.u32 %r1, %r0;"),
    expected,
  );
  assertEquals(await run("mov.u32 %r1, 9;\n@%p0 xor.b32 %r1, %r1, %r1;\n@%p0 add.u32 %r1, %r1, %r0;"), expected);
});

test("a register keeps what an earlier iteration has set under a predicate", async () => {
  const body = `mov.u32 %r3, 0;
LOOP:
  and.b32 %r4, %r3, 3;
  setp.eq.u32 %p1, %r4, 1;
  @%p1 add.u32 %r1, %r0, %r3;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 8;
  @%p2 bra LOOP;`;
  assertEquals(await run(body), upTo(64, (thread) => thread + 5));
});
