/**
 * The memory that a launch accesses, by running its kernel for all threads at once.
 *
 * @module
 */
import type { AccessParts } from "../../kernel_checker.ts";
import type { LineInfo } from "../../ptx/line_info.ts";
import { type AffineForm, formOf } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, joined, TooManyRanges, without } from "./covered_bytes.ts";
import { type Dimension, type ExactAccesses, exactAccesses } from "./exact_accesses.ts";
import { KernelRun } from "./kernel_run.ts";
import type { Step } from "./kernel_code.ts";
import { type InterleavedAccesses, interleavedAccesses, partsOf } from "./interleaved_accesses.ts";
import { hasOnlyWeakAccesses, type SeparateRange, separateRanges } from "./separate_accesses.ts";
import {
  type CertainAccess,
  type LaunchNumbers,
  type PreparedCode,
  readsOnlyKnownMemory,
  readsSharedMemory,
  type StepAccess,
} from "./thread_state.ts";
import { SplitDimension } from "./values.ts";

/** The shape of a launch, and its arguments. */
export interface LaunchShape {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
  /** Packed. */
  readonly parameters: DataView;
}

/** Bytes that a launch certainly accesses, counted from the value of a parameter. */
export interface KnownAccess extends ByteRange {
  /** The offset of the parameter among the packed ones. -1 if the bytes are addresses themselves. */
  readonly base: number;
  readonly access: StepAccess["access"];
  readonly source: string;
  /** Which instructions access which of the bytes, if there are several. */
  readonly parts?: AccessParts | undefined;
}

/** The known accesses of a launch, for any values of its pointers. */
export interface LaunchResult {
  readonly known: readonly KnownAccess[];
  /** The instructions whose accesses are not, or not all, known. */
  readonly possible: readonly Step[];
  /** The ranges in which its threads do not conflict, if they conflict nowhere. */
  readonly separate: readonly SeparateRange[] | undefined;
  /** Whether all threads of a block reach each barrier together, and exchange nothing else. */
  readonly hasUniformBarriers: boolean;
  /** Finds out all accesses, if they can be known. */
  exact(): ExactAccesses | undefined;
  /**
   * Whether `known` is all global memory that it accesses, it reads no memory of threads, nor variables, and only what it
   * has written itself of shared memory.
   */
  isAll(): boolean;
  /** The parameters on whose values the result depends. */
  readonly parameters: readonly UsedParameter[];
}

/** A parameter that is a number and not an address. */
export interface UsedParameter {
  readonly offset: number;
  readonly bits: number;
}

const mostRanges = 60_000;
/** With more, accesses are interleaved if they can be. */
const mostRangesAtFirst = 2048;
const mostSplits = 12;
const axes = ["x", "y", "z"] as const;

/** Runs a kernel for the threads of a launch. */
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

/** Splits a dimension into two, or records that it cannot be split. */
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

/** The properties of a launch that instructions can read. */
class Numbers implements LaunchNumbers {
  readonly threadDimensions: readonly number[];
  readonly used = new Map<string, UsedParameter>();
  readonly #shape: LaunchShape;
  readonly #dimensions: readonly Dimension[];
  readonly #whole: ReadonlySet<string> | undefined;
  readonly #specials = new Map<string, AffineForm | undefined>();

  /** @param whole which dimensions cannot be split. Undefined for all */
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

/** The bits of a parameter. Undefined if the launch has none there. */
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

function readsOnlyWhatIsKnown({ reachesElsewhere, phases, prepared: { code } }: KernelRun): boolean {
  if (reachesElsewhere || !readsOnlyKnownMemory(code)) return false;
  return !readsSharedMemory(code) || phases!.readOnlyWritten();
}

/** Computes the accesses of a run, on first use. */
function rangesOf(run: KernelRun, lineInfo: LineInfo): () => Pick<LaunchResult, "known" | "possible"> {
  let found: Pick<LaunchResult, "known" | "possible"> | undefined;
  return () => found ??= findRanges(run, lineInfo);
}

function findRanges({ certain, possible }: KernelRun, lineInfo: LineInfo): Pick<LaunchResult, "known" | "possible"> {
  const sourceOf = (line: number) => lineInfo.sourceOf(line) ?? `PTX line ${line}`;
  const bySource = new Map<string, AccessesOfSource & { ranges: ByteRange[] }>();
  const places = new Map(certain.map((access, index) => [access, index]));
  /** Adds accesses, and returns those whose ranges are too many. */
  const add = (accesses: readonly CertainAccess[], budget: Budget): CertainAccess[] =>
    accesses.filter((accessed) => {
      const { step: { line }, access, form: { base } } = accessed;
      const source = sourceOf(line);
      const key = `${base} ${access} ${source}`;
      let found = bySource.get(key);
      if (found === undefined) {
        found = { base, access, ranges: [], sourceAt: () => source, place: places.get(accessed)! };
        bySource.set(key, found);
      }
      try {
        found.ranges.push(...coveredBytes(accessed, budget));
        if (found.ranges.length > 1000) found.ranges = joined(found.ranges);
        return false;
      } catch (error) {
        if (error instanceof TooManyRanges) return true;
        throw error;
      }
    });
  const { interleaved, others } = interleavedAccesses(add(certain, new Budget(mostRangesAtFirst)));
  const unknown = add(others, new Budget(mostRanges)).map(({ step }) => step);
  const all = [...bySource.values(), ...interleaved.map((each) => interleavedOfSource(each, sourceOf, places))]
    .sort((a, b) => a.place - b.place);
  return { known: knownAccesses(all), possible: [...new Set([...possible, ...unknown])] };
}

/** The bytes that are accessed from one place in the source, or by interleaved accesses. */
interface AccessesOfSource extends Pick<KnownAccess, "base" | "access"> {
  readonly ranges: readonly ByteRange[];
  sourceAt(offset: number): string;
  /** The parts of a range that begins at an offset. */
  readonly partsFrom?: (origin: number) => AccessParts;
  /** Its place among all accesses in program order. */
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
    partsFrom: (origin) => partsOf(accesses, { origin, sourceOf }),
    place: Math.min(...members.map((member) => places.get(member)!)),
  };
}

/** The accesses of each kind, with the first instruction that accesses a byte. */
function knownAccesses(groups: readonly AccessesOfSource[]): KnownAccess[] {
  const covered = new Map<string, readonly ByteRange[]>();
  return groups.flatMap(({ base, access, ranges, sourceAt, partsFrom }) => {
    const key = `${base} ${access}`;
    const before = covered.get(key) ?? [];
    const own = joined(ranges);
    covered.set(key, before.length === 0 ? own : joined([...before, ...own]));
    return without(own, before).map(({ begin, end }): KnownAccess => {
      return { base, access, source: sourceAt(begin), begin, end, parts: partsFrom?.(begin) };
    });
  });
}
