/**
 * Lanes of a warp that exchange values in functions that they leave at different times.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { test } from "../../support/test.ts";
import { upTo } from "../threads.ts";

/** Stores the number of the lane, plus the iteration, as often as the lane's two lowest bits say, and reads another's. */
const exchanges = `
.func (.param .b32 result) exchange(.param .b32 words, .param .b32 lane, .param .b32 value) {
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  ld.param.u32 %r1, [words];
  ld.param.u32 %r2, [lane];
  ld.param.u32 %r3, [value];
  and.b32 %r4, %r2, 3;
  mad.lo.u32 %r5, %r2, 4, %r1;
  mov.u32 %r6, 0;
AGAIN:
  setp.ge.u32 %p1, %r6, %r4;
  @%p1 bra DONE;
  add.u32 %r7, %r3, %r6;
  st.volatile.shared.u32 [%r5], %r7;
  and.b32 %r8, %r7, 31;
  mad.lo.u32 %r9, %r8, 4, %r1;
  ld.volatile.shared.u32 %r10, [%r9];
  mad.lo.u32 %r3, %r3, 5, %r10;
  add.u32 %r6, %r6, 1;
  bra AGAIN;
DONE:
  st.param.b32 [result], %r3;
  ret;
}`;

test("lanes that leave a loop of a function wait for the others before a loop calls it again", async () => {
  const calls = 5;
  const ptx = `.version 7.0
.target sm_70
.address_size 64
${exchanges}
.visible .entry test(.param .u64 out) {
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 s[128];
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r3, s;
  mad.lo.u32 %r1, %r0, 4, %r3;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd3, %rd0, %rd2;
  st.volatile.shared.u32 [%r1], %r0;
  mov.u32 %r10, %r0;
  mov.u32 %r11, 0;
CALLS:
  { .param .b32 words; .param .b32 lane; .param .b32 value; .param .b32 result;
  st.param.b32 [words], %r3;
  st.param.b32 [lane], %r0;
  st.param.b32 [value], %r10;
  call (result), exchange, (words, lane, value);
  ld.param.b32 %r10, [result]; }
  add.u32 %r11, %r11, 1;
  setp.lt.u32 %p1, %r11, ${calls};
  @%p1 bra CALLS;
  st.global.u32 [%rd3], %r10;
  ret;
}
`;
  const words = upTo(32, (lane) => lane), values = upTo(32, (lane) => lane);
  for (let call = 0; call < calls; call++) {
    for (let iteration = 0; iteration < 3; iteration++) {
      const active = values.keys().filter((lane) => iteration < lane % 4).toArray();
      const stored = active.map((lane) => (values[lane]! + iteration) >>> 0);
      for (const [index, lane] of active.entries()) words[lane] = stored[index]!;
      for (const [index, lane] of active.entries()) {
        values[lane] = (Math.imul(values[lane]!, 5) + words[stored[index]! % 32]!) >>> 0;
      }
    }
  }
  for (const gangs of [false, "always"] as const) {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true, gangs })));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using module = gpu.loadModule(ptx);
    using out = pool.allocate(32 * 4, stream);
    module.kernel("test").launch({ grid: 1, block: 32, stream }, out);
    assertEquals([...await out.read(Uint32Array)], values);
  }
});
