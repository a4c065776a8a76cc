/**
 * Random kernels whose addresses are sums of multiples of the thread's index, of the block's and of a loop's counter, on
 * memory that is partly uninitialized: once as they are, so that many launches are proved to use nothing uninitialized,
 * and once with a store to shared memory, so that none is. Both must report the same and leave the same memory
 * uninitialized.
 */
import { assert, assertEquals } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";

const bytes = 512;

/** An access by all threads, at a place that depends on the thread and on the iteration. */
interface Access {
  readonly kind: "ld" | "st" | "red";
  readonly buffer: number;
  readonly ofThread: number;
  readonly ofBlock: number;
  readonly ofIteration: number;
  readonly constant: number;
}

interface Program {
  readonly grid: number;
  readonly block: number;
  /** How many threads of a block access anything. */
  readonly limit: number;
  readonly iterations: number;
  readonly accesses: readonly Access[];
  /** Which words of each buffer are filled before. */
  readonly filled: readonly (readonly [begin: number, words: number])[];
  readonly readsUnset: boolean;
}

function programOf(random: Random): Program {
  const [grid, block] = [1 + random.below(3), 1 + random.below(6)];
  const usual = [4, 4 * block, 4 * block * grid];
  const accesses = Array.from({ length: 1 + random.below(4) }, (): Access => {
    const [ofThread, ofBlock, ofIteration] = usual.map((often) => random.percent(80) ? often : 4 * random.below(3));
    return {
      kind: random.percent(50) ? "ld" : random.percent(80) ? "st" : "red",
      buffer: random.below(2),
      ofThread: ofThread!,
      ofBlock: ofBlock!,
      ofIteration: ofIteration!,
      constant: 4 * random.below(4),
    };
  });
  const words = bytes / 4;
  const filled = Array.from({ length: 2 }, () => {
    if (random.percent(50)) return [0, words] as const;
    const begin = random.below(20);
    return [begin, random.percent(50) ? words - begin : random.below(40)] as const;
  });
  const limit = random.percent(70) ? block : 1 + random.below(block);
  return { grid, block, limit, iterations: 1 + random.below(3), accesses, filled, readsUnset: random.percent(10) };
}

function ptxOf({ limit, iterations, accesses, readsUnset }: Program, isProvable: boolean): string {
  const body = accesses.map(({ kind, buffer, ofThread, ofBlock, ofIteration, constant }) => `
  mul.lo.u32 %r4, %r1, ${ofThread};
  mad.lo.u32 %r4, %r2, ${ofBlock}, %r4;
  mad.lo.u32 %r4, %r3, ${ofIteration}, %r4;
  cvt.u64.u32 %rd2, %r4;
  add.u64 %rd2, %rd${buffer}, %rd2;
  ${
    kind === "ld"
      ? `ld.global.u32 %r5, [%rd2+${constant}]; add.u32 %r6, %r6, %r5;`
      : kind === "st"
      ? `st.global.u32 [%rd2+${constant}], %r6;`
      : `red.global.add.u32 [%rd2+${constant}], %r6;`
  }`);
  return `.version 8.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 first, .param .u64 second) {
  .shared .b32 one;
  .reg .pred %p0, %p1;
  .reg .b32 %r<9>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [first];
  ld.param.u64 %rd1, [second];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, 0;
  mov.u32 %r6, ${readsUnset ? "%r7" : "1"};
  setp.ge.u32 %p0, %r1, ${limit};
  @%p0 bra done;
loop:${body.join("")}
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, ${iterations};
  @%p1 bra loop;
  setp.eq.u32 %p0, %r6, 0x7fffffff;
  @%p0 bra done;
done:
  ${isProvable ? "" : "st.shared.u32 [one], 1;"}
  ret;
}
// Reports each word of which a byte is uninitialized.
.visible .entry probe(.param .u64 data) {
  .reg .pred %p0;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r2, [%rd1];
  setp.eq.u32 %p0, %r2, 0x7fffffff;
  @%p0 bra done;
done:
  ret;
}
`;
}

/** What is reported of a kernel, and then of the words of each buffer. */
function reportsOf(program: Program, isProvable: boolean): unknown[] {
  const { grid, block, filled } = program;
  const found: SanitizerReport[] = [];
  using cuda = open({
    driver: "software",
    sanitize: ["initialization"],
    onReport: (report) => void found.push(report),
  });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using first = pool.allocate(bytes, stream);
  using second = pool.allocate(bytes, stream);
  const buffers = [first, second];
  buffers.forEach((buffer, index) => {
    const [begin, words] = filled[index]!;
    if (words > 0) buffer.subarray(begin * 4, (begin + words) * 4).fill(1, stream);
  });
  using module = gpu.loadModule(ptxOf(program, isProvable));
  module.kernel("test").launch({ grid, block, stream }, first, second);
  for (const buffer of buffers) {
    for (let at = 0; at < bytes; at += 128) {
      module.kernel("probe").launch({ grid: 1, block: 32, stream }, buffer.subarray(at, at + 128));
    }
  }
  stream.synchronize();
  return found.map(({ kind, count, accesses }) => [
    kind,
    count,
    accesses.map(({ operation, block, thread, source }) => [operation, block, thread, source]),
  ]);
}

test("proved launches report and leave the same as others", () => {
  const count = isLong ? 2000 : 25;
  let reported = 0;
  for (let seed = 1; seed <= count; seed++) {
    const program = programOf(new Random(seed));
    const expected = reportsOf(program, false);
    assertEquals(reportsOf(program, true), expected, `seed ${seed}: ${JSON.stringify(program)}`);
    if (JSON.stringify(expected).includes("kernel test")) reported++;
  }
  assert(reported > count / 10 && reported < count * 0.9, `${reported} of ${count} are reported`);
});
