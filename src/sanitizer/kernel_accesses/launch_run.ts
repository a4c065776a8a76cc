/**
 * Computes the memory that a launch accesses, by running its kernel symbolically for all threads at once.
 *
 * @module
 */
import type { AccessParts } from "../../kernel_checker.ts";
import type { LineInfo } from "../../ptx/line_info.ts";
import { type AffineForm, formOf } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, mergedRanges, TooManyRanges, without } from "./covered_bytes.ts";
import { type Dimension, type ExactAccesses, exactAccesses } from "./exact_accesses.ts";
import { KernelRun } from "./kernel_run.ts";
import type { ResolvedInstruction } from "../../ptx/instructions/resolved_instruction.ts";
import { accessPartsOf, type InterleavedAccesses, interleavedAccesses } from "./interleaved_accesses.ts";
import { hasOnlyWeakAccesses, type SeparateRange, separateRanges } from "./separate_accesses.ts";
import {
  type CertainAccess,
  type InstructionAccess,
  type LaunchNumbers,
  type PreparedCode,
  readsOnlyKnownMemory,
  readsSharedMemory,
} from "./thread_state.ts";
import { SplitDimension } from "./values.ts";

/** The shape of a launch, and its arguments. */
export interface LaunchShape {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
  /** The packed values of the kernel's parameters. */
  readonly parameters: DataView;
}

/** A byte range that a launch certainly accesses. `begin` and `end` are offsets from the value of a parameter. */
export interface KnownAccess extends ByteRange {
  /** The parameter's offset in the packed parameters; -1 if `begin` and `end` are absolute addresses. */
  readonly base: number;
  readonly access: InstructionAccess["access"];
  readonly source: string;
  /** If several instructions access the range, the bytes that each of them accesses. */
  readonly parts?: AccessParts | undefined;
}

/** The result of analyzing a launch. It does not depend on the values of pointer parameters. */
export interface LaunchResult {
  readonly known: readonly KnownAccess[];
  /** The instructions that may access memory in addition to `known`. */
  readonly possible: readonly ResolvedInstruction[];
  /** The accessed ranges, if it is proven that threads do not conflict within any of them. Otherwise undefined. */
  readonly separate: readonly SeparateRange[] | undefined;
  /**
   * Whether it is proven that all threads of a block reach each barrier together, and that lanes of a warp exchange no
   * data.
   */
  readonly hasUniformBarriers: boolean;
  /** Returns all accesses, with the first accessing thread of each. Undefined if some accesses are unknown. */
  exact(): ExactAccesses | undefined;
  /**
   * Returns whether `known` contains all accesses to global memory, and all other memory that the launch reads is known
   * to be initialized: it reads no local memory and no variables, and reads shared memory only after writing it.
   */
  isAll(): boolean;
  /** The parameters on whose values this result depends. */
  readonly parameters: readonly UsedParameter[];
}

/** A kernel parameter whose value is used as a number, not as an address. */
export interface UsedParameter {
  readonly offset: number;
  readonly bits: number;
}

/**
 * The maximum number of accessed ranges that are listed for a launch. Accesses beyond the limit are listed as possible
 * accesses.
 */
const mostRanges = 60_000;
/** The number of accessed ranges beyond which interleaved accesses are merged. */
const mostRangesAtFirst = 2048;
/** The maximum number of times that dimensions are split for one launch. */
const mostSplits = 12;
const axes = ["x", "y", "z"] as const;

/**
 * Runs a kernel symbolically for all threads of a launch. If a value is affine only after a dimension is split into
 * two, splits the dimension and runs the kernel again.
 */
export function launchResult(prepared: PreparedCode, lineInfo: LineInfo, shape: LaunchShape): LaunchResult {
  let dimensions = axes.flatMap((axis, index): Dimension[] => [
    { register: `%tid.${axis}`, weight: 1, extent: shape.block[index]! },
    { register: `%ctaid.${axis}`, weight: 1, extent: shape.grid[index]! },
  ]).filter(({ extent }) => extent > 1);
  const whole = new Set<string>();
  for (let split = 0;; split++) {
    const numbers = new Numbers(shape, dimensions, split < mostSplits ? whole : undefined);
    const run = new KernelRun(prepared, numbers, dimensions.length);
    try {
      run.run({ low: dimensions.map(() => 0), high: dimensions.map(({ extent }) => extent - 1), constraints: [] });
      const those = dimensions;
      const ranges = rangesOf(run, lineInfo);
      let isAll: boolean | undefined;
      return {
        get known() {
          return ranges().known;
        },
        get possible() {
          return ranges().possible;
        },
        isAll: () => isAll ??= ranges().possible.length === 0 && readsOnlyWhatIsKnown(run),
        parameters: [...numbers.used.values()],
        separate: separate(run, dimensions.length),
        hasUniformBarriers: prepared.barriers !== "other" && run.phases!.hasUniformBarriers,
        exact: () => exactAccesses(run, { dimensions: those, lineInfo }),
      };
    } catch (error) {
      if (!(error instanceof SplitDimension)) throw error;
      dimensions = splitAt(dimensions, error, whole);
    }
  }
}

/**
 * Returns the dimensions with one of them split into two. If the dimension's extent is not divisible by `size`, adds
 * the dimension to `whole` and does not split it.
 */
function splitAt(
  dimensions: readonly Dimension[],
  { dimension, size }: SplitDimension,
  whole: Set<string>,
): Dimension[] {
  const { register, weight, extent } = dimensions[dimension]!;
  if (extent % size !== 0) {
    whole.add(`${register} ${weight}`);
    return [...dimensions];
  }
  const parts = [
    { register, weight, extent: size },
    { register, weight: weight * size, extent: extent / size },
  ].filter(({ extent }) => extent > 1);
  return [...dimensions.slice(0, dimension), ...parts, ...dimensions.slice(dimension + 1)];
}

/** The properties of a launch that instructions can read: special registers and parameters. */
class Numbers implements LaunchNumbers {
  readonly threadDimensions: readonly number[];
  /** The parameters whose values the run has read so far, keyed by offset and size. */
  readonly used = new Map<string, UsedParameter>();
  readonly #shape: LaunchShape;
  readonly #dimensions: readonly Dimension[];
  readonly #whole: ReadonlySet<string> | undefined;
  readonly #specials = new Map<string, AffineForm | undefined>();

  /**
   * @param whole the dimensions that must not be split, each as a string of its register and weight; undefined if no
   * dimension may be split
   */
  constructor(shape: LaunchShape, dimensions: readonly Dimension[], whole: ReadonlySet<string> | undefined) {
    this.#shape = shape;
    this.#dimensions = dimensions;
    this.threadDimensions = [...dimensions.keys()].filter((index) => dimensions[index]!.register.startsWith("%tid"));
    this.#whole = whole;
  }

  special(name: string): AffineForm | undefined {
    if (!this.#specials.has(name)) this.#specials.set(name, this.#special(name));
    return this.#specials.get(name);
  }

  #special(name: string): AffineForm | undefined {
    if (name === "WARP_SZ") return formOf([], 32);
    const [, register, axis] = /^%(tid|ctaid|ntid|nctaid)\.([xyz])$/.exec(name) ?? [];
    if (register === undefined) return undefined;
    const index = axes.indexOf(axis as "x");
    if (register === "ntid") return formOf([], this.#shape.block[index]);
    if (register === "nctaid") return formOf([], this.#shape.grid[index]);
    return formOf(this.#dimensions.map((dimension) => dimension.register === name ? dimension.weight : 0));
  }

  parameter(offset: number, bits: number, isSigned: boolean): number | undefined {
    this.used.set(`${offset} ${bits}`, { offset, bits });
    const value = parameterBits(this.#shape.parameters, { offset, bits });
    const number = value === undefined ? NaN : Number(isSigned ? BigInt.asIntN(bits, value) : value);
    return Number.isSafeInteger(number) ? number : undefined;
  }

  mayBeSplit(dimension: number): boolean {
    const found = this.#dimensions[dimension];
    return found !== undefined && this.#whole?.has(`${found.register} ${found.weight}`) === false;
  }
}

/** Returns the value of a parameter as an unsigned integer. Undefined if the launch has no parameter at that offset. */
export function parameterBits(parameters: DataView, { offset, bits }: UsedParameter): bigint | undefined {
  if (offset < 0 || offset + bits / 8 > parameters.byteLength) return undefined;
  switch (bits) {
    case 8:
      return BigInt(parameters.getUint8(offset));
    case 16:
      return BigInt(parameters.getUint16(offset, true));
    case 32:
      return BigInt(parameters.getUint32(offset, true));
    default:
      return parameters.getBigUint64(offset, true);
  }
}

function separate(run: KernelRun, dimensions: number): readonly SeparateRange[] | undefined {
  const isSeparate = hasOnlyWeakAccesses(run.prepared.code) && run.phases?.areSeparate();
  return isSeparate ? separateRanges(run, dimensions) : undefined;
}

function readsOnlyWhatIsKnown({ reachesUntracked, phases, prepared: { code } }: KernelRun): boolean {
  if (reachesUntracked || !readsOnlyKnownMemory(code)) return false;
  return !readsSharedMemory(code) || phases!.readOnlyWritten();
}

/** Returns a function that returns the ranges accessed in a run. Its first call computes them. */
function rangesOf(run: KernelRun, lineInfo: LineInfo): () => Pick<LaunchResult, "known" | "possible"> {
  let found: Pick<LaunchResult, "known" | "possible"> | undefined;
  return () => found ??= findRanges(run, lineInfo);
}

function findRanges({ certain, possible }: KernelRun, lineInfo: LineInfo): Pick<LaunchResult, "known" | "possible"> {
  const sourceOf = (line: number) => lineInfo.sourceOf(line) ?? `PTX line ${line}`;
  const bySource = new Map<string, AccessesOfSource & { ranges: ByteRange[] }>();
  const places = new Map(certain.map((access, index) => [access, index]));
  /** Adds the ranges of accesses to `bySource`. Returns the accesses with more ranges than the budget allows. */
  const add = (accesses: readonly CertainAccess[], budget: Budget): CertainAccess[] =>
    accesses.filter((accessed) => {
      const { instruction: { line }, access, form: { base } } = accessed;
      const source = sourceOf(line);
      const key = `${base} ${access} ${source}`;
      let found = bySource.get(key);
      if (found === undefined) {
        found = { base, access, ranges: [], sourceAt: () => source, place: places.get(accessed)! };
        bySource.set(key, found);
      }
      try {
        found.ranges.push(...coveredBytes(accessed, budget));
        if (found.ranges.length > 1000) found.ranges = mergedRanges(found.ranges);
        return false;
      } catch (error) {
        if (error instanceof TooManyRanges) return true;
        throw error;
      }
    });
  const { interleaved, others } = interleavedAccesses(add(certain, new Budget(mostRangesAtFirst)));
  const unknown = add(others, new Budget(mostRanges)).map(({ instruction }) => instruction);
  const all = [...bySource.values(), ...interleaved.map((each) => interleavedOfSource(each, sourceOf, places))]
    .sort((a, b) => a.place - b.place);
  return { known: knownAccesses(all), possible: [...new Set([...possible, ...unknown])] };
}

/** The byte ranges that are accessed by one source line, or by several lines with interleaved accesses. */
interface AccessesOfSource extends Pick<KnownAccess, "base" | "access"> {
  readonly ranges: readonly ByteRange[];
  sourceAt(offset: number): string;
  /**
   * Returns the parts of the range that begins at the offset `origin`. Undefined if only one line accesses the ranges.
   */
  readonly partsFrom?: (origin: number) => AccessParts;
  /** The index, in the order of execution, of the first of the accesses. */
  readonly place: number;
}

function interleavedOfSource(
  accesses: InterleavedAccesses,
  sourceOf: (line: number) => string,
  places: ReadonlyMap<CertainAccess, number>,
): AccessesOfSource {
  const { base, access, ranges, fields, members } = accesses;
  return {
    base,
    access,
    ranges,
    sourceAt: (offset) => sourceOf(fields.lineAt(offset)),
    partsFrom: (origin) => accessPartsOf(accesses, { origin, sourceOf }),
    place: Math.min(...members.map((member) => places.get(member)!)),
  };
}

/**
 * Returns the known accesses without overlaps. A byte that several groups access in the same way is attributed to the
 * first of these groups.
 */
function knownAccesses(groups: readonly AccessesOfSource[]): KnownAccess[] {
  const covered = new Map<string, readonly ByteRange[]>();
  return groups.flatMap(({ base, access, ranges, sourceAt, partsFrom }) => {
    const key = `${base} ${access}`;
    const before = covered.get(key) ?? [];
    const own = mergedRanges(ranges);
    covered.set(key, before.length === 0 ? own : mergedRanges([...before, ...own]));
    return without(own, before).map(({ begin, end }): KnownAccess => {
      return { base, access, source: sourceAt(begin), begin, end, parts: partsFrom?.(begin) };
    });
  });
}
