/**
 * Random kernels with barriers in conditions and loops, beside a list of the barriers that each thread comes to. None may
 * be proved to have uniform barriers if some threads of a block come to others, and the reports are the same whether what
 * is proved is looked at or not.
 */
import { assert, assertEquals } from "@std/assert";
import { CudaError, type SanitizerReport } from "../../../mod.ts";
import type { KernelChecker } from "../../../src/kernel_checker.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { kernelCode } from "../../../src/sanitizer/kernel_accesses/kernel_code.ts";
import { launchResult } from "../../../src/sanitizer/kernel_accesses/launch_run.ts";
import { PreparedCode } from "../../../src/sanitizer/kernel_accesses/thread_state.ts";
import { Sanitizer } from "../../../src/sanitizer/sanitizer.ts";
import { Session } from "../../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../../src/software/software_driver.ts";
import { inspect } from "node:util";
import { Random } from "../../differential/random.ts";
import { adaptedDriver } from "../../support/adapted_driver.ts";
import { isLong, test } from "../../support/test.ts";
import { kernelOf } from "../memory/programs.ts";

/** A number that threads compare: their own, that of their block, the argument, or how often they were in a loop. */
type Source = "thread" | "row" | "block" | "argument" | "turn";

interface Condition {
  readonly source: Source;
  readonly relation: "lt" | "eq" | "odd";
  readonly value: number;
  /** What is compared instead of the source: a product and sum that may wrap around. */
  readonly wraps?: Wrapping;
}

/** `source * factor + summand`, modulo two to the power of the bits. */
interface Wrapping {
  readonly bits: 16 | 32 | 64;
  readonly factor: bigint;
  readonly summand: bigint;
  readonly isSigned: boolean;
  /** Whether it is the lower half of a register of twice as many bits, whose upper half is 0. */
  readonly isHalf: boolean;
}

const widths = [16, 32, 64] as const;

function randomWrapping(random: Random): Wrapping {
  const bits = widths[random.below(3)]!;
  // Near where numbers wrap around, with or without a sign.
  const near = (power: number) => (1n << BigInt(power)) - BigInt(random.below(40)) + 20n;
  const summand = random.percent(30) ? BigInt(random.below(9)) : near(bits - random.below(2));
  const factor = random.percent(60) ? BigInt(1 + random.below(5)) : 1n << BigInt(random.below(bits));
  return { bits, factor, summand, isSigned: random.percent(50), isHalf: bits < 64 && random.percent(30) };
}

function wrapped(value: number, { bits, factor, summand, isSigned, isHalf }: Wrapping): bigint {
  const result = BigInt(value) * factor + summand;
  return isSigned && !isHalf ? BigInt.asIntN(bits, result) : BigInt.asUintN(bits, result);
}

type Item =
  | { readonly kind: "barrier"; readonly number: number }
  | { readonly kind: "store" }
  | { readonly kind: "ballot" }
  | {
    readonly kind: "if";
    readonly condition: Condition;
    readonly items: readonly Item[];
    readonly other: readonly Item[];
  }
  | { readonly kind: "return"; readonly condition: Condition }
  /** Goes around as often as the sum of a constant and a source. */
  | { readonly kind: "loop"; readonly source: Source; readonly count: number; readonly items: readonly Item[] };

interface Program {
  readonly items: readonly Item[];
  readonly grid: number;
  readonly block: readonly [x: number, y: number];
  readonly argument: number;
}

const sources = ["thread", "row", "block", "argument", "turn"] as const;

function randomProgram(random: Random): Program {
  const block = ([[32, 1], [40, 1], [8, 8], [64, 1]] as const)[random.below(4)]!;
  const isVaried = random.percent(50);
  const condition = (): Condition => ({
    source: isVaried ? sources[random.below(5)]! : sources[2 + random.below(3)]!,
    relation: (["lt", "eq", "odd"] as const)[random.below(3)]!,
    value: random.below(random.percent(30) ? 40 : 4),
    ...random.percent(25) ? { wraps: randomWrapping(random) } : {},
  });
  const items = (depth: number): Item[] => Array.from({ length: 1 + random.below(3) }, () => item(depth));
  const item = (depth: number): Item => {
    const kind = random.below(depth > 2 ? 5 : 10);
    if (kind < 3) return { kind: "barrier", number: random.percent(4) ? 1 : 0 };
    if (kind === 3) return { kind: "store" };
    if (kind === 4) {
      return random.percent(15)
        ? { kind: "ballot" }
        : random.percent(15)
        ? { kind: "return", condition: condition() }
        : { kind: "store" };
    }
    if (kind < 8) {
      return {
        kind: "if",
        condition: condition(),
        items: items(depth + 1),
        other: random.percent(50) ? [] : items(depth + 1),
      };
    }
    const source = isVaried && random.percent(40) ? "row" : (["block", "argument", "turn"] as const)[random.below(3)]!;
    return { kind: "loop", source, count: random.below(5), items: items(depth + 1) };
  };
  return { items: items(0), grid: [1, 2, 4, 6][random.below(4)]!, block, argument: random.below(4) };
}

/** The kernel of a program. %r1 is the thread in its block, %r2 its row, %r3 its block modulo 4, and %r4 the argument. */
function ptxOf({ items }: Program): string {
  const lines: string[] = [];
  let labels = 0;
  const registers = { thread: "%r1", row: "%r2", block: "%r3", argument: "%r4" };
  const registerOf = (source: Source, depth: number) =>
    source !== "turn" ? registers[source] : depth === 0 ? "%r4" : `%r${9 + depth}`;
  const test = ({ source, relation, value, wraps }: Condition, depth: number) => {
    const register = registerOf(source, depth);
    if (wraps !== undefined) return testWrapped(register, { relation, value, wraps });
    if (relation === "odd") lines.push(`and.b32 %r5, ${register}, 1; setp.eq.u32 %p1, %r5, 1;`);
    else lines.push(`setp.${relation}.u32 %p1, ${register}, ${value};`);
  };
  const testWrapped = (
    register: string,
    { relation, value, wraps: { bits, factor, summand, isSigned, isHalf } }: Pick<Condition, "relation" | "value"> & {
      wraps: Wrapping;
    },
  ) => {
    const [from, to] = { 16: ["%h1", "%h2"], 32: ["%r7", "%r8"], 64: ["%rd3", "%rd4"] }[bits] as [string, string];
    const constant = (value: bigint) => `${BigInt.asIntN(bits, value)}`;
    lines.push(bits === 32 ? `mov.u32 ${from}, ${register};` : `cvt.u${bits}.u32 ${from}, ${register};`);
    lines.push(`mad.lo.s${bits} ${to}, ${from}, ${constant(factor)}, ${constant(summand)};`);
    let [compared, width] = [to, bits as number];
    if (isHalf) {
      [compared, width] = bits === 16 ? ["%r8", 32] : ["%rd4", 64];
      lines.push(
        bits === 16 ? `mov.u16 %h3, 0; mov.b32 %r8, {%h2, %h3};` : `mov.u32 %r9, 0; mov.b64 %rd4, {%r8, %r9};`,
      );
    }
    const type = `${isSigned ? "s" : "u"}${width}`;
    if (relation !== "odd") lines.push(`setp.${relation}.${type} %p1, ${compared}, ${value};`);
    else {
      const and = width === 16 ? "%h3" : width === 32 ? "%r9" : "%rd3";
      lines.push(`and.b${width} ${and}, ${compared}, 1; setp.eq.${type} %p1, ${and}, 1;`);
    }
  };
  const write = (item: Item, depth: number) => {
    switch (item.kind) {
      case "barrier":
        return lines.push(`bar.sync ${item.number};`);
      case "store":
        return lines.push("st.global.u32 [%rd1], %r1;");
      case "ballot":
        return lines.push("vote.sync.ballot.b32 %r6, %p2, -1;");
      case "return":
        test(item.condition, depth);
        return lines.push("@%p1 ret;");
      case "if": {
        const label = labels++;
        test(item.condition, depth);
        lines.push(`@!%p1 bra ELSE${label};`);
        for (const each of item.items) write(each, depth);
        lines.push(`bra END${label};`, `ELSE${label}:`);
        for (const each of item.other) write(each, depth);
        return lines.push(`END${label}:`);
      }
      case "loop": {
        const label = labels++;
        const [counter, end] = [`%r${10 + depth}`, `%r${14 + depth}`];
        lines.push(`add.u32 ${end}, ${registerOf(item.source, depth)}, ${item.count};`, `mov.u32 ${counter}, 0;`);
        lines.push(`LOOP${label}:`, `setp.ge.u32 %p1, ${counter}, ${end};`, `@%p1 bra DONE${label};`);
        for (const each of item.items) write(each, depth + 1);
        return lines.push(`add.u32 ${counter}, ${counter}, 1;`, `bra LOOP${label};`, `DONE${label}:`);
      }
    }
  };
  for (const item of items) write(item, 0);
  return kernelOf(
    ".param .u64 x, .param .u32 argument",
    `  .reg .b16 %h<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r4, [argument];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; and.b32 %r3, %r3, 3; setp.eq.u32 %p2, %r1, 0;
  mov.u32 %r5, %ntid.x; mad.lo.u32 %r6, %r2, %r5, %r1; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd1, %rd1, %rd2;
  mul.wide.u32 %rd2, %r3, 256; add.s64 %rd1, %rd1, %rd2;
  ${lines.join("\n  ")}`,
  );
}

interface Thread {
  readonly thread: number;
  readonly row: number;
  readonly block: number;
  readonly argument: number;
}

/** The barriers that a thread comes to, by their places in the program and how often it was in the loops around them. */
function barriersOf(items: readonly Item[], thread: Thread): string[] {
  const found: string[] = [];
  const valueOf = (source: Source, turns: readonly number[]) =>
    source === "turn" ? turns.at(-1) ?? thread.argument : thread[source];
  const holds = ({ source, relation, value, wraps }: Condition, turns: readonly number[]) => {
    const number = valueOf(source, turns);
    const compared = wraps === undefined ? BigInt(number) : wrapped(number, wraps);
    if (relation === "odd") return (compared & 1n) === 1n;
    return relation === "eq" ? compared === BigInt(value) : compared < BigInt(value);
  };
  const run = (items: readonly Item[], turns: readonly number[], path: string): boolean =>
    items.every((item, index) => {
      const here = `${path}.${index}`;
      switch (item.kind) {
        case "barrier":
          return found.push(`${here} ${turns}`) > 0;
        case "return":
          return !holds(item.condition, turns);
        case "if":
          return holds(item.condition, turns) ? run(item.items, turns, `${here}a`) : run(item.other, turns, `${here}b`);
        case "loop": {
          const end = valueOf(item.source, turns) + item.count;
          for (let turn = 0; turn < end; turn++) if (!run(item.items, [...turns, turn], here)) return false;
          return true;
        }
        default:
          return true;
      }
    });
  run(items, [], "");
  return found;
}

/** Whether all threads of each block come to the same barriers, and nothing else is exchanged. */
function hasUniformBarriers({ items, grid, block: [x, y], argument }: Program): boolean {
  for (let block = 0; block < Math.min(grid, 4); block++) {
    const all = new Set<string>();
    for (let row = 0; row < y; row++) {
      for (let thread = 0; thread < x; thread++) all.add(barriersOf(items, { thread, row, block, argument }).join());
    }
    if (all.size > 1) return false;
  }
  return true;
}

function hasBallot(items: readonly Item[]): boolean {
  return items.some((item) =>
    item.kind === "ballot" || item.kind === "loop" && hasBallot(item.items) ||
    item.kind === "if" && (hasBallot(item.items) || hasBallot(item.other))
  );
}

function isProved(ptx: string, { grid, block: [x, y], argument }: Program): boolean {
  const module = parsePtx(ptx);
  const code = new PreparedCode(kernelCode(module.functions[0]!, module));
  const parameters = new DataView(new ArrayBuffer(16));
  parameters.setUint32(8, argument, true);
  return launchResult(code, module.lineInfo, { grid: [grid, 1, 1], block: [x, y, 1], parameters }).hasUniformBarriers;
}

/** What is reported of a launch, and whether its barriers were looked at. */
function reportsOf(ptx: string, program: Program, { looksAtAll }: { looksAtAll: boolean }) {
  const reports: SanitizerReport[] = [];
  const checks = new Set(["synchronization"] as const);
  const sanitizer = new Sanitizer(checks, (report) => reports.push(report));
  const driver = new SoftwareDriver({ devices: 1, peers: true, kernelChecks: checks });
  let isLeftOut = false;
  const launch: KernelChecker["launch"] = (launch, attributes, { hasUniformBarriers = false, ...observation }) => {
    isLeftOut = hasUniformBarriers && !looksAtAll;
    driver.checker.launch(launch, attributes, { ...observation, hasUniformBarriers: isLeftOut });
  };
  const checker: KernelChecker = { ...driver.checker, launch };
  const session = new Session(sanitizer.observe(adaptedDriver(driver, { checker })), {
    instructionSupport,
    sanitizer,
  });
  try {
    using cuda = new Cuda(session);
    const gpu = cuda.device(0);
    using buffer = gpu.allocate(256 * 256);
    const { grid, block, argument } = program;
    gpu.loadModule(ptx).kernel("kernel").launch({ grid, block }, buffer, argument);
    gpu.synchronize();
  } catch (error) {
    const isStopped = error instanceof CudaError || error instanceof SuppressedError;
    if (!isStopped) throw error;
  }
  return { isLeftOut, reports: reports.map(({ kind, message, count }) => ({ kind, message, count })) };
}

test("barriers of random kernels that are proved to be reached by whole blocks", () => {
  const [count, launches] = isLong ? [10_000, 1000] : [40, 20];
  let uniform = 0, proved = 0, reported = 0;
  for (let seed = 1; seed <= count; seed++) {
    const program = randomProgram(new Random(seed));
    const ptx = ptxOf(program);
    const details = () => `seed ${seed}: ${inspect(program, { depth: null })}\n${ptx}`;
    const expected = hasUniformBarriers(program) && !hasBallot(program.items);
    if (expected) uniform++;
    if (isProved(ptx, program)) {
      proved++;
      assert(expected, `proved although threads come to other barriers: ${details()}`);
    }
    if (seed > launches) continue;
    // Of smaller launches, the barriers are looked at in any case.
    const large: Program = { ...program, grid: 4096 / 32 };
    const [one, all] = [false, true].map((looksAtAll) => reportsOf(ptx, large, { looksAtAll }));
    assertEquals(one!.reports, all!.reports, details());
    assertEquals(one!.isLeftOut, isProved(ptx, large), details());
    reported += all!.reports.length;
  }
  assert(uniform > count / 4 && uniform < count * 0.9, `${uniform} of ${count} have uniform barriers`);
  assert(proved > uniform / 2, `${proved} of ${uniform} with uniform barriers are proved to have them`);
  assert(reported > launches / 10, `${reported} reports of ${launches} launches`);
  if (isLong) console.log(`${uniform} of ${count} have uniform barriers, ${proved} are proved to; ${reported} reports`);
});

/** What is computed before a branch of the whole block, around a barrier that only some threads reach. */
const misjudged: Readonly<Record<string, string>> = {
  "the difference of a variable's addresses in two spaces":
    "mov.u64 %rd3, buffer; cvta.shared.u64 %rd4, %rd3; sub.s64 %rd5, %rd4, %rd3; setp.eq.s64 %p1, %rd5, 0;",
  "a variable's address as the upper half of a register":
    "mov.u32 %r7, 5; mov.u32 %r8, buffer; mov.b64 %rd3, {%r7, %r8}; setp.lt.s64 %p1, %rd3, 100;",
};

for (const [what, ptx] of Object.entries(misjudged)) {
  test(`a barrier that only some threads reach is reported behind ${what}`, () => {
    const kernel = kernelOf(
      ".param .u64 x, .param .u32 argument",
      `  .shared .align 4 .b8 padding[16];
  .shared .align 4 .b8 buffer[16];
  mov.u32 %r1, %tid.x;
  st.shared.u32 [padding], %r1;
  ${ptx}
  @%p1 bra DONE;
  setp.lt.u32 %p2, %r1, 48; @%p2 bra DONE;
  bar.sync 0;
DONE:
  ld.param.u64 %rd1, [x]; st.global.u32 [%rd1], %r1;`,
    );
    const program: Program = { items: [], grid: 64, block: [64, 1], argument: 0 };
    for (const looksAtAll of [true, false]) {
      const { reports } = reportsOf(kernel, program, { looksAtAll });
      assertEquals(reports.map(({ kind }) => kind), ["divergent-barrier"]);
    }
    assertEquals(isProved(kernel, program), false);
  });
}
