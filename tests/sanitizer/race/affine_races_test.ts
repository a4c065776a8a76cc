/**
 * Random kernels whose addresses are sums of multiples of the thread's index, of the block's and of a loop's counter,
 * beside a list of all bytes that each thread accesses: races are reported where bytes are shared, and nowhere else.
 */
import { assert } from "@std/assert";
import { open } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";

/** An access by all threads, at a place that depends on the thread and on the iteration. */
interface Access {
  readonly writes: boolean;
  readonly bytes: number;
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
}

function programOf(random: Random): Program {
  const [grid, block] = [1 + random.below(3), 1 + random.below(6)];
  const iterations = 1 + random.below(5);
  const strides = [0, 1, 2, block, block, block * grid, block * grid, iterations];
  const widths = [1, 4, 4, 8];
  const bytes = widths[random.below(4)]!;
  const usual = [1, block, block * grid];
  const accesses = Array.from({ length: 1 + random.below(3) }, (): Access => {
    const width = random.percent(80) ? bytes : widths[random.below(4)]!;
    const multiple = (often: number) => bytes * (random.percent(80) ? often : strides[random.below(8)]!);
    const [ofThread, ofBlock, ofIteration] = usual.map((often) => Math.ceil(multiple(often) / width) * width);
    return {
      writes: random.percent(60),
      bytes: width,
      ofThread: ofThread!,
      ofBlock: ofBlock!,
      ofIteration: ofIteration!,
      constant: random.percent(60) ? 0 : width * random.below(6),
    };
  });
  return { grid, block, limit: random.percent(70) ? block : 1 + random.below(block), iterations, accesses };
}

function ptxOf({ block, limit, iterations, accesses }: Program): string {
  const body = accesses.map(({ writes, bytes, ofThread, ofBlock, ofIteration, constant }, index) => {
    const bits = bytes * 8, value = bits === 64 ? "%rd3" : "%r5";
    return `
  mul.lo.u32 %r4, %r1, ${ofThread};
  mad.lo.u32 %r4, %r2, ${ofBlock}, %r4;
  mad.lo.u32 %r4, %r3, ${ofIteration}, %r4;
  cvt.u64.u32 %rd2, %r4;
  add.u64 %rd2, %rd1, %rd2;
  mad.lo.u32 %r5, %r2, ${block}, %r1;
  add.u32 %r5, %r5, ${1 + 40 * index};
  cvt.u64.u32 %rd3, %r5;
  ${writes ? `st.global.u${bits} [%rd2+${constant}], ${value};` : `ld.global.u${bits} ${value}, [%rd2+${constant}];`}
  ${bits === 64 ? "cvt.u32.u64 %r5, %rd3;" : ""}
  add.u32 %r6, %r6, %r5;`;
  });
  return `.version 8.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 data) {
  .reg .pred %p0, %p1;
  .reg .b32 %r<7>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, 0;
  mov.u32 %r6, 0;
  setp.ge.u32 %p0, %r1, ${limit};
  @%p0 bra done;
loop:${body.join("")}
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, ${iterations};
  @%p1 bra loop;
  setp.eq.u32 %p0, %r6, 0x7fffffff;
  // What is loaded is used.
  @%p0 trap;
done:
  ret;
}
`;
}

/** Whether two threads access a byte that one of them writes. */
function hasRace({ grid, block, limit, iterations, accesses }: Program): boolean {
  const [readers, writers] = [new Map<number, Set<number>>(), new Map<number, Set<number>>()];
  for (let thread = 0; thread < grid * block; thread++) {
    const [x, y] = [thread % block, Math.floor(thread / block)];
    if (x >= limit) continue;
    for (let iteration = 0; iteration < iterations; iteration++) {
      for (const { writes, bytes, ofThread, ofBlock, ofIteration, constant } of accesses) {
        const begin = x * ofThread + y * ofBlock + iteration * ofIteration + constant;
        const all = writes ? writers : readers;
        for (let at = begin; at < begin + bytes; at++) all.set(at, (all.get(at) ?? new Set()).add(thread));
      }
    }
  }
  return [...writers].some(([at, threads]) => threads.union(readers.get(at) ?? new Set()).size > 1);
}

/** How often a kernel is reported. */
function reportsOf(ptx: string, { grid, block }: Program): number {
  let count = 0;
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: () => count++ });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using data = pool.allocate(16384, stream);
  data.fill(0);
  using module = gpu.loadModule(ptx);
  module.kernel("test").launch({ grid, block, stream }, data);
  stream.synchronize();
  return count;
}

test("kernels whose addresses are sums", () => {
  const count = isLong ? 3000 : 30;
  let racy = 0;
  for (let seed = 1; seed <= count; seed++) {
    const program = programOf(new Random(seed));
    const ptx = ptxOf(program);
    const expected = hasRace(program);
    const found = reportsOf(ptx, program) > 0;
    assert(found === expected, `seed ${seed}: ${expected ? "missed" : "false"} ${JSON.stringify(program)}\n${ptx}`);
    if (expected) racy++;
  }
  assert(racy > count / 10 && racy < count * 0.9, `${racy} of ${count} have races`);
});
