/**
 * Random kernels of accesses and barriers, and of accesses, fences, releases and acquisitions, beside an oracle that knows
 * the order of all accesses: a graph, in which one comes before another if there is a path. It shares nothing with the check.
 */
import { assert } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";

/** An access or a barrier, with those that it comes after directly. */
interface Node {
  readonly after: Node[];
}

/** An access to some bytes, by the line of its instruction. */
interface Access extends Node {
  readonly line: number;
  readonly thread: number;
  readonly space: string;
  readonly begin: number;
  readonly bytes: number;
  readonly writes: boolean;
  readonly reads: boolean;
  readonly isStrong: boolean;
  readonly isWide: boolean;
}

function comesBefore(first: Node, second: Node): boolean {
  const waiting = [second], seen = new Set<Node>();
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node === first) return true;
    if (seen.has(node)) continue;
    seen.add(node);
    waiting.push(...node.after);
  }
  return false;
}

/** Whether two accesses of different threads conflict. Threads of one block are in each other's scope. */
function conflict(a: Access, b: Access, inOneBlock: boolean): boolean {
  if (a.thread === b.thread || a.space !== b.space || !a.writes && !b.writes) return false;
  if (a.begin >= b.begin + b.bytes || b.begin >= a.begin + a.bytes) return false;
  const areScopesWide = inOneBlock || a.isWide && b.isWide;
  return !(a.isStrong && b.isStrong && areScopesWide && a.begin === b.begin && a.bytes === b.bytes);
}

/** The bytes that both accesses of a race access. */
interface Overlap {
  readonly space: string;
  readonly begin: number;
  readonly end: number;
}

/** The racing pairs of lines. */
function racesOf(accesses: readonly Access[], inOneBlock: boolean): Map<string, Overlap> {
  const races = new Map<string, Overlap>();
  accesses.forEach((later, index) => {
    for (const earlier of accesses.slice(0, index)) {
      if (!conflict(later, earlier, inOneBlock) || comesBefore(earlier, later) || comesBefore(later, earlier)) continue;
      races.set(keyOf([later.line, earlier.line]), {
        space: later.space,
        begin: Math.max(later.begin, earlier.begin),
        end: Math.min(later.begin + later.bytes, earlier.begin + earlier.bytes),
      });
    }
  });
  return races;
}

function keyOf(lines: readonly number[]): string {
  return [...lines].sort((a, b) => a - b).join();
}

/** A kernel that is written line by line. */
class Program {
  readonly lines = [
    ".version 8.0",
    ".target sm_80",
    ".address_size 64",
    ".visible .entry test(.param .u64 data)",
    "{",
    "  .reg .pred %p<1>;",
    "  .reg .b32 %r<3>;",
    "  .reg .b64 %rd<2>;",
    "  .shared .align 8 .b8 shared[32];",
    "  ld.param.u64 %rd1, [data];",
  ];
  readonly accesses: Access[] = [];
  #label = 0;

  /** Adds instructions for some threads, and returns the line of the last one. */
  onlyIf(condition: string, ...instructions: string[]): number {
    const label = `next${this.#label++}`;
    this.lines.push(`  ${condition}`, `  @!%p0 bra ${label};`, ...instructions.map((text) => `  ${text}`));
    const line = this.lines.length;
    this.lines.push(`${label}:`);
    return line;
  }

  get ptx(): string {
    return [...this.lines, "  ret;", "}", ""].join("\n");
  }
}

/** Runs a kernel, and returns its reports. */
function reportsOf(ptx: string, grid: number, block: number): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using data = pool.allocate(256, stream);
  data.fill(0);
  using module = gpu.loadModule(ptx);
  module.kernel("test").launch({ grid, block, stream }, data);
  stream.synchronize();
  return reports;
}

/** Compares the reports with the oracle: each reported pair races, and of the bytes with a race, one is reported. */
function compare(program: Program, shape: { grid: number; block: number }, seed: number): number {
  const races = racesOf(program.accesses, shape.grid === 1);
  const reports = reportsOf(program.ptx, shape.grid, shape.block);
  const lines = reports.map(({ accesses }) =>
    keyOf(accesses.map(({ source }) => Number(source!.replace("PTX line ", ""))))
  );
  const text = `seed ${seed}\n${program.lines.map((line, index) => `${index + 1} ${line}`).join("\n")}`;
  for (const pair of lines) assert(races.has(pair), `the lines ${pair} do not race: ${text}`);
  const reported = lines.map((pair) => races.get(pair)!);
  for (const [pair, { space, begin, end }] of races) {
    const isReported = reported.some((other) => other.space === space && other.begin < end && begin < other.end);
    assert(isReported, `the race of the lines ${pair} is missed: ${text}`);
  }
  return races.size;
}

const count = isLong ? 3000 : 40;
const threads = [0, 1, 17, 32, 33, 64, 95];
const warps = 3;

/** A block of three warps, with barriers of all threads, of two warps, of a warp, and of a half. */
function barriersOf(random: Random): Program {
  const program = new Program();
  const last = new Map<number, Node>(Array.from({ length: warps * 32 }, (_, thread) => [thread, { after: [] }]));
  const meet = (met: readonly number[], arrived: readonly number[] = []) => {
    const barrier: Node = { after: [...met, ...arrived].map((thread) => last.get(thread)!) };
    for (const thread of met) last.set(thread, barrier);
  };
  const warpOf = (warp: number) => Array.from({ length: 32 }, (_, lane) => warp * 32 + lane);
  const arrivals = new Set<number>();
  program.lines.push("  mov.u32 %r2, %tid.x;");
  const steps = 4 + random.below(24);
  for (let step = 0; step < steps; step++) {
    const kind = random.below(12);
    const warp = random.below(warps), other = (warp + 1 + random.below(warps - 1)) % warps;
    const twoWarps = `{ .reg .b32 w; .reg .pred a, b; shr.u32 w, %r2, 5; setp.eq.u32 a, w, ${warp}; ` +
      `setp.eq.u32 b, w, ${other}; or.pred %p0, a, b; }`;
    const isOf = (warp: number) => `{ .reg .b32 w; shr.u32 w, %r2, 5; setp.eq.u32 %p0, w, ${warp}; }`;
    if (kind === 0) {
      program.lines.push("  bar.sync 0;");
      meet([...last.keys()]);
    } else if (kind === 1) {
      program.onlyIf(twoWarps, `bar.sync ${warp + other}, 64;`);
      meet([...warpOf(warp), ...warpOf(other)]);
    } else if (kind === 2) {
      program.onlyIf(isOf(warp), "bar.warp.sync -1;");
      meet(warpOf(warp));
    } else if (kind === 3) {
      program.onlyIf(`{ .reg .b32 l; and.b32 l, %r2, 31; setp.lt.u32 %p0, l, 16; }`, "bar.warp.sync 0xffff;");
      for (let each = 0; each < warps; each++) meet(warpOf(each).slice(0, 16));
    } else if (kind === 4 && !arrivals.has(4 + warp * warps + other)) {
      // A warp that arrives twice would complete the barrier alone.
      const barrier = 4 + warp * warps + other;
      arrivals.add(barrier);
      program.onlyIf(isOf(warp), `bar.arrive ${barrier}, 64;`);
      program.onlyIf(isOf(other), `bar.sync ${barrier}, 64;`);
      meet(warpOf(other), warpOf(warp));
    } else {
      addAccess(program, random, {
        last,
        thread: threads[random.below(threads.length)]!,
        condition: "setp.eq.u32 %p0, %r2, ",
      });
    }
  }
  // Threads that exit count as arrived at the barriers of others.
  program.lines.push("  bar.sync 0;");
  return program;
}

/** Adds an access of one thread to a few words. */
function addAccess(
  program: Program,
  random: Random,
  { last, thread, condition, scopes = ["gpu"] }: {
    last: Map<number, Node>;
    thread: number;
    condition: string;
    scopes?: readonly string[];
  },
): Access {
  const isShared = scopes.length === 1 && random.below(2) === 0;
  const bits = [32, 32, 32, 16, 8, 64][random.below(6)]!;
  const bytes = bits / 8;
  const begin = random.below(16 / bytes) * bytes;
  const address = isShared ? `[shared+${begin}]` : `[%rd1+${begin}]`;
  const space = isShared ? "shared" : "global";
  // With several blocks, what is read by strong loads and by atomics may be acquired: only `ordersOf` does that.
  const kinds = scopes.length > 1 ? [0, 1, 3] : bits >= 32 ? [0, 1, 2, 3, 4, 5] : [0, 1, 2, 3];
  const kind = kinds[random.below(kinds.length)]!;
  const scope = scopes[random.below(scopes.length)]!;
  const register = bits === 64 ? "%rd0" : "%r0";
  // Every store stores what no other one does.
  const value = program.lines.length + 1;
  const instructions = [
    `ld.${space}.u${bits} ${register}, ${address};`,
    `st.${space}.u${bits} ${address}, ${value};`,
    `ld.relaxed.${scope}.${space}.u${bits} ${register}, ${address};`,
    `st.relaxed.${scope}.${space}.u${bits} ${address}, ${value};`,
    `atom.relaxed.gpu.${space}.add.u${bits} ${register}, ${address}, 1;`,
    `red.relaxed.gpu.${space}.add.u${bits} ${address}, 1;`,
  ];
  const line = program.onlyIf(`${condition}${thread};`, instructions[kind]!);
  const access: Access = {
    after: [last.get(thread)!],
    line,
    thread,
    space,
    begin,
    bytes,
    writes: kind !== 0 && kind !== 2,
    reads: kind !== 1 && kind !== 3 && kind !== 5,
    isStrong: kind >= 2,
    isWide: kind >= 4 || scope === "gpu",
  };
  last.set(thread, access);
  program.accesses.push(access);
  return access;
}

test("kernels with barriers", () => {
  let races = 0, silent = 0;
  for (let seed = 1; seed <= count; seed++) {
    const found = compare(barriersOf(new Random(seed)), { grid: 1, block: warps * 32 }, seed);
    races += found;
    if (found === 0) silent++;
  }
  assert(races > count && silent > 0, `${races} races, ${silent} kernels without`);
});

/** A synchronizing operation of a block of one thread. */
interface Order extends Node {
  readonly block: number;
  readonly place: number;
  readonly kind: "load" | "store" | "update" | "fence";
  readonly acquires: boolean;
  readonly releases: boolean;
  readonly isWide: boolean;
  /** The operation that it reads from. */
  from?: Order | undefined;
}

const blocks = 4;

function inScope(a: Order, b: Order): boolean {
  return a.block === b.block || a.isWide && b.isWide;
}

/** Blocks of one thread, one after another, with releases and acquisitions at two places. */
function ordersOf(random: Random): Program {
  const program = new Program();
  const last = new Map<number, Node>(Array.from({ length: blocks }, (_, block) => [block, { after: [] }]));
  program.lines.push("  mov.u32 %r2, %ctaid.x;");
  const orders: Order[] = [];
  for (let block = 0; block < blocks; block++) {
    const steps = 2 + random.below(7);
    for (let step = 0; step < steps; step++) {
      if (random.below(5) < 2) {
        const condition = "setp.eq.u32 %p0, %r2, ";
        addAccess(program, random, { last, thread: block, condition, scopes: ["gpu", "cta"] });
        continue;
      }
      const kind = (["load", "store", "update", "fence"] as const)[random.below(4)]!;
      const place = 128 + 4 * random.below(2);
      const isWide = kind === "update" || random.below(4) > 0;
      const scope = isWide ? "gpu" : "cta";
      const [acquires, releases] = kind === "fence"
        ? [true, true]
        : [kind !== "store" && random.below(2) === 0, kind !== "load" && random.below(2) === 0];
      const semantics = acquires ? releases ? "acq_rel" : "acquire" : releases ? "release" : "relaxed";
      const address = `[%rd1+${place}]`;
      const instruction = {
        load: `ld.${semantics}.${scope}.global.u32 %r0, ${address};`,
        store: `st.${semantics}.${scope}.global.u32 ${address}, 1;`,
        update: `atom.${semantics}.${scope}.global.add.u32 %r0, ${address}, 1;`,
        fence: `fence.acq_rel.${scope};`,
      }[kind];
      const line = program.onlyIf(`setp.eq.u32 %p0, %r2, ${block};`, instruction);
      const order: Order = { after: [last.get(block)!], block, place, kind, acquires, releases, isWide };
      const writer = orders.findLast((other) => other.place === place && writes(other));
      if (kind === "load" || kind === "update") order.from = writer;
      orders.push(order);
      last.set(block, order);
      if (kind === "fence") continue;
      program.accesses.push(Object.assign(order, {
        line,
        thread: block,
        space: "global",
        begin: place,
        bytes: 4,
        writes: writes(order),
        reads: kind !== "store",
        isStrong: true,
      }));
    }
  }
  synchronize(orders);
  return program;
}

function writes({ kind }: Order): boolean {
  return kind === "store" || kind === "update";
}

/** Adds what synchronizes: the first operation of a release pattern, and the last of an acquire pattern. */
function synchronize(orders: readonly Order[]): void {
  orders.forEach((read, index) => {
    if (read.kind !== "load" && read.kind !== "update") return;
    const acquiring = orders.slice(index).filter((last) => {
      if (last.block !== read.block) return false;
      return last === read ? read.acquires : last.kind === "fence" || last.acquires && last.place === read.place;
    });
    // The stores that it observes, by updates in between.
    let reader: Order = read;
    for (let write = read.from; write !== undefined && inScope(write, reader); write = write.from) {
      const position = orders.indexOf(write);
      const releasing = orders.slice(0, position + 1).filter((first) => {
        if (first.block !== write!.block) return false;
        return first === write
          ? write!.releases
          : first.kind === "fence" || first.releases && first.place === write!.place;
      });
      for (const first of releasing) {
        for (const last of acquiring) if (first.block !== last.block && inScope(first, last)) last.after.push(first);
      }
      if (write.kind !== "update") break;
      reader = write;
    }
  });
}

test("kernels with releases and acquisitions", () => {
  let races = 0, silent = 0;
  for (let seed = 1; seed <= count; seed++) {
    const found = compare(ordersOf(new Random(seed)), { grid: blocks, block: 1 }, seed);
    races += found;
    if (found === 0) silent++;
  }
  assert(races > count && silent > 0, `${races} races, ${silent} kernels without`);
});
