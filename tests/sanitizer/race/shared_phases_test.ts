/**
 * Random kernels that share memory in a block, with barriers, tiles, loops and reductions, beside a list of all bytes
 * that each thread accesses between two barriers. No kernel with a race may be proved to have none, and races are
 * reported where there are some, and nowhere else.
 */
import { assert, assertEquals } from "@std/assert";
import { open } from "../../../mod.ts";
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { kernelCode } from "../../../src/sanitizer/kernel_accesses/kernel_code.ts";
import { launchResult } from "../../../src/sanitizer/kernel_accesses/launch_run.ts";
import { PreparedCode } from "../../../src/sanitizer/kernel_accesses/thread_state.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";

/** An access at a sum of multiples of a thread's coordinates and of the counters of the loops around it. */
interface Access {
  readonly kind: "access";
  readonly writes: boolean;
  readonly ofX: number;
  readonly ofY: number;
  readonly ofLoops: readonly number[];
  readonly constant: number;
  /** Only threads whose x is less make it, or only that with this x. */
  readonly guard: { readonly relation: "lt" | "eq"; readonly value: number } | undefined;
}

type Item =
  | Access
  | { readonly kind: "barrier" }
  | Loop
  /** Threads access elements that are a stride apart. */
  | { readonly kind: "strided"; readonly writes: boolean; readonly stride: number; readonly end: number }
  /** A tree of sums. */
  | { readonly kind: "halving"; readonly start: number; readonly hasBarrier: boolean; readonly isOff: boolean };

/** A loop that threads leave in its midst. */
interface Loop {
  readonly kind: "loop";
  readonly count: number;
  /** How much more often each block goes around it than the one before. */
  readonly perBlock: number;
  readonly items: readonly Item[];
  readonly behind: readonly Item[];
}

interface Program {
  readonly x: number;
  readonly y: number;
  readonly grid: number;
  readonly isDynamic: boolean;
  readonly items: readonly Item[];
}

interface Thread {
  readonly x: number;
  readonly y: number;
  readonly block: number;
}

class Generator {
  readonly #random: Random;
  readonly #x: number;
  readonly #y: number;
  readonly #barrierPercent: number;

  constructor(random: Random) {
    this.#random = random;
    this.#x = [4, 8, 6, 40][random.below(4)]!;
    this.#y = this.#x > 8 ? 1 : 1 + random.below(4);
    this.#barrierPercent = [50, 85, 100][random.below(3)]!;
  }

  program(): Program {
    const random = this.#random;
    const items = this.#items(0);
    return { x: this.#x, y: this.#y, grid: 1 + random.below(2), isDynamic: random.percent(30), items };
  }

  #items(depth: number): Item[] {
    return Array.from({ length: 1 + this.#random.below(3) }, () => this.#group(depth)).flat();
  }

  #barrier(): Item[] {
    return this.#random.percent(this.#barrierPercent) ? [{ kind: "barrier" }] : [];
  }

  #group(depth: number): Item[] {
    const random = this.#random;
    const choice = random.below(10);
    if (choice < 3 && depth < 2) {
      const perBlock = random.percent(20) ? 1 : 0;
      const count = 1 + random.below(random.percent(80) ? 6 : 20);
      const items = this.#items(depth + 1), behind = random.percent(30) ? this.#items(depth + 1) : [];
      return [{ kind: "loop", count, perBlock, items, behind }, ...this.#barrier()];
    }
    if (choice === 3) {
      const stride = random.percent(80) ? this.#x : this.#x - 1;
      return [
        { kind: "strided", writes: random.percent(70), stride, end: this.#x * (1 + random.below(4)) + random.below(3) },
        ...this.#barrier(),
      ];
    }
    if (choice === 4 && depth === 0) {
      const start = this.#x >= 32 ? 16 : 4;
      const hasBarrier = random.percent(80);
      return [{ kind: "halving", start, hasBarrier, isOff: random.percent(20) }, ...this.#barrier()];
    }
    const accesses = Array.from({ length: 1 + random.below(2) }, () => this.#access(depth));
    return [...accesses, ...this.#barrier()];
  }

  #access(depth: number): Access {
    const random = this.#random;
    const [x, y] = [this.#x, this.#y];
    const [ofX, ofY] = [[1, x], [1, x], [y, 1], [1, x + 1], [2, 2 * x], [0, 1], [1, 0], [0, 0]][random.below(8)]!;
    const guarded = random.percent(25);
    return {
      kind: "access",
      writes: random.percent(55),
      ofX: 4 * ofX!,
      ofY: 4 * ofY!,
      ofLoops: Array.from({ length: depth }, () => random.percent(60) ? 0 : 4 * [1, x, x * y][random.below(3)]!),
      constant: random.percent(60) ? 0 : 4 * [1, x, x * y, 2 * x * y, random.below(8)][random.below(5)]!,
      guard: guarded ? { relation: random.percent(50) ? "lt" : "eq", value: random.below(x) } : undefined,
    };
  }
}

/** The PTX of a program. Each loop has a counter of its own: `%c` and the depth. */
class Writer {
  #labels = 0;
  readonly #lines: string[] = [];

  ptx({ isDynamic, items }: Program): string {
    this.#items(items, 0);
    return `.version 8.0
.target sm_90
.address_size 64
${isDynamic ? ".extern .shared .align 16 .b8 tile[];" : ""}
.visible .entry test(.param .u64 data) {
  .reg .pred %p0, %p1;
  .reg .b32 %r<8>, %c<3>, %e<3>;
  ${isDynamic ? "" : ".shared .align 16 .b8 tile[16384];"}
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r7, tile;
  mov.u32 %r6, 0;
${this.#lines.join("\n")}
  setp.eq.u32 %p0, %r6, 0x7fffffff;
  @%p0 trap;
  ret;
}
`;
  }

  #items(items: readonly Item[], depth: number): void {
    for (const item of items) this.#item(item, depth);
  }

  #move(writes: boolean, address: string): string {
    // Races of threads that write the same are none.
    const value = `mad.lo.u32 %r5, %r2, 64, %r1;\n  add.u32 %r5, %r5, ${4096 * ++this.#labels};`;
    return writes
      ? `${value}\n  st.shared.u32 [${address}], %r5;`
      : `ld.shared.u32 %r5, [${address}];\n  add.u32 %r6, %r6, %r5;`;
  }

  #item(item: Item, depth: number): void {
    const label = `L${this.#labels++}`;
    const lines = this.#lines;
    switch (item.kind) {
      case "barrier":
        lines.push("  bar.sync 0;");
        break;
      case "access": {
        const { guard, ofX, ofY, ofLoops, constant, writes } = item;
        if (guard !== undefined) {
          lines.push(`  setp.${guard.relation}.u32 %p0, %r1, ${guard.value};\n  @!%p0 bra ${label};`);
        }
        lines.push(`  mad.lo.u32 %r4, %r1, ${ofX}, %r7;\n  mad.lo.u32 %r4, %r2, ${ofY}, %r4;`);
        for (const [index, of] of ofLoops.entries()) lines.push(`  mad.lo.u32 %r4, %c${index}, ${of}, %r4;`);
        lines.push(`  ${this.#move(writes, `%r4+${constant}`)}\n${label}:`);
        break;
      }
      case "loop":
        lines.push(
          `  mov.u32 %c${depth}, 0;\n  mad.lo.u32 %e${depth}, %r3, ${item.perBlock}, ${item.count};\n${label}:`,
        );
        this.#items(item.items, depth + 1);
        lines.push(`  add.u32 %c${depth}, %c${depth}, 1;\n  setp.lt.u32 %p1, %c${depth}, %e${depth};`);
        lines.push(`  @!%p1 bra ${label}_end;`);
        this.#items(item.behind, depth + 1);
        lines.push(`  bra ${label};\n${label}_end:`);
        break;
      case "strided":
        lines.push(`  mov.u32 %c2, %r1;\n${label}:\n  mad.lo.u32 %r4, %c2, 4, %r7;`);
        lines.push(`  ${this.#move(item.writes, "%r4")}\n  add.u32 %c2, %c2, ${item.stride};`);
        lines.push(`  setp.lt.u32 %p1, %c2, ${item.end};\n  @%p1 bra ${label};`);
        break;
      case "halving":
        lines.push(`  mov.u32 %c2, ${item.start};\n${label}:\n  setp.${item.isOff ? "gt" : "ge"}.u32 %p0, %r1, %c2;`);
        lines.push(`  @%p0 bra ${label}_on;\n  mad.lo.u32 %r4, %r1, 4, %r7;\n  ld.shared.u32 %r5, [%r4];`);
        lines.push(`  add.u32 %r6, %r6, %r5;\n  add.u32 %r5, %r1, %c2;\n  mad.lo.u32 %r5, %r5, 4, %r7;`);
        lines.push(`  ld.shared.u32 %r5, [%r5];\n  add.u32 %r6, %r6, %r5;\n  st.shared.u32 [%r4], %r6;\n${label}_on:`);
        if (item.hasBarrier) lines.push("  bar.sync 0;");
        lines.push(`  shr.u32 %c2, %c2, 1;\n  setp.ne.u32 %p1, %c2, 0;\n  @%p1 bra ${label};`);
    }
  }
}

/** The first bytes of the words that a thread accesses, and its barriers. */
function* run(
  items: readonly Item[],
  thread: Thread,
  counters: readonly number[],
): Events {
  const { x, y, block } = thread;
  for (const item of items) {
    switch (item.kind) {
      case "barrier":
        yield "barrier";
        break;
      case "access": {
        const { guard, ofX, ofY, ofLoops, constant, writes } = item;
        if (guard !== undefined && !(guard.relation === "lt" ? x < guard.value : x === guard.value)) break;
        const at = x * ofX + y * ofY + constant + ofLoops.reduce((sum, of, index) => sum + of * counters[index]!, 0);
        yield { at, writes };
        break;
      }
      case "loop":
        for (let count = 1;; count++) {
          yield* run(item.items, thread, [...counters, count - 1]);
          if (count >= item.count + block * item.perBlock) break;
          yield* run(item.behind, thread, [...counters, count]);
        }
        break;
      case "strided": {
        let at = x;
        do {
          yield { at: at * 4, writes: item.writes };
          at += item.stride;
        } while (at < item.end);
        break;
      }
      case "halving":
        for (let half = item.start; half > 0; half >>= 1) {
          if (item.isOff ? x <= half : x < half) {
            yield { at: x * 4, writes: true };
            yield { at: (x + half) * 4, writes: false };
          }
          if (item.hasBarrier) yield "barrier";
        }
    }
  }
}

type Events = IterableIterator<{ readonly at: number; readonly writes: boolean } | "barrier", undefined>;

/** Whether two threads of a block access a word between two barriers that one of them writes. */
function hasRace({ x: width, y: height, grid, items }: Program): boolean {
  for (let block = 0; block < grid; block++) {
    const users = new Map<string, { readonly all: Set<number>; isWritten: boolean }>();
    for (let thread = 0; thread < width * height; thread++) {
      let phase = 0;
      const place = { x: thread % width, y: Math.floor(thread / width), block };
      for (const event of run(items, place, [])) {
        if (event === "barrier") phase++;
        else {
          const key = `${phase} ${event.at}`;
          const found = users.get(key) ?? { all: new Set(), isWritten: false };
          users.set(key, found);
          found.all.add(thread);
          if (event.writes) found.isWritten = true;
        }
      }
    }
    for (const { all, isWritten } of users.values()) if (isWritten && all.size > 1) return true;
  }
  return false;
}

function isProved(ptx: string, { x, y, grid }: Pick<Program, "x" | "y" | "grid">): boolean {
  const module = parsePtx(ptx);
  const code = new PreparedCode(kernelCode(module.functions[0]!, module));
  const parameters = new DataView(new ArrayBuffer(8));
  return launchResult(code, module.lineInfo, { grid: [grid, 1, 1], block: [x, y, 1], parameters }).separate !==
    undefined;
}

/** How often a kernel is reported. */
function reportsOf(ptx: string, { x, y, grid, isDynamic }: Program): number {
  let count = 0;
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: () => count++ });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using module = gpu.loadModule(ptx);
  const sharedMemoryBytes = isDynamic ? 16384 : 0;
  module.kernel("test").launch({ grid, block: [x, y], stream, sharedMemoryBytes }, 0n);
  stream.synchronize();
  return count;
}

test("kernels that share memory in a block", () => {
  const [count, launches] = isLong ? [20000, 4000] : [80, 10];
  let racy = 0, proved = 0;
  for (let seed = 1; seed <= count; seed++) {
    const program = new Generator(new Random(seed)).program();
    const ptx = new Writer().ptx(program);
    const expected = hasRace(program);
    const details = () => `seed ${seed}: ${JSON.stringify(program)}\n${ptx}`;
    if (expected) racy++;
    if (isProved(ptx, program)) {
      proved++;
      assert(!expected, `proved in spite of a race: ${details()}`);
    }
    if (seed <= launches) assertEquals(reportsOf(ptx, program) > 0, expected, details());
  }
  assert(racy > count / 10 && racy < count * 0.9, `${racy} of ${count} have races`);
  assert(proved > (count - racy) / 2, `${proved} of ${count - racy} without races are proved to have none`);
  if (isLong) console.log(`${racy} of ${count} have races, and ${proved} are proved to have none`);
});

const barrier: Item = { kind: "barrier" };

/** Threads that access words side by side, a row of 8 further with each iteration if `rows` is 1. */
function access(writes: boolean, { rows = 0, constant = 0 }: { rows?: number; constant?: number } = {}): Item {
  return { kind: "access", writes, ofX: 4, ofY: 0, ofLoops: [32 * rows], constant, guard: undefined };
}

function loop(items: readonly Item[], { count = 10, perBlock = 0, behind = [] as readonly Item[] } = {}): Item {
  return { kind: "loop", count, perBlock, items, behind };
}

/** An access behind all loops. */
function accessBehind(constant: number): Item {
  return { kind: "access", writes: false, ofX: 4, ofY: 0, ofLoops: [], constant, guard: undefined };
}

const racyLoops: Readonly<Record<string, readonly Item[]>> = {
  "a late iteration, and the next": [loop([access(true, { constant: 164 }), barrier, access(false, { rows: 1 })])],
  "the last iteration, and what follows": [loop([barrier, access(true)], { behind: [barrier] }), accessBehind(4)],
  "an iteration of the last block only, and what follows": [
    loop([barrier, access(true, { rows: 1 })], { count: 1, perBlock: 1 }),
    { kind: "access", writes: false, ofX: 0, ofY: 0, ofLoops: [], constant: 36, guard: undefined },
  ],
};

for (const [name, items] of Object.entries(racyLoops)) {
  test(`races in shared memory of ${name}`, () => {
    const program: Program = { x: 8, y: 1, grid: 2, isDynamic: false, items };
    const ptx = new Writer().ptx(program);
    assert(hasRace(program));
    assertEquals(isProved(ptx, program), false, ptx);
  });
}

/** What is between a write and the read of another thread's word, in PTX. */
const skipped: Readonly<Record<string, string>> = {
  "a guard": "setp.lt.u32 %p0, %r1, 2;\n  @%p0 bar.sync 0;",
  "a loop that some threads go around more often":
    "add.u32 %c0, %r1, 0;\nlonger:\n  bar.sync 0;\n  add.u32 %c0, %c0, 8;\n  setp.lt.u32 %p0, %c0, 83;\n  @%p0 bra longer;",
  "only the first block": "setp.eq.u32 %p0, %r3, 0;\n  @%p0 bar.sync 0;",
  "a count of threads": "bar.sync 0, 32;",
  "a warp's barrier": "bar.warp.sync -1;",
};

for (const [name, ptx] of Object.entries(skipped)) {
  test(`a barrier that not all threads wait at proves nothing: ${name}`, () => {
    const items = [loop([access(true)]), barrier, accessBehind(4)];
    const program: Program = { x: 8, y: 1, grid: 2, isDynamic: false, items };
    const whole = new Writer().ptx(program);
    assertEquals(isProved(whole, program), true);
    assertEquals(isProved(whole.replace("bar.sync 0;", ptx), program), false);
  });
}
