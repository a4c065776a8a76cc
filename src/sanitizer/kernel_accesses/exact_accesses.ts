/**
 * Computes all accesses of a launch as a driver would observe them: with the source line and the thread that access a
 * byte first. There is no result if these depend on the order in which threads run.
 *
 * @module
 */
import { hasUnknownEffects } from "../../ptx/instructions/instruction_traits.ts";
import type { ResolvedInstruction } from "../../ptx/instructions/resolved_instruction.ts";
import type { AccessParts, LaunchAccess, ThreadIndex } from "../../kernel_checker.ts";
import type { LineInfo } from "../../ptx/line_info.ts";
import { noBase, rangeOf } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, mergedRanges, TooManyRanges } from "./covered_bytes.ts";
import { firstPoint } from "./first_points.ts";
import { accessPartsOf, type InterleavedAccesses, interleavedAccesses } from "./interleaved_accesses.ts";
import type { KernelCode } from "./kernel_code.ts";
import { threadsHaveOwnBytes } from "./separate_accesses.ts";
import type { CertainAccess } from "./thread_state.ts";

/**
 * A dimension of a launch's threads. The value of a special register such as `%tid.x` is the sum of the coordinates of
 * its dimensions, each multiplied by the dimension's weight.
 */
export interface Dimension {
  readonly register: string;
  readonly weight: number;
  readonly extent: number;
}

/**
 * A byte range that is accessed by one source line, or by several interleaved ones. `begin` and `end` are offsets from
 * the value of the parameter `base`.
 */
interface ExactRange extends ByteRange {
  readonly base: number;
  readonly access: CertainAccess["access"];
  readonly source: string;
  readonly first: ThreadIndex;
  readonly parts?: AccessParts | undefined;
}

/**
 * The smallest range that contains all accesses of one kind through a parameter. `begin` and `end` are offsets from the
 * value of the parameter `base`.
 */
interface Extent extends ByteRange {
  readonly base: number;
  readonly access: CertainAccess["access"];
}

/** All accesses of a launch, at offsets from the values of its pointer parameters. */
export interface ExactAccesses {
  readonly ranges: readonly ExactRange[];
  /** For each parameter and kind of access, the extent, rounded outward to whole words. */
  readonly extents: readonly Extent[];
  /** The alignment in bytes that each parameter's value must have, keyed by the parameter's offset. */
  readonly alignments: ReadonlyMap<number, number>;
}

/** The accesses found by a symbolic run of a kernel, which covers all threads of a launch. */
interface KernelAccesses {
  readonly prepared: { readonly code: KernelCode };
  readonly certain: readonly CertainAccess[];
  readonly possible: ReadonlySet<ResolvedInstruction>;
  readonly reachesUntracked: boolean;
}

/** The byte ranges that are accessed by one source line, or by several interleaved instructions. */
interface LineAccesses {
  readonly of: { readonly line: number } | InterleavedAccesses;
  readonly base: number;
  readonly access: CertainAccess["access"];
  readonly ranges: readonly ByteRange[];
}

/** The size in bytes of a word: drivers that observe accesses record the first accessing thread of each word. */
const wordBytes = 4;
/** The maximum number of accessed ranges of a launch. If there are more, the accesses are treated as unknown. */
const mostRanges = 2048;
/** The maximum number of values cached by a function that `remembered` returns. */
const mostRemembered = 1024;
/** The maximum number of steps for computing the accesses of a launch. */
const mostSteps = 20_000;
/**
 * The special registers of block and thread indices, most significant first in the order in which a driver runs blocks
 * and threads.
 */
const axes = ["%ctaid.z", "%ctaid.y", "%ctaid.x", "%tid.z", "%tid.y", "%tid.x"];
const kinds = ["read", "write", "atomic"] as const;

/**
 * Returns all accesses of a launch. Undefined if some are unknown, or if the launch may stop before making all of them.
 */
export function exactAccesses(
  run: KernelAccesses,
  { dimensions, lineInfo }: { dimensions: readonly Dimension[]; lineInfo: LineInfo },
): ExactAccesses | undefined {
  const { certain, possible, reachesUntracked, prepared: { code } } = run;
  if (possible.size > 0 || reachesUntracked) return undefined;
  if (code.analysis.instructions.some(mayStop)) return undefined;
  const alignments = alignmentsOf(certain);
  if (alignments === undefined) return undefined;
  try {
    const lines = byLine(certain) ?? byInterleavedLines(certain, dimensions);
    const extents = lines && extentsOf(lines);
    if (extents === undefined) return undefined;
    const sourceOf = (line: number) => lineInfo.sourceOf(line) ?? `PTX line ${line}`;
    const threads = new FirstThreads(certain, dimensions);
    const ranges = lines!.flatMap(({ of, base, access, ranges }) => {
      const firstOf = remembered((at) => firstThread(certain, dimensions, { base, access, at }));
      return ranges.map(({ begin, end }): ExactRange => {
        const range = { base, access, begin, end, first: threads.of({ base, access, at: begin }) };
        return "line" in of ? { ...range, source: sourceOf(of.line) } : {
          ...range,
          source: sourceOf(of.fields.lineAt(begin)),
          parts: accessPartsOf(of, { origin: begin, sourceOf, firstOf }),
        };
      });
    });
    return { ranges, extents, alignments };
  } catch (error) {
    if (error instanceof TooManyRanges) return undefined;
    throw error;
  }
}

/**
 * Returns whether an instruction may end a launch early. A trap does not count, because it is the end of a basic block.
 */
function mayStop(instruction: ResolvedInstruction): boolean {
  return instruction.form.flow === "call" || hasUnknownEffects(instruction);
}

/**
 * Returns the alignment in bytes that each parameter's value must have so that all accesses through it are aligned to
 * their size and to words. Undefined if no alignment suffices.
 */
function alignmentsOf(certain: readonly CertainAccess[]): ReadonlyMap<number, number> | undefined {
  const alignments = new Map<number, number>();
  for (const { form: { base, constant, terms }, byteLength } of certain) {
    if (base === noBase || [constant, ...terms].some((part) => part % byteLength !== 0)) return undefined;
    alignments.set(base, Math.max(alignments.get(base) ?? wordBytes, byteLength));
  }
  return alignments;
}

/**
 * Returns the bytes that each source line accesses. Undefined if a line accesses memory through several parameters, or
 * if there are too many ranges.
 */
function byLine(certain: readonly CertainAccess[]): LineAccesses[] | undefined {
  try {
    return rangesByLine(certain);
  } catch (error) {
    if (error instanceof TooManyRanges) return undefined;
    throw error;
  }
}

/**
 * Like `byLine`, but merges interleaved accesses. Undefined if the first accessing thread of a word is ambiguous, or if
 * there are still too many ranges.
 */
function byInterleavedLines(
  certain: readonly CertainAccess[],
  dimensions: readonly Dimension[],
): LineAccesses[] | undefined {
  const { interleaved, others } = interleavedAccesses(certain);
  const areKnown = interleaved.every(({ records }) =>
    // Drivers record the first accessing thread of each word, which is unambiguous if only one thread accesses the
    // word.
    records.every(({ form: { constant, terms }, byteLength }) =>
      [constant, byteLength, ...terms].every((part) => part % wordBytes === 0)
    ) && threadsHaveOwnBytes(records, dimensions.length)
  );
  if (!areKnown) return undefined;
  const lines = byLine(others);
  return lines && [
    ...lines,
    ...interleaved.map((of): LineAccesses => ({ of, base: of.base, access: of.access, ranges: of.ranges })),
  ];
}

function rangesByLine(certain: readonly CertainAccess[]): LineAccesses[] | undefined {
  const budget = new Budget(mostSteps);
  const lines = new Map<string, LineAccesses & { ranges: ByteRange[] }>();
  for (const accessed of certain) {
    const { instruction: { line }, access, form: { base } } = accessed;
    const key = `${line} ${access}`;
    let found = lines.get(key);
    if (found === undefined) lines.set(key, found = { of: { line }, base, access, ranges: [] });
    if (found.base !== base) return undefined;
    found.ranges.push(...coveredBytes(accessed, budget));
    if (found.ranges.length > mostRanges) found.ranges = mergedRanges(found.ranges);
  }
  let count = 0;
  for (const found of lines.values()) {
    found.ranges = mergedRanges(found.ranges);
    count += found.ranges.length;
  }
  return count > mostRanges ? undefined : [...lines.values()];
}

/**
 * Returns the extent for each parameter and kind of access. Undefined if several lines access the same byte, because it
 * is unknown which line accesses the byte first.
 */
function extentsOf(lines: readonly LineAccesses[]): Extent[] | undefined {
  const extents: Extent[] = [];
  const groups = Map.groupBy(lines, ({ base, access }) => `${base} ${access}`);
  for (const group of groups.values()) {
    const ranges = group.flatMap(({ ranges }) => ranges);
    if (ranges.length === 0) continue;
    const bytes = (of: readonly ByteRange[]) => of.reduce((sum, { begin, end }) => sum + end - begin, 0);
    const all = mergedRanges(ranges);
    if (bytes(all) !== bytes(ranges)) return undefined;
    const { base, access } = group[0]!;
    extents.push({ base, access, begin: wordFrom(all[0]!.begin), end: wordFrom(all.at(-1)!.end + wordBytes - 1) });
  }
  return extents;
}

/** Returns a function that computes values with `compute` and caches them. */
function remembered<Value>(compute: (at: number) => Value): (at: number) => Value {
  const known = new Map<number, Value>();
  return (at) => {
    if (!known.has(at)) {
      if (known.size >= mostRemembered) known.clear();
      known.set(at, compute(at));
    }
    return known.get(at)!;
  };
}

function firstThread(
  certain: readonly CertainAccess[],
  dimensions: readonly Dimension[],
  place: { readonly base: number; readonly access: CertainAccess["access"]; readonly at: number },
): ThreadIndex | undefined {
  try {
    return new FirstThreads(certain, dimensions).of(place);
  } catch (error) {
    if (error instanceof TooManyRanges) return undefined;
    throw error;
  }
}

function wordFrom(at: number): number {
  return Math.floor(at / wordBytes) * wordBytes;
}

/** Determines the first thread that accesses each word. */
class FirstThreads {
  readonly #certain: readonly CertainAccess[];
  readonly #dimensions: readonly Dimension[];
  readonly #ofBlocks: readonly number[];
  readonly #ofThreads: readonly number[];
  readonly #budget = new Budget(mostSteps);

  constructor(certain: readonly CertainAccess[], dimensions: readonly Dimension[]) {
    this.#certain = certain;
    this.#dimensions = dimensions;
    const order = [...dimensions.keys()].sort((a, b) => {
      const [one, other] = [dimensions[a]!, dimensions[b]!];
      return axes.indexOf(one.register) - axes.indexOf(other.register) || other.weight - one.weight;
    });
    this.#ofBlocks = order.filter((dimension) => dimensions[dimension]!.register.startsWith("%ctaid"));
    this.#ofThreads = order.filter((dimension) => !this.#ofBlocks.includes(dimension));
  }

  /**
   * Returns the first thread that accesses the word at an offset. Assumes that blocks run one after another, and makes
   * no assumption about whether the threads of a block are interleaved.
   *
   * @throws {TooManyRanges} If the result depends on the scheduling of a block's threads
   */
  of({ base, access, at }: { base: number; access: CertainAccess["access"]; at: number }): ThreadIndex {
    const begin = wordFrom(at), end = begin + wordBytes;
    const found: { readonly access: CertainAccess; readonly index: Indices }[] = [];
    for (const known of this.#certain) {
      this.#budget.spend(1);
      if (known.form.base !== base || known.access !== access) continue;
      const range = rangeOf(known.form, known.domain);
      if (range.low >= end || range.high + known.byteLength <= begin) continue;
      const index = this.#first(known, { begin, end }, [...this.#ofBlocks, ...this.#ofThreads]);
      if (index !== undefined) found.push({ access: known, index });
    }
    if (found.length === 0) throw new TooManyRanges();
    const block = found.map(({ index }): Indices => index.slice(0, 3)).reduce(least);
    const those = found.filter(({ index }) => block.every((value, axis) => value === index[axis]));
    const first = those[0]!.index;
    for (const { access, index } of those) {
      const loops = [...access.domain.low.keys()].slice(this.#dimensions.length);
      const others = loops.length === 0
        ? []
        : [loops, loops.toReversed()].map((order) =>
          this.#first(access, { begin, end }, [...this.#ofBlocks, ...order, ...this.#ofThreads])!
        );
      if ([index, ...others].some((other) => other.some((value, axis) => value !== first[axis]))) {
        throw new TooManyRanges();
      }
    }
    const [blockZ, blockY, blockX, threadZ, threadY, threadX] = first as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    return { block: [blockX, blockY, blockZ], thread: [threadX, threadY, threadZ] };
  }

  #first(access: CertainAccess, bytes: ByteRange, order: readonly number[]): Indices | undefined {
    const point = firstPoint(access, bytes, { order, budget: this.#budget });
    if (point === undefined) return undefined;
    const index = axes.map(() => 0);
    this.#dimensions.forEach(({ register, weight }, at) => index[axes.indexOf(register)]! += weight * point[at]!);
    return index;
  }
}

/** The index of a block, followed by the index of a thread in the block. Both in the order of `axes`. */
type Indices = readonly number[];

function least(a: Indices, b: Indices): Indices {
  const at = a.findIndex((value, axis) => value !== b[axis]);
  return at < 0 || a[at]! < b[at]! ? a : b;
}

/**
 * Returns a launch's accesses with absolute addresses, computed from the values of the pointer parameters, in the order
 * in which a driver reports accesses. Undefined if a pointer is misaligned, or if accesses through different pointers
 * overlap, because it is unknown which access comes first.
 */
export function placedAccesses(
  { ranges, extents, alignments }: ExactAccesses,
  parameters: DataView,
): LaunchAccess[] | undefined {
  const starts = new Map<number, number>();
  for (const [base, alignment] of alignments) {
    if (base < 0 || base + 8 > parameters.byteLength) return undefined;
    const start = parameters.getUint32(base, true) + parameters.getUint32(base + 4, true) * 2 ** 32;
    if (start % alignment !== 0 || !Number.isSafeInteger(start)) return undefined;
    starts.set(base, start);
  }
  const areApart = extents.every((one, index) =>
    extents.slice(0, index).every((other) => {
      if (one.base === other.base || one.access !== other.access) return true;
      const [a, b] = [starts.get(one.base)!, starts.get(other.base)!];
      return a + one.end <= b + other.begin || b + other.end <= a + one.begin;
    })
  );
  if (!areApart) return undefined;
  const placed = kinds.flatMap((kind) =>
    ranges.filter(({ access }) => access === kind).map(({ base, begin, end, source, first, parts }) => {
      return { address: starts.get(base)! + begin, byteLength: end - begin, operation: kind, source, first, parts };
    }).sort((a, b) => a.address - b.address)
  );
  return placed.some(({ address }) => address < 0)
    ? undefined
    : placed.map((access) => ({ ...access, address: BigInt(access.address) }));
}
