/**
 * Random kernels whose addresses are sums of multiples of the thread's index, of the block's and of a loop's counter, on
 * memory that is partly uninitialized: once as they are, so that many launches are proved to use nothing uninitialized,
 * and once with a store to local memory, so that none is. Both must report the same and leave the same memory
 * uninitialized. Some share memory in a block, before, in and behind the loop.
 */
import { assert, assertEquals } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { kernelCode } from "../../../src/sanitizer/kernel_accesses/kernel_code.ts";
import { launchResult } from "../../../src/sanitizer/kernel_accesses/launch_run.ts";
import { PreparedCode } from "../../../src/sanitizer/kernel_accesses/thread_state.ts";
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

/** A load or a store of shared memory, at a place as of an access, or a barrier. */
interface SharedStep extends Omit<Access, "kind" | "buffer"> {
  readonly kind: "ld" | "st" | "bar";
  /** Only threads below make it. Of barriers: only blocks below. */
  readonly limit: number;
}

interface Program {
  readonly grid: number;
  readonly block: number;
  /** How many threads of a block access anything. */
  readonly limit: number;
  readonly iterations: number;
  readonly accesses: readonly Access[];
  /** What is done with shared memory before the loop, in it behind the accesses, and behind it. */
  readonly shared: readonly [before: SharedStep[], within: SharedStep[], behind: SharedStep[]];
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
  const sharesMemory = random.percent(60);
  const shared: Program["shared"] = [0, 1, 2].map(() => sharesMemory ? sharedSteps(random, { grid, block }) : []) as [
    SharedStep[],
    SharedStep[],
    SharedStep[],
  ];
  if (sharesMemory && random.percent(60)) {
    const store: SharedStep = { kind: "st", ofThread: 4, ofBlock: 0, ofIteration: 0, constant: 0, limit: Infinity };
    shared[random.below(2)]!.unshift(store, { ...store, constant: 4 * block }, { ...store, kind: "bar" });
  }
  const limit = sharesMemory || random.percent(70) ? block : 1 + random.below(block);
  const iterations = 1 + random.below(6);
  return { grid, block, limit, iterations, accesses, shared, filled, readsUnset: random.percent(10) };
}

function sharedSteps(random: Random, { grid, block }: Pick<Program, "grid" | "block">): SharedStep[] {
  return Array.from({ length: random.below(5) }, () => {
    const kind = random.percent(40) ? "bar" : random.percent(55) ? "st" : "ld";
    return {
      kind,
      ofThread: random.percent(75) ? 4 : 4 * random.below(3),
      ofBlock: random.percent(85) ? 0 : 4 * random.below(3),
      ofIteration: random.percent(70) ? 0 : 4 * [block, 1, 2][random.below(3)]!,
      constant: random.percent(75) ? 0 : 4 * random.below(4),
      limit: random.percent(85) ? Infinity : random.below(kind === "bar" ? grid : block),
    };
  });
}

function sharedPtx(steps: readonly SharedStep[], place: string): string {
  return steps.map(({ kind, ofThread, ofBlock, ofIteration, constant, limit }, index) => {
    const label = `${place}${index}`;
    const guard = limit === Infinity ? "" : `
  setp.ge.u32 %p0, ${kind === "bar" ? "%r2" : "%r1"}, ${limit};
  @%p0 bra ${label};`;
    const move = kind === "st"
      ? `st.shared.u32 [%r4+${constant}], %r6;`
      : `ld.shared.u32 %r5, [%r4+${constant}];\n  add.u32 %r6, %r6, %r5;`;
    const address = `
  mov.u32 %r4, tile;
  mad.lo.u32 %r4, %r1, ${ofThread}, %r4;
  mad.lo.u32 %r4, %r2, ${ofBlock}, %r4;
  mad.lo.u32 %r4, %r3, ${ofIteration}, %r4;`;
    return `${guard}${kind === "bar" ? "\n  bar.sync 0;" : `${address}\n  ${move}`}\n${label}:`;
  }).join("");
}

function ptxOf({ limit, iterations, accesses, shared, readsUnset }: Program, isProvable: boolean): string {
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
  .shared .align 4 .b8 tile[512];
  .local .b32 one;
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
${sharedPtx(shared[0], "before")}
loop:${body.join("")}${sharedPtx(shared[1], "within")}
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, ${iterations};
  @%p1 bra loop;
${sharedPtx(shared[2], "behind")}
  setp.eq.u32 %p0, %r6, 0x7fffffff;
  @%p0 bra done;
done:
  ${isProvable ? "" : "st.local.u32 [one], 1;"}
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

/** Whether all that the kernel reads of shared memory is proved to be written before. */
function isProved(program: Program): boolean {
  const module = parsePtx(ptxOf(program, true));
  const { functions: [kernel], lineInfo } = module;
  const code = new PreparedCode(kernelCode(kernel!, module));
  const { grid, block } = program;
  const parameters = new DataView(new ArrayBuffer(16));
  return launchResult(code, lineInfo, { grid: [grid, 1, 1], block: [block, 1, 1], parameters }).isAll();
}

test("proved launches report and leave the same as others", () => {
  const count = isLong ? 2000 : 40;
  let reported = 0, shared = 0, proved = 0;
  for (let seed = 1; seed <= count; seed++) {
    const program = programOf(new Random(seed));
    const expected = reportsOf(program, false);
    assertEquals(reportsOf(program, true), expected, `seed ${seed}: ${JSON.stringify(program)}`);
    if (JSON.stringify(expected).includes("kernel test")) reported++;
    if (!program.shared.some((steps) => steps.some(({ kind }) => kind === "ld"))) continue;
    shared++;
    if (isProved(program)) proved++;
  }
  assert(reported > count / 10 && reported < count * 0.9, `${reported} of ${count} are reported`);
  assert(proved > shared / 10 && proved < shared * 0.9, `${proved} of ${shared} with shared memory are proved`);
  if (isLong) console.log(`${reported} of ${count} are reported; ${proved} of ${shared} with shared memory are proved`);
});
