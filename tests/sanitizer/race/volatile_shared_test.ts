/** What reports of volatile accesses to shared memory say, and in which forms of loops a load polls. */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../../support/test.ts";
import { reportsOf } from "../kernel_pairs.ts";

const ptx = new URL("volatile_shared.ptx", import.meta.url);
const source = readFileSync(new URL("volatile_shared.cu", import.meta.url), "utf8").split("\n");

/** `volatile_shared.cu:12`, the line of a kernel that begins so. */
function lineOf(kernel: string, text: string): string {
  const begin = source.findIndex((line) => line.startsWith(`KERNEL void ${kernel}(`));
  const index = source.findIndex((line, index) => index > begin && line.includes(text));
  return `volatile_shared.cu:${index + 1}`;
}

test("the last steps of a reduction that run in two warps are one report, of the first two steps", () => {
  const [report, ...others] = reportsOf(ptx, "last_warp_wrong", { block: 128, check: "race" });
  assertEquals(others, []);
  const [write, read] = ["v[t] += v[t + 64]", "v[t] += v[t + 32]"].map((text) => lineOf("last_warp", text));
  assertEquals(
    report!.accesses.map(({ access, source, thread }) => [access, source!.split(",")[0], thread]),
    [["write", write, [32, 0, 0]], ["read", read, [0, 0, 0]]],
  );
  const [first, problem, ...lines] = report!.message.split("\n");
  assertEquals(first, "poolpass sanitizer: shared-race: bytes 128 to 131 of sums (bytes 128 to 131 of shared memory)");
  assertEquals(
    problem!.trim(),
    "The write and the read may happen in either order: the threads are in different warps, and volatile orders no " +
      "threads: that takes a barrier, or fences around a flag.",
  );
  assertEquals(
    lines.at(-1)!.trim().replaceAll(/, inlined at \S+:\d+/g, ""),
    `Put __syncthreads() between ${write} and ${read}, outside of any condition, or let one warp make both accesses, ` +
      "with __syncwarp() between them. If a flag tells when to read, put __threadfence_block() before setting the " +
      "flag and after seeing it.",
  );
});

test("a step of a loop is told to end with a barrier", () => {
  const [report] = reportsOf(ptx, "steps_wrong", { block: 128, check: "race" });
  const advice = report!.message.split("\n").at(-1)!.trim();
  assertEquals(advice.split(", ")[0], "Put __syncthreads() at the end of the loop's body");
});

test("mistakes at different lines are reported separately", () => {
  const lines = `
    st.volatile.shared.u32 [first], 1;
    st.volatile.shared.u32 [second], 2;`;
  const reports = reportsOf(
    between(lines, "ld.volatile.shared.u32 %r2, [first];\nld.volatile.shared.u32 %r2, [second];"),
    "test",
    {
      block: 64,
      check: "race",
    },
  );
  assertEquals(reports.map(({ message }) => /(first|second) \(/.exec(message)?.[1]), ["first", "second"]);
});

const loops: Readonly<Record<string, { readonly reader: string; readonly polls: boolean }>> = {
  "a loop whose first iteration is peeled": {
    polls: true,
    reader: `
    ld.volatile.shared.u32 %r2, [first];
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra DONE;
  AGAIN:
    ld.volatile.shared.u32 %r3, [first];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra AGAIN;
  DONE:`,
  },
  "a variable that a branch in the loop sets": {
    polls: true,
    reader: `
    mov.u32 %r3, 0;
  AGAIN:
    ld.volatile.shared.u32 %r2, [first];
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra NEXT;
    mov.u32 %r3, 1;
  NEXT:
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra AGAIN;`,
  },
  "a variable in memory, as compilers have it without optimizations": {
    polls: true,
    reader: `
    mov.u32 %r3, 0;
    st.local.u32 [variable], %r3;
  AGAIN:
    ld.volatile.shared.u32 %r2, [first];
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra NEXT;
    st.local.u32 [variable], 1;
  NEXT:
    ld.local.u32 %r3, [variable];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra AGAIN;`,
  },
  "a limited number of attempts": {
    polls: true,
    reader: `
    mov.u32 %r3, 0;
  AGAIN:
    ld.volatile.shared.u32 %r2, [first];
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 10;
    setp.eq.and.u32 %p1, %r2, 0, %p1;
    @%p1 bra AGAIN;`,
  },
  "a loop whose end does not depend on the value": {
    polls: false,
    reader: `
    mov.u32 %r3, 0;
  AGAIN:
    ld.volatile.shared.u32 %r2, [first];
    st.volatile.shared.u32 [second], %r2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 10;
    @%p1 bra AGAIN;`,
  },
  "a branch that only decides what is stored in the loop": {
    polls: false,
    reader: `
    mov.u32 %r3, 0;
  AGAIN:
    ld.volatile.shared.u32 %r2, [first];
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra NEXT;
    st.volatile.shared.u32 [second], %r2;
  NEXT:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 10;
    @%p1 bra AGAIN;`,
  },
};

for (const [name, { reader, polls }] of Object.entries(loops)) {
  test(`${name}: ${polls ? "polls" : "does not poll"}`, () => {
    const kernel = between("st.volatile.shared.u32 [first], 1;", reader);
    const reports = reportsOf(kernel, "test", { block: 64, check: "race" });
    assertEquals(reports.map(({ kind }) => kind), polls ? [] : ["shared-race"]);
  });
}

/** A kernel in which the first thread of one warp executes `writer`, and that of the next warp `reader`. */
function between(writer: string, reader: string): string {
  return `.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 in, .param .u64 out, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .shared .align 4 .b32 first;
  .shared .align 4 .b32 second;
  .local .align 4 .b32 variable;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra OTHER;
  ${writer}
  ret;
OTHER:
  setp.ne.u32 %p0, %r0, 32;
  @%p0 bra END;
  ${reader}
END:
  ret;
}
`;
}
