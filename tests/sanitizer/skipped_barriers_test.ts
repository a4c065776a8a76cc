/**
 * Barriers that some lanes of a warp pass by, and barriers that only look so.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../mod.ts";
import { test } from "../support/test.ts";

/** Runs the body of a kernel with two warps. %t is the thread, and %p0 to %p3 are predicates. */
function reportsOf(body: string): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({
      driver: "software",
      sanitize: ["synchronization"],
      onReport: (report) => reports.push(report),
    });
    const gpu = cuda.device(0);
    using to = gpu.defaultPool.allocate(256);
    using module = gpu.loadModule(`.version 7.0
.target sm_70
.address_size 64
.visible .entry kernel(.param .u64 to) {
  .reg .pred %p<4>;
  .reg .b32 %t, %i, %r<4>;
  .reg .b64 %at, %skip;
  mov.u32 %t, %tid.x;
  mov.u32 %i, 0;
  ld.param.u64 %at, [to];
  mul.wide.u32 %skip, %t, 4;
  add.u64 %at, %at, %skip;
${body}
  ret;
}
`);
    module.kernel("kernel").launch({ grid: 1, block: 64 }, to);
    gpu.synchronize();
  }
  return reports;
}

/** A body, and the threads of its report: the lowest that waits, and the lowest that has skipped the barrier. */
interface Wrong {
  readonly body: string;
  readonly waits: number;
  readonly skips: number;
}

const wrong: Readonly<Record<string, Wrong>> = {
  "in a condition of half a warp": {
    waits: 32,
    skips: 48,
    body: `
  setp.ge.u32 %p0, %t, 48;
@%p0 bra meet;
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;`,
  },
  "in the other way of a condition": {
    waits: 32,
    skips: 48,
    body: `
  setp.lt.u32 %p0, %t, 48;
@%p0 bra wait;
  st.global.u32 [%at], 1;
  bra meet;
wait:
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;`,
  },
  "in a loop that some lanes leave early": {
    waits: 16,
    skips: 0,
    body: `
again:
  bar.sync 0;
  add.u32 %i, %i, 1;
  shr.u32 %r0, %t, 4;
  setp.le.u32 %p0, %i, %r0;
@%p0 bra again;
  st.global.u32 [%at], %i;`,
  },
  "in a condition of the whole block within one of half a warp": {
    waits: 0,
    skips: 16,
    body: `
  setp.ge.u32 %p0, %t, 16;
@%p0 bra meet;
  setp.eq.u32 %p1, %i, 0;
@!%p1 bra meet;
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;`,
  },
  "of which some lanes come to the next one instead": {
    waits: 0,
    skips: 1,
    body: `
again:
  add.u32 %r1, %t, %i;
  and.b32 %r0, %r1, 1;
  setp.eq.u32 %p0, %r0, 1;
@%p0 bra meet;
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p1, %i, 4;
@%p1 bra again;`,
  },
};

const right: Readonly<Record<string, string>> = {
  "behind an early return": `
  setp.ge.u32 %p0, %t, 48;
@%p0 ret;
  bar.sync 0;
  st.global.u32 [%at], %t;`,
  "behind a branch to the end": `
  setp.ge.u32 %p0, %t, 48;
@%p0 bra end;
  bar.sync 0;
  st.global.u32 [%at], %t;
end:`,
  "in a condition of the whole block": `
  setp.eq.u32 %p0, %i, 0;
@!%p0 bra meet;
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;`,
  "in a condition of whole warps, for as many threads": `
  setp.ge.u32 %p0, %t, 32;
@%p0 bra meet;
  bar.sync 1, 32;
meet:
  st.global.u32 [%at], %t;`,
  "in a loop, in every second turn": `
again:
  and.b32 %r0, %i, 1;
  setp.eq.u32 %p0, %r0, 1;
@%p0 bra meet;
  bar.sync 0;
meet:
  st.global.u32 [%at], %t;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p1, %i, 5;
@%p1 bra again;`,
  "behind a condition": `
  setp.ge.u32 %p0, %t, 48;
@%p0 bra meet;
  st.global.u32 [%at], %t;
meet:
  bar.sync 0;
  st.global.u32 [%at], %t;`,
};

for (const [what, { body, waits, skips }] of Object.entries(wrong)) {
  test(`a barrier is reported that some lanes pass by: ${what}`, () => {
    const reports = reportsOf(body);
    assertEquals(reports.map(({ kind }) => kind), ["divergent-barrier"]);
    const { message, accesses: [access] } = reports[0]!;
    assertStringIncludes(
      message,
      `__syncthreads() at ${
        access!.source
      } is reached by thread (${waits},0,0), but thread (${skips},0,0) has gone on ` +
        "without it: every thread of the block must reach it, and as often as the others.",
    );
    assertStringIncludes(message, "leave it out only if nothing behind it reads what other threads wrote.");
  });
}

for (const [what, body] of Object.entries(right)) {
  test(`a barrier is not reported that no lane passes by: ${what}`, () => {
    assertEquals(reportsOf(body).map(({ message }) => message), []);
  });
}
